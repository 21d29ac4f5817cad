/* Lists as arrays of JSON and back, see protocol-lists.h. */
#include "protocol-lists.h"

/* ---- out */

json_object *egress_names_array(const struct host_list *list)
{
    _cleanup_json_ json_object *array = json_object_new_array();

    for (size_t i = 0; array && i < list->n; i++)
        if (json_append(array, json_object_new_string(list->items[i])) < 0)
            return NULL;
    return TAKE_PTR(array);
}

json_object *egress_addresses_array(const struct ip_prefix_list *list)
{
    _cleanup_json_ json_object *array = json_object_new_array();
    char text[IP_PREFIX_TEXT_MAX];

    for (size_t i = 0; array && i < list->n; i++) {
        ip_prefix_format(&list->items[i], text);
        if (json_append(array, json_object_new_string(text)) < 0)
            return NULL;
    }
    return TAKE_PTR(array);
}

json_object *egress_ports_array(const struct egress_ports *ports)
{
    _cleanup_json_ json_object *array = json_object_new_array();

    for (size_t i = 0; array && i < ports->n; i++)
        if (json_append(array, json_object_new_int(ports->items[i])) < 0)
            return NULL;
    return TAKE_PTR(array);
}

/* ---- in */

static size_t array_length(json_object *array)
{
    return array ? json_object_array_length(array) : 0;
}

/* The text of an element, borrowed; NULL if it is none. */
static const char *element_text(json_object *array, size_t i)
{
    json_object *element = json_object_array_get_idx(array, i);

    return json_object_is_type(element, json_type_string) ? json_object_get_string(element) : NULL;
}

/* -EINVAL of the lists is -EBADMSG here. */
int egress_names_read(json_object *array, struct host_list *ret)
{
    for (size_t i = 0; i < array_length(array); i++) {
        const char *text = element_text(array, i);
        int r = text ? host_list_add(ret, text) : -EINVAL;
        if (r < 0)
            return r == -EINVAL ? -EBADMSG : r;
    }
    return 0;
}

int egress_addresses_read(json_object *array, struct ip_prefix_list *ret)
{
    for (size_t i = 0; i < array_length(array); i++) {
        const char *text = element_text(array, i);
        int r = text ? ip_prefix_list_add(ret, text) : -EINVAL;
        if (r < 0)
            return r == -EINVAL ? -EBADMSG : r;
    }
    return 0;
}

int egress_ports_read(json_object *array, struct egress_ports *ret)
{
    if (array_length(array) > EGRESS_PORTS_MAX - ret->n)
        return -EBADMSG;
    for (size_t i = 0; i < array_length(array); i++) {
        json_object *element = json_object_array_get_idx(array, i);
        int64_t port =
            json_object_is_type(element, json_type_int) ? json_object_get_int64(element) : 0;
        if (port < 1 || port > UINT16_MAX)
            return -EBADMSG;
        ret->items[ret->n++] = (uint16_t)port;
    }
    return 0;
}
