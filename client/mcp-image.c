/* Images and links, see mcp-image.h. */
#include "client/mcp-image.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "client/image.h"
#include "common/base64.h"
#include "common/cleanup.h"

int mcp_image_read(const char *path, size_t max, char **ret, const char **ret_type,
                   size_t *ret_size)
{
    /* Not blocking, should a pipe be there. */
    _cleanup_close_ int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    _cleanup_free_ char *data = NULL;

    int r = fd < 0 ? -errno : image_read(fd, max, &data, ret_size, ret_type);
    if (r < 0)
        return r;
    *ret = base64_encode(data, *ret_size, NULL);
    return *ret ? 0 : -ENOMEM;
}

/* RFC 3986, section 2.3 */
static bool is_plain(char c)
{
    return isascii(c) && (isalnum(c) || strchr("-._~/", c));
}

char *mcp_file_uri(const char *path)
{
    char *uri = malloc(strlen("file://") + 3 * strlen(path) + 1), *to;

    if (!uri)
        return NULL;
    to = stpcpy(uri, "file://");
    for (; *path; path++)
        if (is_plain(*path))
            *to++ = *path;
        else
            to += sprintf(to, "%%%02X", (unsigned char)*path);
    *to = '\0';
    return uri;
}
