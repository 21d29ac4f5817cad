/* Names of images, see image-reference.h. */
#include "common/image-reference.h"

#include <string.h>

#include "common/cleanup.h"

bool image_reference_is_valid(const char *reference)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                  "._-/:@";

    return reference[0] != '\0' && strlen(reference) <= IMAGE_REFERENCE_MAX &&
           reference[strspn(reference, allowed)] == '\0' && !strchr("./-:@", reference[0]) &&
           !strstr(reference, "..") && !strstr(reference, "//");
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
