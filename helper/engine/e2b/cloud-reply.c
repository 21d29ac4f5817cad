/* What the control plane's replies say, see control-plane.h. Pure: bytes in, structs and words out;
 * unknown members are ignored, and nothing is believed that is used in a path or a header. */
#include "control-plane.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "common/cleanup.h"
#include "key.h"

#define LIST_MAX 1000

bool cloud_token_is_plain(const char *text)
{
    return text[0] != '\0' &&
           text[strspn(
               text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.")] == '\0';
}

/* A name is told to everybody, so none has the key in it. */
static bool copy(char *target, size_t size, const char *text)
{
    return text && cloud_token_is_plain(text) && !key_is_in(text) &&
           (size_t)snprintf(target, size, "%s", text) < size;
}

int cloud_parse_created(const char *text, size_t size, struct cloud_sandbox *ret)
{
    _cleanup_json_ json_object *reply = NULL;
    struct cloud_sandbox sandbox = { 0 };

    if (json_parse_items(text, size, &reply) < 0)
        return -EBADMSG;
    if (!copy(sandbox.id, sizeof(sandbox.id), json_get_string(reply, "sandboxID")))
        return -EBADMSG;
    /* The id is kept in any case: there is a sandbox to be removed. */
    *ret = sandbox;
    const char *domain = json_get_string(reply, "domain");
    if (domain && domain[0] != '\0' && !copy(sandbox.domain, sizeof(sandbox.domain), domain))
        return -EBADMSG;
    if (!copy(sandbox.token, sizeof(sandbox.token), json_get_string(reply, "envdAccessToken")))
        return -EKEYREJECTED;
    if (!copy(sandbox.version, sizeof(sandbox.version), json_get_string(reply, "envdVersion")))
        return -EBADMSG;
    *ret = sandbox;
    return 0;
}

/* RFC 3339 in UTC; fractions do not matter. */
static bool parse_time(const char *text, int64_t *ret)
{
    struct tm tm = { 0 };
    const char *rest = text ? strptime(text, "%Y-%m-%dT%H:%M:%S", &tm) : NULL;

    if (!rest)
        return false;
    if (*rest == '.')
        rest += 1 + strspn(rest + 1, "0123456789");
    if (strcmp(rest, "Z") != 0 && strcmp(rest, "+00:00") != 0)
        return false;
    *ret = timegm(&tm);
    return true;
}

int64_t cloud_parse_life(const char *text, size_t size)
{
    _cleanup_json_ json_object *reply = NULL;
    int64_t started, end;

    if (json_parse_items(text, size, &reply) < 0 ||
        !parse_time(json_get_string(reply, "startedAt"), &started) ||
        !parse_time(json_get_string(reply, "endAt"), &end) || end < started)
        return -EBADMSG;
    return end - started;
}

int cloud_parse_list(const char *text, size_t size, cloud_listed_fn fn, void *userdata)
{
    _cleanup_json_ json_object *reply = NULL;
    json_object *items;
    int n = 0;

    if (json_parse_items(text, size, &reply) < 0 ||
        !json_object_object_get_ex(reply, "items", &items) ||
        !json_object_is_type(items, json_type_array))
        return -EBADMSG;
    for (size_t i = 0; i < json_object_array_length(items) && n < LIST_MAX; i++) {
        json_object *item = json_object_array_get_idx(items, i), *labels = NULL;
        char id[CLOUD_ID_MAX];
        if (!json_object_is_type(item, json_type_object) ||
            !copy(id, sizeof(id), json_get_string(item, "sandboxID")))
            continue;
        json_object_object_get_ex(item, "metadata", &labels);
        int r = fn(id, json_object_is_type(labels, json_type_object) ? labels : NULL, userdata);
        if (r < 0)
            return r;
        n++;
    }
    return n;
}

/* ---- words */

/* Copies plain text: of markup what stands between the tags, of white space one space. */
static void clean(const char *text, size_t size, char *ret, size_t room)
{
    bool tag = false, space = false;
    size_t n = 0;

    for (size_t i = 0; i < size && n + 2 < room; i++) {
        char c = text[i];
        if (c == '<')
            tag = true;
        else if (c == '>' && tag) {
            tag = false;
            space = true;
        } else if (c <= ' ' || c > '~')
            space = true;
        else if (!tag) {
            if (space && n > 0)
                ret[n++] = ' ';
            space = false;
            ret[n++] = c;
        }
    }
    ret[n] = '\0';
}

void cloud_words(const struct http_reply *reply, char ret[CLOUD_WORDS_MAX])
{
    _cleanup_json_ json_object *body = NULL;
    const char *words = NULL;
    size_t size = reply->text ? reply->size : 0;

    ret[0] = '\0';
    if (reply->text && json_parse_items(reply->text, reply->size, &body) >= 0)
        words = json_get_string(body, "message");
    if (words)
        size = strlen(words);
    else
        words = reply->text;
    /* All of it, since a half of the key would not be found in what is cut. */
    _cleanup_free_ char *cleaned = malloc(size + 2);
    if (cleaned && size > 0) {
        clean(words, size, cleaned, size + 2);
        key_scrub(cleaned, strlen(cleaned));
        snprintf(ret, CLOUD_WORDS_MAX, "%s", cleaned);
    }
    if (ret[0] == '\0')
        snprintf(ret, CLOUD_WORDS_MAX, "it says nothing about why");
}
