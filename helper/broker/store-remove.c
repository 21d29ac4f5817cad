/* Removing a tree, see store-remove.h. */
#include "broker/store-remove.h"
#include "broker/store-beneath.h"
#include "common/cleanup.h"
#include "common/directory.h"
#include "common/escape.h"

#include <fcntl.h>
#include <string.h>

/* How often a directory is read again that was filled while it was emptied. */
#define PASSES 4
#define NAME_SHOWN_MAX 1024

struct removal {
    uid_t owner;
    unsigned failures;
    int error;  /* the first failure, a negative errno */
    char *name; /* the entry it is about, escaped */
};

static void removal_failed(struct removal *r, const char *name, int error)
{
    if (r->failures++ > 0)
        return;
    r->error = error;
    r->name = escape_text(name, strlen(name), NAME_SHOWN_MAX);
}

static void remove_entry(struct removal *r, int parent, const char *name, unsigned depth);

/* Takes over @fd. */
static int empty_directory(struct removal *r, int fd, unsigned depth)
{
    _cleanup_closedir_ DIR *dir = directory_take(fd);
    struct dirent *entry;

    if (!dir)
        return -errno;
    while ((entry = directory_next(dir)))
        remove_entry(r, dirfd(dir), entry->d_name, depth + 1);
    return 0;
}

/* Opens a directory to be emptied, if that is the owner's right. */
static int open_owned(const struct removal *r, int parent, const char *name)
{
    struct stat st;
    _cleanup_close_ int fd = beneath_open_directory(parent, name);

    if (fd < 0)
        return fd;
    if (fstat(fd, &st) < 0)
        return -errno;
    if (r->owner != REMOVE_ANY_OWNER && st.st_uid != r->owner)
        return -EPERM;
    return TAKE_FD(fd);
}

static int remove_directory(struct removal *r, int parent, const char *name, unsigned depth)
{
    unsigned failures = r->failures;

    for (unsigned pass = 0;; pass++) {
        if (unlinkat(parent, name, AT_REMOVEDIR) == 0)
            return 0;
        if (errno != ENOTEMPTY && errno != EEXIST)
            return -errno;
        if (pass == PASSES || r->failures > failures)
            return -ENOTEMPTY;
        if (depth >= REMOVE_DEPTH_MAX)
            return -ENAMETOOLONG;

        int fd = open_owned(r, parent, name);
        if (fd < 0)
            return fd;
        int error = empty_directory(r, fd, depth);
        if (error < 0)
            return error;
    }
}

static void remove_entry(struct removal *r, int parent, const char *name, unsigned depth)
{
    int error = 0;

    if (unlinkat(parent, name, 0) == 0)
        return;
    /* Linux says EISDIR for a directory; EPERM is what POSIX would have. */
    if (errno == EISDIR || errno == EPERM)
        error = remove_directory(r, parent, name, depth);
    else
        error = -errno;
    /* A protected file says EPERM too, and is no directory. */
    if (error == -ENOTDIR)
        error = -EPERM;
    /* Gone meanwhile is as good as removed, but for the first one. */
    if (error < 0 && (error != -ENOENT || depth == 0))
        removal_failed(r, name, error);
}

static const char *removal_reason(int error)
{
    switch (-error) {
    case ENAMETOOLONG:
        return "It is nested too deeply; remove it by hand.";
    case EPERM:
    case EACCES:
        return "It belongs to somebody else or is protected; remove it by hand.";
    case EBUSY:
    case EXDEV:
        return "Something is mounted there; unmount it first.";
    case ENOTEMPTY:
        return "It is not empty, although what was in it was removed; is a program still writing "
               "there?";
    default:
        return strerror(-error);
    }
}

int remove_tree(int parent, const char *name, uid_t owner, json_object **ret_result)
{
    struct removal r = { .owner = owner };
    _cleanup_json_ json_object *result = NULL;

    *ret_result = NULL;
    remove_entry(&r, parent, name, 0);
    _cleanup_free_ char *failed = r.name;
    if (r.error < 0 && r.error != -ENOENT) {
        result = json_object_new_object();
        if (result && json_add_string(result, "reason", removal_reason(r.error)) == 0 &&
            json_add_string(result, "name", failed) == 0)
            *ret_result = TAKE_PTR(result);
    }
    return r.error;
}

int remove_leftover(int parent, const char *name)
{
    _cleanup_json_ json_object *ignored = NULL;

    return remove_tree(parent, name, REMOVE_ANY_OWNER, &ignored);
}
