#include "client/inputs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "client/exit-status.h"
#include "client/say.h"
#include "common/cleanup.h"

#define DIRECTORY_DEPTH_MAX 64

static bool exists(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0;
}

/* The last part of @path as a new string: of what it resolves to, where it ends in "." or "..". */
static int last_part(const char *path, char **ret)
{
    _cleanup_free_ char *copy = strdup(path), *resolved = NULL;

    if (!copy)
        return -ENOMEM;
    for (size_t n = strlen(copy); n > 1 && copy[n - 1] == '/'; n--)
        copy[n - 1] = '\0';
    const char *name = basename(copy);
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0) {
        resolved = realpath(path, NULL);
        if (!resolved)
            return -errno;
        name = basename(resolved);
    }
    if (*name == '\0')
        return -EINVAL;
    *ret = strdup(name);
    return *ret ? 0 : -ENOMEM;
}

int input_split(const char *text, char **ret_path, char **ret_name)
{
    _cleanup_free_ char *path = NULL, *name = NULL;
    const char *colon = strrchr(text, ':');
    int r;

    if (colon && colon[1] != '\0' && colon > text && !exists(text)) {
        path = strndup(text, (size_t)(colon - text));
        name = strdup(colon + 1);
        r = path && name ? 0 : -ENOMEM;
    } else {
        path = strdup(text);
        r = path ? last_part(path, &name) : -ENOMEM;
    }
    if (r < 0)
        return r;
    *ret_path = TAKE_PTR(path);
    *ret_name = TAKE_PTR(name);
    return 0;
}

static const char *kind_of(mode_t mode)
{
    switch (mode & S_IFMT) {
    case S_IFLNK:
        return "it is a link";
    case S_IFIFO:
        return "it is a pipe";
    case S_IFSOCK:
        return "it is a socket";
    case S_IFCHR:
    case S_IFBLK:
        return "it is a device";
    default:
        return "it is not a regular file";
    }
}

/* Consumes @fd. */
static int add_input(struct request *request, int fd, const char *name)
{
    size_t index;
    int r = request_take_fd(request, fd, &index);

    if (r != 0)
        return r;
    json_object *input = json_object_new_object();
    if (!input || json_object_array_add(request->inputs, input) < 0 ||
        json_add_string(input, "name", name) < 0 || json_add_uint64(input, "fd", index) < 0)
        return say_failure_errno(-ENOMEM, "cannot pass on the files");
    return 0;
}

static void say_left_out(const char *path, const char *reason)
{
    _cleanup_free_ char *shown = displayed(path);
    say_warning("left out %s: %s", shown, reason);
}

static int add_directory(struct request *request, int fd, const char *path, const char *name,
                         unsigned depth);

/* Adds @entry of the directory @dir; @path and @name are those of the entry. */
static int add_entry(struct request *request, int dir, const char *entry, const char *path,
                     const char *name, unsigned depth)
{
    _cleanup_close_ int fd = -1;
    struct stat st;

    if (fstatat(dir, entry, &st, AT_SYMLINK_NOFOLLOW) < 0) {
        say_left_out(path, strerror(errno));
        return 0;
    }
    if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)) {
        say_left_out(path, kind_of(st.st_mode));
        return 0;
    }
    if (!is_utf8(entry)) {
        say_left_out(path, "its name is not valid UTF-8");
        return 0;
    }

    /* Not blocking, should it have become a pipe since. */
    fd = openat(dir, entry, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0) {
        say_left_out(path, strerror(errno));
        return 0;
    }
    if (S_ISDIR(st.st_mode))
        return add_directory(request, TAKE_FD(fd), path, name, depth + 1);
    if (S_ISREG(st.st_mode))
        return add_input(request, TAKE_FD(fd), name);
    say_left_out(path, kind_of(st.st_mode));
    return 0;
}

static int is_entry(const struct dirent *entry)
{
    return strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
}

static int add_entries(struct request *request, int fd, struct dirent **entries, int n_entries,
                       const char *path, const char *name, unsigned depth)
{
    for (int i = 0; i < n_entries; i++) {
        _cleanup_free_ char *entry_path = NULL, *entry_name = NULL;
        const char *entry = entries[i]->d_name;

        if (asprintf(&entry_path, "%s/%s", path, entry) < 0) {
            entry_path = NULL;
            return say_failure_errno(-ENOMEM, "cannot pass on the files");
        }
        if (asprintf(&entry_name, "%s/%s", name, entry) < 0) {
            entry_name = NULL;
            return say_failure_errno(-ENOMEM, "cannot pass on the files");
        }
        int r = add_entry(request, fd, entry, entry_path, entry_name, depth);
        if (r != 0)
            return r;
    }
    return 0;
}

/* Consumes @fd. In the order of names, so that the same directory makes the same request. */
static int add_directory(struct request *request, int fd, const char *path, const char *name,
                         unsigned depth)
{
    _cleanup_close_ int dir = fd;
    struct dirent **entries = NULL;
    int r, n_entries;

    if (depth > DIRECTORY_DEPTH_MAX) {
        say_left_out(path, "it lies too deep");
        return 0;
    }
    n_entries = scandirat(dir, ".", &entries, is_entry, alphasort);
    if (n_entries < 0) {
        say_left_out(path, strerror(errno));
        return 0;
    }
    r = add_entries(request, dir, entries, n_entries, path, name, depth);
    for (int i = 0; i < n_entries; i++)
        free(entries[i]);
    free(entries);
    return r;
}

static int fail_input(const char *path, const char *reason)
{
    _cleanup_free_ char *shown = displayed(path);
    return say_failure(EXIT_OURS, "Failed", NULL, "cannot pass on %s: %s", shown, reason);
}

/* What stands on the command line is the user's own word: here a link is followed. */
static int add_path(struct request *request, const char *path, const char *name)
{
    _cleanup_close_ int fd = -1;
    struct stat st;

    if (!is_utf8(name))
        return fail_input(path, "its name is not valid UTF-8; give it another one after a colon");
    /* To open a device can do something to it, so it is looked at before. */
    if (stat(path, &st) < 0)
        return fail_input(path, strerror(errno));
    if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
        return fail_input(path, kind_of(st.st_mode));
    fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return fail_input(path, strerror(errno));
    if (S_ISDIR(st.st_mode))
        return add_directory(request, TAKE_FD(fd), path, name, 0);
    if (S_ISREG(st.st_mode))
        return add_input(request, TAKE_FD(fd), name);
    return fail_input(path, kind_of(st.st_mode));
}

int inputs_add(struct request *request, const char *text)
{
    _cleanup_free_ char *path = NULL, *name = NULL;

    int r = input_split(text, &path, &name);
    if (r == -EINVAL)
        return fail_input(text, "it has no name; give it one after a colon");
    if (r < 0)
        return fail_input(text, strerror(-r));
    return add_path(request, path, name);
}
