/* Giving a finished run to its caller, see store-publish.h. */
#include "broker/store-publish.h"
#include "broker/store-beneath.h"
#include "broker/store-collect.h"
#include "broker/run-id.h"
#include "common/cleanup.h"
#include "common/directory.h"

#include <fcntl.h>
#include <stdio.h>

/* files/, and what the collection allows below it. */
#define DEPTH_MAX (COLLECT_DEPTH_MAX + 2)

/* Gives the open file or folder away, which had the mode @old. */
static int give(int fd, mode_t old, mode_t mode, uid_t uid, gid_t gid)
{
    if ((old & 07777) != mode && fchmod(fd, mode) < 0)
        return -errno;
    return fchown(fd, uid, gid) < 0 ? -errno : 0;
}

/* Whatever stands in staging was made by the broker or by us. If something else is there, somebody
 * wants a file of theirs to change its owner. */
static bool may_be_given(const struct stat *st, uid_t uid)
{
    if (st->st_uid != geteuid() && st->st_uid != uid)
        return false;
    return S_ISDIR(st->st_mode) || (S_ISREG(st->st_mode) && st->st_nlink == 1);
}

/* A file that was made for the caller, by the collection. */
static bool is_given(const struct stat *st, uid_t uid, gid_t gid)
{
    mode_t mode = st->st_mode & 07777;

    return S_ISREG(st->st_mode) && st->st_uid == uid && st->st_gid == gid &&
           (mode == 0600 || mode == 0700);
}

static int give_tree(int parent, const char *name, unsigned depth, uid_t uid, gid_t gid);

/* Gives what is in the directory @fd, which is taken over, and then the directory. */
static int give_directory(int fd, mode_t old, unsigned depth, uid_t uid, gid_t gid)
{
    _cleanup_closedir_ DIR *dir = directory_take(fd);
    struct dirent *entry;

    if (!dir)
        return -errno;
    if (depth > DEPTH_MAX)
        return -ENAMETOOLONG;
    while ((entry = directory_next(dir))) {
        int r = give_tree(dirfd(dir), entry->d_name, depth + 1, uid, gid);
        if (r < 0)
            return r;
    }
    return give(dirfd(dir), old, 0700, uid, gid);
}

static int give_tree(int parent, const char *name, unsigned depth, uid_t uid, gid_t gid)
{
    struct stat st;

    int r = beneath_stat_entry(parent, name, &st);
    if (r < 0)
        return r;
    if (!may_be_given(&st, uid))
        return -EPERM;
    if (is_given(&st, uid, gid))
        return 0;
    _cleanup_close_ int fd = beneath_open_same(parent, name, &st, &st);
    if (fd < 0)
        return fd;
    if (S_ISDIR(st.st_mode))
        return give_directory(TAKE_FD(fd), st.st_mode, depth, uid, gid);
    return give(fd, st.st_mode, st.st_mode & S_IXUSR ? 0700 : 0600, uid, gid);
}

/* Opens users/<uid>, and makes it if need be. "users" is ours, so nobody else can put something
 * there; a directory that is still ours was left half made by a crash. */
static int open_or_make_user(int state, uid_t uid, gid_t gid)
{
    char path[sizeof("users/4294967295")];
    struct stat st;

    int fd = beneath_open_user(state, uid);
    if (fd != -ENOENT && fd != -EPERM)
        return fd;
    snprintf(path, sizeof(path), "users/%u", (unsigned)uid);
    if (mkdirat(state, path, 0700) < 0 && errno != EEXIST)
        return -errno;
    _cleanup_close_ int made = beneath_open_directory(state, path);
    if (made < 0)
        return made == -ELOOP || made == -ENOTDIR ? -EPERM : made;
    if (fstat(made, &st) < 0)
        return -errno;
    if (st.st_uid != geteuid())
        return st.st_uid == uid ? TAKE_FD(made) : -EPERM; /* another job was faster */
    int r = give(made, st.st_mode, 0700, uid, gid);
    return r < 0 ? r : TAKE_FD(made);
}

int publish_run(int state, const char *run_id, uid_t uid, gid_t gid)
{
    if (!run_id_valid(run_id))
        return -EINVAL;
    _cleanup_close_ int staging = beneath_open_directory(state, "staging");
    if (staging < 0)
        return staging;
    _cleanup_close_ int user = open_or_make_user(state, uid, gid);
    if (user < 0)
        return user;
    int r = give_tree(staging, run_id, 0, uid, gid);
    if (r < 0)
        return r;
    if (renameat2(staging, run_id, user, run_id, RENAME_NOREPLACE) < 0)
        return -errno;
    return 0;
}
