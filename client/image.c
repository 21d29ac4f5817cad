/* What is an image, see image.h. */
#include "client/image.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

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

int image_read(int fd, size_t max, char **ret, size_t *ret_size, const char **ret_type)
{
    _cleanup_free_ char *data = NULL;
    struct stat st;

    if (fstat(fd, &st) < 0)
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
    *ret = TAKE_PTR(data);
    return 0;
}
