/* The guard before json-c and typed dispatch of objects, see json.h. json-scan.c decides what is
 * JSON; json-c only builds the tree of what it let through, and both must agree on the number of
 * members. */
#include "json.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "file.h"
#include "json-scan.h"

/* Counts the members of all objects in the tree, which the scanner has bounded in depth and number.
 * Returns -EBADMSG for a number that became infinite. */
static ssize_t count_members(json_object *value)
{
    ssize_t n = 0, r;

    if (json_object_is_type(value, json_type_double))
        return isfinite(json_object_get_double(value)) ? 0 : -EBADMSG;
    if (json_object_is_type(value, json_type_array)) {
        for (size_t i = 0; i < json_object_array_length(value); i++) {
            r = count_members(json_object_array_get_idx(value, i));
            if (r < 0)
                return r;
            n += r;
        }
    } else if (json_object_is_type(value, json_type_object)) {
        n = json_object_object_length(value);
        json_object_object_foreach(value, key, member)
        {
            (void)key;
            r = count_members(member);
            if (r < 0)
                return r;
            n += r;
        }
    }
    return n;
}

static void tokener_freep(struct json_tokener **tokener)
{
    if (*tokener)
        json_tokener_free(*tokener);
}

int json_parse_guarded(const char *data, size_t size, json_object **ret)
{
    _cleanup_(tokener_freep) struct json_tokener *tokener = NULL;
    _cleanup_json_ json_object *object = NULL;
    struct json_extent extent;
    ssize_t members;
    int r;

    if (size > INT_MAX)
        return -EBADMSG;
    r = json_scan(data, size, &extent);
    if (r < 0)
        return r;

    /* json-c counts a scalar as a level too; the depth is the scanner's business. */
    tokener = json_tokener_new_ex(JSON_DEPTH_MAX + 2);
    if (!tokener)
        return -ENOMEM;
    /* No flags: the scanner was strict already, and JSON_TOKENER_STRICT of json-c 0.18 takes every
     * byte above 0x7f in a string for a control character where char is signed (measured). */
    object = json_tokener_parse_ex(tokener, extent.start, (int)extent.size);
    if (!object || json_tokener_get_parse_end(tokener) != extent.size)
        return -EBADMSG;

    /* Of a repeated key json-c keeps the last value only, so each repetition (told after
     * unescaping) makes its object, and with it the sum, smaller than what the scanner counted. */
    members = count_members(object);
    if (members < 0 || (size_t)members != extent.members)
        return -EBADMSG;
    *ret = TAKE_PTR(object);
    return 0;
}

int json_parse_items(const char *data, size_t size, json_object **ret)
{
    _cleanup_free_ char *wrapped = NULL;
    _cleanup_json_ json_object *object = NULL;

    if (size > INT_MAX)
        return -EBADMSG;
    if (size == 0 || data[0] != '[')
        return json_parse_guarded(data, size, ret);
    /* The printing would end there. */
    if (memchr(data, '\0', size))
        return -EBADMSG;
    int n = asprintf(&wrapped, "{\"items\":%.*s}", (int)size, data);
    if (n < 0) {
        wrapped = NULL;
        return -ENOMEM;
    }
    int r = json_parse_guarded(wrapped, (size_t)n, &object);
    if (r < 0)
        return r;
    /* What follows the array would have become members beside it. */
    if (json_object_object_length(object) != 1)
        return -EBADMSG;
    *ret = TAKE_PTR(object);
    return 0;
}

int json_parse_file(int fd, size_t max, json_object **ret)
{
    struct stat st;

    if (fstat(fd, &st) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode) || st.st_size <= 0 || (uint64_t)st.st_size > max)
        return -EBADMSG;
    size_t size = (size_t)st.st_size;
    _cleanup_free_ char *text = malloc(size);
    if (!text)
        return -ENOMEM;
    ssize_t n = pread_full(fd, text, size, 0);
    if (n < 0)
        return (int)n;
    return (size_t)n < size ? -EBADMSG : json_parse_guarded(text, size, ret);
}

/* True, and the value in @ret, if @value is an integer that an int64_t holds. */
static bool get_int64(json_object *value, int64_t *ret)
{
    if (!json_object_is_type(value, json_type_int))
        return false;
    *ret = json_object_get_int64(value);
    return *ret < 0 || (uint64_t)*ret == json_object_get_uint64(value);
}

static bool get_unsigned(json_object *value, const struct json_field *field, uint64_t *ret)
{
    int64_t n;

    if (!get_int64(value, &n) || n < 0 || (uint64_t)n < field->min || (uint64_t)n > field->max)
        return false;
    *ret = (uint64_t)n;
    return true;
}

/* Stores @value, which is not null, as @field says; false if its type or range is another. */
static bool dispatch_value(json_object *value, const struct json_field *field, void *target)
{
    const char *text;
    uint64_t number;
    int64_t integer;
    size_t length;

    switch (field->type) {
    case JSON_FIELD_STRING:
        if (!json_object_is_type(value, json_type_string))
            return false;
        text = json_object_get_string(value);
        length = (size_t)json_object_get_string_len(value);
        if (strlen(text) != length || (field->max > 0 && length > field->max))
            return false;
        *(const char **)target = text;
        return true;
    case JSON_FIELD_BOOL:
        if (!json_object_is_type(value, json_type_boolean))
            return false;
        *(bool *)target = json_object_get_boolean(value);
        return true;
    case JSON_FIELD_UINT64:
        if (!get_unsigned(value, field, &number))
            return false;
        *(uint64_t *)target = number;
        return true;
    case JSON_FIELD_UINT32:
        if (!get_unsigned(value, field, &number) || number > UINT32_MAX)
            return false;
        *(uint32_t *)target = (uint32_t)number;
        return true;
    case JSON_FIELD_INT64:
        if (!get_int64(value, &integer) || integer < (int64_t)field->min ||
            integer > (int64_t)field->max)
            return false;
        *(int64_t *)target = integer;
        return true;
    case JSON_FIELD_OBJECT:
    case JSON_FIELD_ARRAY:
        if (!json_object_is_type(value, field->type == JSON_FIELD_OBJECT ? json_type_object
                                                                         : json_type_array))
            return false;
        *(json_object **)target = value;
        return true;
    }
    return false;
}

static const struct json_field *find_field(const struct json_field *fields, size_t n_fields,
                                           const char *name)
{
    for (size_t i = 0; i < n_fields; i++)
        if (strcmp(fields[i].name, name) == 0)
            return &fields[i];
    return NULL;
}

int json_dispatch(json_object *object, const struct json_field *fields, size_t n_fields,
                  bool ignore_unknown, void *target, const char **ret_field)
{
    if (!json_object_is_type(object, json_type_object)) {
        *ret_field = "";
        return -EINVAL;
    }
    json_object_object_foreach(object, name, value)
    {
        const struct json_field *field = find_field(fields, n_fields, name);

        if (field ? value && !dispatch_value(value, field, (char *)target + field->offset)
                  : !ignore_unknown) {
            *ret_field = field ? field->name : name;
            return -EINVAL;
        }
    }
    for (size_t i = 0; i < n_fields; i++)
        if (fields[i].mandatory && !json_object_object_get(object, fields[i].name)) {
            *ret_field = fields[i].name;
            return -EINVAL;
        }
    return 0;
}

const char *json_get_string(json_object *object, const char *key)
{
    json_object *value = json_object_object_get(object, key);

    return json_object_is_type(value, json_type_string) ? json_object_get_string(value) : NULL;
}

uint64_t json_get_number(json_object *object, const char *key)
{
    return json_object_get_uint64(json_object_object_get(object, key));
}

const char *json_text(json_object *object, size_t *ret_size)
{
    return json_object_to_json_string_length(
        object, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE, ret_size);
}

int json_add(json_object *object, const char *key, json_object *value)
{
    if (!value)
        return -ENOMEM;
    if (!object || json_object_object_add(object, key, value) < 0) {
        json_object_put(value);
        return -ENOMEM;
    }
    return 0;
}

int json_add_string(json_object *object, const char *key, const char *value)
{
    return value ? json_add(object, key, json_object_new_string(value)) : 0;
}

int json_add_uint64(json_object *object, const char *key, uint64_t value)
{
    return value <= INT64_MAX ? json_add(object, key, json_object_new_int64((int64_t)value)) : 0;
}

int json_add_bool(json_object *object, const char *key, bool value)
{
    return json_add(object, key, json_object_new_boolean(value));
}

int json_append(json_object *array, json_object *value)
{
    if (array && value && json_object_array_add(array, value) == 0)
        return 0;
    json_object_put(value);
    return -ENOMEM;
}
