/* Whole reads and writes, holes, plain paths, see file.h. */
#include "file.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

int write_all(int fd, const void *data, size_t size)
{
    const char *p = data;

    while (size > 0) {
        ssize_t n = write(fd, p, size);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        p += n;
        size -= (size_t)n;
    }
    return 0;
}

int pwrite_all(int fd, const void *data, size_t size, off_t offset)
{
    const char *p = data;

    while (size > 0) {
        ssize_t n = pwrite(fd, p, size, offset);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        p += n;
        size -= (size_t)n;
        offset += n;
    }
    return 0;
}

ssize_t pread_full(int fd, void *data, size_t size, off_t offset)
{
    size_t done = 0;

    while (done < size) {
        ssize_t n = pread(fd, (char *)data + done, size - done, offset + (off_t)done);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0)
            break;
        done += (size_t)n;
    }
    return (ssize_t)done;
}

bool file_next_data(int fd, off_t offset, off_t size, off_t *ret_start, off_t *ret_end)
{
    off_t start = lseek(fd, offset, SEEK_DATA), end;

    if (start < 0 && errno == ENXIO)
        return false;
    if (start < 0)
        start = offset;
    end = lseek(fd, start, SEEK_HOLE);
    if (end <= start || end > size)
        end = size;
    *ret_start = start;
    *ret_end = end;
    return start < size;
}

bool path_is_plain(const char *path)
{
    for (;;) {
        size_t n = strcspn(path, "/");

        if (n == 0 || n > NAME_MAX || (n == 1 && path[0] == '.') ||
            (n == 2 && path[0] == '.' && path[1] == '.'))
            return false;
        if (path[n] == '\0')
            return true;
        path += n + 1;
    }
}
