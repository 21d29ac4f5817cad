/* JSON from strangers: the guard that stands before json-c, and typed dispatch of an object's
 * members into a struct. Called wherever foreign JSON enters (varlink, engine protocol, index
 * files). json-c alone, even STRICT, accepts duplicate keys, NaN, single quotes, raw control
 * characters, escaped NULs and clamps integers (json-c 0.16, measured); nothing of that passes
 * here. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <json-c/json.h>

#include "common/cleanup.h"

#define JSON_DEPTH_MAX 32
/* Members and elements in one document, together; bounds the work that colliding keys can cause. */
#define JSON_ITEMS_MAX (64 * 1024)

static inline void json_putp(json_object **o)
{
    json_object_put(*o);
}
#define _cleanup_json_ _cleanup_(json_putp)

/* Parses @size bytes (no terminator counted) as one JSON object. Returns 0 with a reference in
 * @ret, -EBADMSG for anything that is not strict JSON in valid UTF-8 or breaks a rule above, -E2BIG
 * for too many items, -ENOMEM. */
int json_parse_guarded(const char *data, size_t size, json_object **ret);
/* The same for a document that may be an array, too: that becomes the member "items" of an object.
 */
int json_parse_items(const char *data, size_t size, json_object **ret);
/* As json_parse_guarded(), with all of a file; -EBADMSG also if it is no regular one, is empty or
 * has more than @max bytes, and what fstat(2) and pread(2) say. */
int json_parse_file(int fd, size_t max, json_object **ret);

enum json_field_type {
    JSON_FIELD_STRING, /* const char *, borrowed from the object, no NUL inside */
    JSON_FIELD_BOOL,   /* bool */
    JSON_FIELD_UINT64, /* uint64_t, a JSON integer from .min to .max */
    JSON_FIELD_INT64,  /* int64_t, from (int64_t).min to (int64_t).max */
    JSON_FIELD_UINT32, /* uint32_t, from .min to .max */
    JSON_FIELD_OBJECT, /* json_object *, borrowed */
    JSON_FIELD_ARRAY,  /* json_object *, borrowed */
};

/* One member of an object. A member that is absent or null leaves the target as it was, unless it
 * is mandatory. @max of a string is its length in bytes; 0 means unlimited. */
struct json_field {
    const char *name;
    enum json_field_type type;
    size_t offset;
    bool mandatory;
    uint64_t min, max;
};

/* Dispatches every member of @object into @target by @fields. Returns 0, or -EINVAL with the name
 * of the first offending member in @ret_field (borrowed from @fields or @object). Unknown members
 * offend unless @ignore_unknown. */
int json_dispatch(json_object *object, const struct json_field *fields, size_t n_fields,
                  bool ignore_unknown, void *target, const char **ret_field);

/* The string that is the member @key of @object, borrowed; NULL if there is none, or it is
 * something else. */
const char *json_get_string(json_object *object, const char *key);

/* The same of a number; 0 if there is none. */
uint64_t json_get_number(json_object *object, const char *key);

/* Serialises without escaping slashes. Borrowed from @object, valid until it changes. */
const char *json_text(json_object *object, size_t *ret_size);

/* Adds a member; the value's reference is consumed. Returns 0 or -ENOMEM (also when @object or
 * @value is NULL because its own allocation failed). */
int json_add(json_object *object, const char *key, json_object *value);
/* The same with a new value; a NULL string and a number above INT64_MAX add nothing. */
int json_add_string(json_object *object, const char *key, const char *value);
int json_add_uint64(json_object *object, const char *key, uint64_t value);
int json_add_bool(json_object *object, const char *key, bool value);
/* Adds an element to @array, as json_add() does a member. */
int json_append(json_object *array, json_object *value);
