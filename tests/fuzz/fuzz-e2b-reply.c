/* The control plane's replies. What is taken from them goes into paths, headers and sentences, so
 * it must be harmless there. */
#include <stdint.h>
#include <string.h>

#include "check.h"
#include "engine/e2b/control-plane.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int on_listed(const char *id, json_object *labels, void *userdata)
{
    check(cloud_token_is_plain(id) && strlen(id) < CLOUD_ID_MAX);
    check(!labels || json_object_is_type(labels, json_type_object));
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1), words[CLOUD_WORDS_MAX];
    struct cloud_sandbox sandbox = { 0 };

    memcpy(text, data, size);
    text[size] = '\0';
    int r = cloud_parse_created(text, size, &sandbox);
    check(r < 0 || (cloud_token_is_plain(sandbox.id) && cloud_token_is_plain(sandbox.token) &&
                    cloud_token_is_plain(sandbox.version)));
    check(sandbox.id[0] == '\0' || cloud_token_is_plain(sandbox.id));
    check(sandbox.domain[0] == '\0' || cloud_token_is_plain(sandbox.domain));
    check(cloud_parse_life(text, size) >= -EBADMSG);
    r = cloud_parse_list(text, size, on_listed, NULL);
    check(r >= 0 || r == -EBADMSG);
    const struct http_reply reply = { .text = text, .size = size };
    cloud_words(&reply, words);
    check(words[0] != '\0');
    for (const char *p = words; *p; p++)
        check(*p >= ' ' && *p <= '~');
    free(text);
    return 0;
}
