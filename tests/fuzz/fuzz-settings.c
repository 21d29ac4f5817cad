/* Somebody's settings file. What was added is there the next time, and without it every byte is as
 * it was. */
#include <stdint.h>
#include <string.h>

#include "client/settings-json.h"
#include "client/settings-toml.h"
#include "common/cleanup.h"

#include "check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* @after is @before with one piece more. */
static void check_insertion(const char *before, size_t size, const char *after)
{
    size_t length = strlen(after), same = 0;

    check(length > size);
    while (same < size && before[same] == after[same])
        same++;
    check(memcmp(before + same, after + length - (size - same), size - same) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    _cleanup_free_ char *json = NULL, *toml = NULL, *again = NULL;
    const char *text = (const char *)data, *value = "{ \"c\": 1 }", *body = "c = 1\n";

    if (settings_json_add(text, size, "g", "n", value, &json) == 1) {
        if (memchr(text, '{', size))
            check_insertion(text, size, json);
        check(settings_json_add(json, strlen(json), "g", "n", value, &again) == 0);
    }
    if (settings_toml_add(text, size, "g", "n", body, &toml) == 1) {
        check_insertion(text, size, toml);
        check(settings_toml_add(toml, strlen(toml), "g", "n", body, &again) == 0);
    }
    return 0;
}
