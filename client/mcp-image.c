/* Images and links, see mcp-image.h. */
#include "client/mcp-image.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base64.h"
#include "common/cleanup.h"
#include "common/file.h"

/* What files of a kind begin with: w3.org/TR/png-3 5.2, jpeg.org/jpeg (SOI and a marker), GIF89a,
 * RFC 9649. */
static const char *image_type(const char *data, size_t size)
{
    if (size >= 8 && memcmp(data, "\x89PNG\r\n\x1a\n", 8) == 0)
        return "image/png";
    if (size >= 3 && memcmp(data, "\xff\xd8\xff", 3) == 0)
        return "image/jpeg";
    if (size >= 6 && (memcmp(data, "GIF87a", 6) == 0 || memcmp(data, "GIF89a", 6) == 0))
        return "image/gif";
    if (size >= 12 && memcmp(data, "RIFF", 4) == 0 && memcmp(data + 8, "WEBP", 4) == 0)
        return "image/webp";
    return NULL;
}

int mcp_image_read(const char *path, size_t max, char **ret, const char **ret_type,
                   size_t *ret_size)
{
    /* Not blocking, should a pipe be there. */
    _cleanup_close_ int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    _cleanup_free_ char *data = NULL;
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode))
        return -EBADMSG;
    if ((uint64_t)st.st_size > max)
        return -EFBIG;
    data = malloc((size_t)st.st_size + 1);
    if (!data)
        return -ENOMEM;
    ssize_t n = pread_full(fd, data, (size_t)st.st_size, 0);
    if (n < 0)
        return (int)n;
    *ret_type = image_type(data, (size_t)n);
    if (!*ret_type)
        return -EBADMSG;
    *ret_size = (size_t)n;
    *ret = base64_encode(data, (size_t)n, NULL);
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
