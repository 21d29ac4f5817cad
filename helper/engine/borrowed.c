/* Directories that sandboxes are lent, see borrowed.h. */
#include "engine/borrowed.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "common/cleanup.h"

void borrowed_layer_source(const struct engine_start *start, char ret[BORROWED_SOURCE_MAX])
{
    snprintf(ret, BORROWED_SOURCE_MAX, BORROWED_LAYERS "/%" PRIu32 "/%s/tree", start->owner_uid,
             start->layer);
}

/* A link is no directory. One name at a time, as RestrictSUIDSGID= takes openat2(2) away. */
static int open_directory(int parent, const char *name)
{
    int fd = openat(parent, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    return fd < 0 ? -errno : fd;
}

/* A directory in which nobody but root can put, or rename, anything. */
static int check_roots(int fd)
{
    struct stat st;

    if (fstat(fd, &st) < 0)
        return -errno;
    return st.st_uid == 0 && (st.st_mode & (S_IWGRP | S_IWOTH)) == 0 ? 0 : -EPERM;
}

int borrowed_check_wheels(const char *path)
{
    _cleanup_close_ int fd = open_directory(AT_FDCWD, "/");
    char name[NAME_MAX + 1];

    int r = fd < 0 ? fd : check_roots(fd);
    /* The path is plain (protocol.c), so a slash stands before each name. */
    while (r == 0 && *path == '/') {
        size_t n = strcspn(++path, "/");
        snprintf(name, sizeof(name), "%.*s", (int)n, path);
        path += n;
        int next = open_directory(fd, name);
        close_fd(fd);
        fd = next;
        r = fd < 0 ? fd : check_roots(fd);
    }
    return r;
}
