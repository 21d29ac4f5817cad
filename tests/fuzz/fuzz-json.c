/* The JSON guard on arbitrary bytes. What it takes must mean the same when it is written and read
 * again, and have each key once; what it dispatches must be in range. */
#include "common/json.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct target {
    const char *string;
    bool boolean;
    uint64_t big;
    int64_t number;
    uint32_t small;
    json_object *object, *array;
};

static const struct json_field fields[] = {
    { "s", JSON_FIELD_STRING, offsetof(struct target, string), .max = 10 },
    { "b", JSON_FIELD_BOOL, offsetof(struct target, boolean) },
    { "u", JSON_FIELD_UINT64, offsetof(struct target, big), .min = 2, .max = 1000 },
    { "i", JSON_FIELD_INT64, offsetof(struct target, number), .min = (uint64_t)-5, .max = 5 },
    { "w", JSON_FIELD_UINT32, offsetof(struct target, small), .max = UINT32_MAX },
    { "o", JSON_FIELD_OBJECT, offsetof(struct target, object) },
    { "a", JSON_FIELD_ARRAY, offsetof(struct target, array) },
};

static void check(bool good)
{
    if (!good)
        abort();
}

static void check_dispatch(json_object *object)
{
    struct target t = { .big = 2 };
    const char *field = NULL;

    if (json_dispatch(object, fields, ELEMENTS(fields), true, &t, &field) < 0) {
        check(field != NULL);
        return;
    }
    check(!t.string || strlen(t.string) <= 10);
    check(t.big >= 2 && t.big <= 1000 && t.number >= -5 && t.number <= 5);
    check(!t.object || json_object_is_type(t.object, json_type_object));
    check(!t.array || json_object_is_type(t.array, json_type_array));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    _cleanup_json_ json_object *first = NULL, *second = NULL;
    size_t first_size, second_size;
    const char *text;
    int r;

    r = json_parse_guarded((const char *)data, size, &first);
    check(r == 0 || (r == -EBADMSG && !first) || (r == -E2BIG && !first));
    if (r < 0)
        return 0;
    check_dispatch(first);
    text = json_text(first, &first_size);
    check(strlen(text) == first_size);
    check(json_parse_guarded(text, first_size, &second) == 0);
    check(strcmp(text, json_text(second, &second_size)) == 0);
    return 0;
}
