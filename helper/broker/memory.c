/* Reading of /proc/meminfo and /proc/pressure/memory, see memory.h. */
#include "broker/memory.h"
#include "common/cleanup.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define PRESSURE_MAX 10.0 /* percent of the time */

static bool read_text(const char *directory, const char *name, char *text, size_t size)
{
    char path[256];

    snprintf(path, sizeof(path), "%s/%s", directory, name);
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, size - 1);
    if (n < 0)
        return false;
    text[n] = '\0';
    return true;
}

static bool find_kilobytes(const char *text, const char *name, uint64_t *ret)
{
    const char *line = strstr(text, name);

    return line && sscanf(line + strlen(name), " %" SCNu64, ret) == 1;
}

bool memory_is_short(const char *directory, uint64_t need_bytes)
{
    char text[4096];
    uint64_t total, available;
    double waited;

    if (read_text(directory, "meminfo", text, sizeof(text)) &&
        find_kilobytes(text, "MemTotal:", &total) &&
        find_kilobytes(text, "MemAvailable:", &available) &&
        (available < total / 10 || available < need_bytes / 1024))
        return true;
    return read_text(directory, "pressure", text, sizeof(text)) &&
           sscanf(text, "some avg10=%lf", &waited) == 1 && waited > PRESSURE_MAX;
}
