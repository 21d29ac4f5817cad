/* Opening below a directory fd without leaving it, see store-beneath.h. */
#include "broker/store-beneath.h"
#include "common/cleanup.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/syscall.h>

int beneath_open(int dirfd, const char *path, int flags)
{
    /* O_PATH tolerates no other flags than O_DIRECTORY and O_NOFOLLOW in openat2(2). */
    struct open_how how = {
        .flags = (unsigned)flags | O_CLOEXEC | (flags & O_PATH ? 0 : O_NONBLOCK | O_NOCTTY),
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV,
    };
    long fd;

    do
        fd = syscall(SYS_openat2, dirfd, path, &how, sizeof(how));
    while (fd < 0 && errno == EINTR);
    return fd < 0 ? -errno : (int)fd;
}

int beneath_open_directory(int dirfd, const char *path)
{
    return beneath_open(dirfd, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
}

int beneath_make_directory(int dirfd, const char *name)
{
    return mkdirat(dirfd, name, 0700) < 0 ? -errno : beneath_open_directory(dirfd, name);
}

int beneath_stat(int dirfd, const char *path, struct stat *ret)
{
    _cleanup_close_ int fd = beneath_open(dirfd, path, O_PATH | O_NOFOLLOW);

    if (fd < 0)
        return fd;
    return fstat(fd, ret) < 0 ? -errno : 0;
}

int beneath_stat_entry(int dirfd, const char *name, struct stat *ret)
{
    return fstatat(dirfd, name, ret, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) < 0 ? -errno : 0;
}

int beneath_open_same(int dirfd, const char *path, const struct stat *expected, struct stat *ret)
{
    int directory = S_ISDIR(expected->st_mode) ? O_DIRECTORY : 0;
    _cleanup_close_ int fd = beneath_open(dirfd, path, O_RDONLY | O_NOFOLLOW | directory);
    struct stat st;

    if (fd < 0)
        return fd;
    if (fstat(fd, &st) < 0)
        return -errno;
    if (st.st_dev != expected->st_dev || st.st_ino != expected->st_ino ||
        (st.st_mode & S_IFMT) != (expected->st_mode & S_IFMT))
        return -ESTALE;
    *ret = st;
    return TAKE_FD(fd);
}

int beneath_open_user(int state, uid_t uid)
{
    char path[sizeof("users/4294967295")];
    struct stat st;

    snprintf(path, sizeof(path), "users/%u", (unsigned)uid);
    _cleanup_close_ int fd = beneath_open_directory(state, path);
    if (fd == -ENOTDIR || fd == -ELOOP)
        return -EPERM;
    if (fd < 0)
        return fd;
    if (fstat(fd, &st) < 0)
        return -errno;
    return st.st_uid == uid ? TAKE_FD(fd) : -EPERM;
}
