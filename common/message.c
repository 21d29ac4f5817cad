/* Heads and bytes of messages in JSON, see message.h. */
#include "common/message.h"

#include <string.h>

struct head {
    uint32_t version;
    const char *type;
};

static const struct json_field head_fields[] = {
    FIELD_UINT32(head, "version", version, 0, UINT32_MAX, MANDATORY),
    FIELD_TEXT(head, "type", type, 16, MANDATORY),
};

static int find_type(const struct message_protocol *protocol, const char *name)
{
    for (size_t i = 0; i < protocol->n_types; i++)
        if (strcmp(protocol->types[i].name, name) == 0)
            return (int)i;
    return -1;
}

int message_open(const struct message_protocol *protocol, const char *data, size_t size,
                 json_object **ret, int *ret_type)
{
    _cleanup_json_ json_object *object = NULL;
    struct head head = { 0 };
    const char *field;

    int r = json_parse_guarded(data, size, &object);
    if (r < 0)
        return r == -ENOMEM ? r : -EBADMSG;
    if (json_dispatch(object, head_fields, ELEMENTS(head_fields), true, &head, &field) < 0)
        return -EBADMSG;
    int type = find_type(protocol, head.type);
    if (head.version != protocol->version || type < 0)
        return -EPROTONOSUPPORT;
    *ret = TAKE_PTR(object);
    *ret_type = type;
    return 0;
}

int message_dispatch(const struct message_protocol *protocol, int type, json_object *object,
                     void *target)
{
    const struct message_type *t = &protocol->types[type];
    const char *field;

    return json_dispatch(object, t->fields, t->n_fields, true, target, &field) < 0 ? -EBADMSG : 0;
}

int message_new(const struct message_protocol *protocol, int type, json_object **ret)
{
    _cleanup_json_ json_object *object = json_object_new_object();

    int r = json_add_string(object, "type", protocol->types[type].name);
    r = r < 0 ? r : json_add_uint64(object, "version", protocol->version);
    if (r < 0)
        return r;
    *ret = TAKE_PTR(object);
    return 0;
}

int message_write(const struct message_protocol *protocol, json_object *object, char **ret,
                  size_t *ret_size)
{
    size_t size;

    const char *text = json_text(object, &size);
    if (!text)
        return -ENOMEM;
    if (size > protocol->packet_max)
        return -EMSGSIZE;
    char *copy = strndup(text, size);
    if (!copy)
        return -ENOMEM;
    *ret = copy;
    *ret_size = size;
    return 0;
}

int message_find_name(const char *const *names, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(names[i], name) == 0)
            return (int)i;
    return -1;
}

void message_copy_text(char *target, const char *text)
{
    strcpy(target, text ? text : "");
}
