/* Opening a kept file of a published run, see store-open.h. The caller owns the tree and may have
 * planted anything in it. */
#include "broker/store-open.h"
#include "broker/store-beneath.h"
#include "broker/run-id.h"
#include "common/cleanup.h"
#include "common/escape.h"
#include "common/file.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#define FILES "files/"

/* Turns the name as shown into the path below the run. Returns 0, -EINVAL or -ENOMEM. */
static int kept_path(const char *name, char **ret)
{
    static const char *const plain[] = { "stdout", "stderr", "script", "run.json" };
    size_t size;

    for (size_t i = 0; i < ELEMENTS(plain); i++)
        if (strcmp(name, plain[i]) == 0)
            return (*ret = strdup(name)) ? 0 : -ENOMEM;

    if (strncmp(name, FILES, strlen(FILES)) != 0)
        return -EINVAL;
    _cleanup_free_ char *raw = unescape_text(name + strlen(FILES), &size);
    if (!raw)
        return errno == ENOMEM ? -ENOMEM : -EINVAL;
    if (size > PATH_MAX || !path_is_plain(raw))
        return -EINVAL;
    return asprintf(ret, FILES "%s", raw) < 0 ? -ENOMEM : 0;
}

/* What a link or a vanished folder on the way says, in the words of store-open.h. */
static int open_error(int error)
{
    switch (-error) {
    case ELOOP:
    case EXDEV:
    case ESTALE:
        return -EPERM;
    case ENOTDIR:
        return -ENOENT;
    default:
        return error;
    }
}

int open_kept_file(int state, uid_t uid, const char *run_id, const char *name, uint64_t *ret_size)
{
    _cleanup_free_ char *path = NULL;
    struct stat st;

    if (!run_id_valid(run_id))
        return -EINVAL;
    int r = kept_path(name, &path);
    if (r < 0)
        return r;
    _cleanup_close_ int user = beneath_open_user(state, uid);
    if (user < 0)
        return user;
    _cleanup_close_ int run = beneath_open_directory(user, run_id);
    if (run < 0)
        return open_error(run);

    r = beneath_stat(run, path, &st);
    if (r < 0)
        return open_error(r);
    if (!S_ISREG(st.st_mode) || st.st_uid != uid)
        return -EPERM;
    _cleanup_close_ int fd = beneath_open_same(run, path, &st, &st);
    if (fd < 0)
        return open_error(fd);
    if (st.st_uid != uid)
        return -EPERM;
    /* It was opened without blocking; its reader may want to wait for the disk. */
    if (fcntl(fd, F_SETFL, 0) < 0)
        return -errno;
    *ret_size = (uint64_t)st.st_size;
    return TAKE_FD(fd);
}
