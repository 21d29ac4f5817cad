/* Names of images, see image-reference.h. */
#include "common/image-reference.h"

#include <string.h>

#include "common/cleanup.h"

#define LOWER "abcdefghijklmnopqrstuvwxyz"
#define UPPER "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS "0123456789"
#define HEX DIGITS "abcdef"
#define HEX_LENGTH 64
#define TAG_MAX 128

/* The grammar is the registry's (distribution/reference, regexp.go), without what has a second
 * meaning to a daemon: it would take 64 hex digits, or "sha256:...", for the id of an image. Each
 * of these skips one part; NULL: it is none. */

/* Letters and digits with single separators between them; "__" and any number of "-" are one. */
static const char *skip_component(const char *at)
{
    for (;;) {
        size_t n = strspn(at, LOWER DIGITS);
        if (n == 0)
            return NULL;
        at += n;
        size_t dashes = strspn(at, "-"), lines = strspn(at, "_");
        if (dashes == 0 && lines == 0 && *at != '.')
            return at;
        if (lines > 2)
            return NULL;
        at += dashes > 0 ? dashes : lines > 0 ? lines : 1;
    }
}

static const char *skip_port(const char *at)
{
    size_t n = strspn(at + 1, DIGITS);

    return n > 0 && n <= 5 ? at + 1 + n : NULL;
}

static const char *skip_name(const char *at)
{
    const char *begin = at;

    at = skip_component(at);
    /* What stands behind a colon is a port only where a path follows. */
    if (at && *at == ':' && strchr(at, '/') && strspn(at + 1, DIGITS "/") > strspn(at + 1, DIGITS))
        at = skip_port(at);
    while (at && *at == '/')
        at = skip_component(at + 1);
    if (!at)
        return NULL;
    size_t n = (size_t)(at - begin);
    if ((n == HEX_LENGTH && strspn(begin, HEX) >= n) ||
        (n == strlen("sha256") && strncmp(begin, "sha256", n) == 0))
        return NULL;
    return at;
}

static const char *skip_tag(const char *at)
{
    size_t n = strspn(at, LOWER UPPER DIGITS "_.-");

    return n > 0 && n <= TAG_MAX && !strchr(".-", at[0]) ? at + n : NULL;
}

bool image_digest_is_valid(const char *digest)
{
    return strncmp(digest, "sha256:", strlen("sha256:")) == 0 &&
           strspn(digest + strlen("sha256:"), HEX) == HEX_LENGTH &&
           digest[strlen("sha256:") + HEX_LENGTH] == '\0';
}

bool image_reference_is_valid(const char *reference)
{
    if (strlen(reference) > IMAGE_REFERENCE_MAX)
        return false;
    const char *at = skip_name(reference);
    if (at && *at == ':')
        at = skip_tag(at + 1);
    if (!at || (*at != '\0' && *at != '@'))
        return false;
    return *at == '\0' || image_digest_is_valid(at + 1);
}

size_t image_reference_name_length(const char *reference)
{
    const char *slash = strrchr(reference, '/');

    return (size_t)(slash ? slash - reference : 0) + strcspn(slash ? slash : reference, ":@");
}

const char *image_reference_short(const char *reference)
{
    static const char *const prefixes[] = { "docker.io/", "library/" };

    for (size_t i = 0; i < ELEMENTS(prefixes); i++)
        if (strncmp(reference, prefixes[i], strlen(prefixes[i])) == 0)
            reference += strlen(prefixes[i]);
    return reference;
}

const char *image_reference_digest(const char *reference)
{
    const char *at = strchr(reference, '@');

    return at ? at + 1 : NULL;
}

struct tag {
    const char *text;
    size_t length;
};

static struct tag get_tag(const char *reference)
{
    const char *rest = reference + image_reference_name_length(reference);

    if (*rest == ':')
        return (struct tag){ rest + 1, strcspn(rest + 1, "@") };
    return *rest == '@' ? (struct tag){ "", 0 } : (struct tag){ "latest", strlen("latest") };
}

bool image_reference_matches(const char *allowed, const char *wanted)
{
    const char *digest = image_reference_digest(wanted);

    allowed = image_reference_short(allowed);
    wanted = image_reference_short(wanted);
    size_t length = image_reference_name_length(allowed);
    struct tag a = get_tag(allowed), b = get_tag(wanted);
    if (image_reference_name_length(wanted) != length || strncmp(allowed, wanted, length) != 0)
        return false;
    if (a.length != b.length || strncmp(a.text, b.text, a.length) != 0)
        return false;
    const char *pinned = image_reference_digest(allowed);
    return !digest || (pinned && strcmp(pinned, digest) == 0);
}
