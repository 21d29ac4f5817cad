/* Inputs as JSON, see store-input.h. */
#include "broker/store-input.h"
#include "common/cleanup.h"
#include "common/escape.h"

#include <errno.h>
#include <string.h>

/* Bits, not numbers: an inode above INT64_MAX comes back as it was. */
struct raw {
    const char *name;
    int64_t inode, size, ctime_sec, ctime_nsec, mtime_sec, mtime_nsec;
};

#define NUMBER(n, member)                                                                       \
    {                                                                                           \
        n, JSON_FIELD_INT64, offsetof(struct raw, member), true, (uint64_t)INT64_MIN, INT64_MAX \
    }
static const struct json_field fields[] = {
    { "name", JSON_FIELD_STRING, offsetof(struct raw, name), true, 0, 0 },
    NUMBER("inode", inode),
    NUMBER("size", size),
    NUMBER("ctimeSec", ctime_sec),
    NUMBER("ctimeNsec", ctime_nsec),
    NUMBER("mtimeSec", mtime_sec),
    NUMBER("mtimeNsec", mtime_nsec),
};

static int add_number(json_object *object, const char *key, int64_t value)
{
    return json_add(object, key, json_object_new_int64(value));
}

static json_object *store_input_make(const struct store_input *input)
{
    _cleanup_json_ json_object *object = json_object_new_object();
    _cleanup_free_ char *name = escape_text(input->name, strlen(input->name), 0);

    if (!object || !name || json_add_string(object, "name", name) < 0 ||
        add_number(object, "inode", (int64_t)input->inode) < 0 ||
        add_number(object, "size", (int64_t)input->size) < 0 ||
        add_number(object, "ctimeSec", input->ctime_sec) < 0 ||
        add_number(object, "ctimeNsec", input->ctime_nsec) < 0 ||
        add_number(object, "mtimeSec", input->mtime_sec) < 0 ||
        add_number(object, "mtimeNsec", input->mtime_nsec) < 0)
        return NULL;
    return TAKE_PTR(object);
}

json_object *store_inputs_make(const struct store_input *inputs, size_t n)
{
    _cleanup_json_ json_object *array = json_object_new_array();

    for (size_t i = 0; array && i < n; i++)
        if (json_append(array, store_input_make(&inputs[i])) < 0)
            return NULL;
    return TAKE_PTR(array);
}

int store_input_parse(json_object *object, const char **ret_name, struct store_input *ret)
{
    struct raw raw = { 0 };
    const char *offending;

    if (!json_object_is_type(object, json_type_object) ||
        json_dispatch(object, fields, ELEMENTS(fields), false, &raw, &offending) < 0)
        return -EBADMSG;
    *ret_name = raw.name;
    *ret = (struct store_input){
        .inode = (uint64_t)raw.inode,
        .size = (uint64_t)raw.size,
        .ctime_sec = raw.ctime_sec,
        .ctime_nsec = raw.ctime_nsec,
        .mtime_sec = raw.mtime_sec,
        .mtime_nsec = raw.mtime_nsec,
    };
    return 0;
}
