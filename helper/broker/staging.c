/* The directories in which results are put together, see staging.h. */
#include "broker/staging.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "broker/stream.h"
#include "common/cleanup.h"

#define SPARE "next"
#define DIRECTORY (O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW)
#define STREAM (O_RDWR | O_CLOEXEC | O_NOFOLLOW)

static int open_below(int state, const char *name)
{
    if (mkdirat(state, name, 0700) < 0 && errno != EEXIST)
        return -errno;
    int fd = openat(state, name, DIRECTORY);
    return fd < 0 ? -errno : fd;
}

int staging_open(const char *path, struct staging *ret)
{
    _cleanup_close_ int state = open(path, DIRECTORY);

    if (state < 0)
        return -errno;
    *ret = STAGING_NULL;
    int directory = open_below(state, "staging");
    if (directory < 0)
        return directory;
    ret->directory = directory;
    ret->spare = open_below(state, "spare");
    return 0;
}

void staging_close(struct staging *staging)
{
    close_fd(staging->directory);
    close_fd(staging->spare);
    *staging = STAGING_NULL;
}

static int open_streams(int directory, int flags, int ret[2])
{
    for (size_t i = 0; i < 2; i++) {
        ret[i] = openat(directory, stream_names[i], STREAM | flags, 0600);
        if (ret[i] < 0)
            return -errno;
    }
    return 0;
}

int staging_make(struct staging *staging, const char *id, int *ret_directory, int ret_streams[2])
{
    bool is_spare = staging->is_spare &&
                    renameat2(staging->spare, SPARE, staging->directory, id, RENAME_NOREPLACE) == 0;

    staging->is_spare = false;
    if (!is_spare && mkdirat(staging->directory, id, 0700) < 0)
        return -errno;
    *ret_directory = openat(staging->directory, id, DIRECTORY);
    if (*ret_directory < 0)
        return -errno;
    return open_streams(*ret_directory, is_spare ? 0 : O_CREAT | O_EXCL, ret_streams);
}

/* What an earlier process left is as good: nothing was ever written to it. */
static int make_spare(const struct staging *staging)
{
    int streams[2] = { -1, -1 };

    _cleanup_close_ int fd = open_below(staging->spare, SPARE);
    if (fd < 0)
        return fd;
    int r = open_streams(fd, O_CREAT, streams);
    close_fd(streams[0]);
    close_fd(streams[1]);
    if (r < 0)
        return r;
    /* The store takes an empty one for its own. */
    return mkdirat(fd, "files", 0700) < 0 && errno != EEXIST ? -errno : 0;
}

void staging_prepare(struct staging *staging)
{
    if (!staging->is_spare && staging->spare >= 0)
        staging->is_spare = make_spare(staging) == 0;
}
