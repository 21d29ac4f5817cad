/* Files and directories that are given to a run, opened and measured, see input-files.h. */
#include "client/input-files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "client/exit-status.h"
#include "client/say.h"
#include "common/cleanup.h"
#include "common/escape.h"
#include "common/quantity.h"

#define DIRECTORY_DEPTH_MAX 64

const char input_files_less_data[] =
    "give the run less data, or ask the administrator to raise InputSize=";

static void file_release(struct input_file *file)
{
    close_fd(file->fd);
    free(file->path);
    free(file->name);
}

void input_files_release(struct input_files *files)
{
    for (size_t i = 0; i < files->n; i++)
        file_release(&files->file[i]);
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

int input_files_fail(const char *path, const char *reason)
{
    _cleanup_free_ char *shown = displayed(path);
    return say_failure(EXIT_OURS, "Failed", NULL, "cannot read %s: %s", shown, reason);
}

static int fail_too_many(const char *path, uint64_t max)
{
    _cleanup_free_ char *shown = displayed(path);
    return say_failure(EXIT_OURS, "Failed", "put them into one archive, and give that with --file",
                       "there are too many input files: at most %" PRIu64
                       " are allowed, and %s is one more",
                       max, shown);
}

static int fail_too_large(const char *path, uint64_t bytes, uint64_t max)
{
    char size[QUANTITY_TEXT], max_size[QUANTITY_TEXT];
    _cleanup_free_ char *shown = displayed(path);
    return say_failure(EXIT_OURS, "Failed", input_files_less_data,
                       "the sum of the input files, up to %s, is %s, and at most %s is allowed",
                       shown, format_bytes(bytes, size), format_bytes(max, max_size));
}

/* Consumes @fd, a regular file. */
static int add_file(struct input_files *files, int fd, uint64_t size, const char *path,
                    const char *name)
{
    struct input_file file = { .fd = fd };
    const struct input_limits *limits = files->limits;
    uint64_t count_max = ELEMENTS(files->file);

    if (limits->inputs_max < count_max)
        count_max = limits->inputs_max;
    if (files->n >= count_max) {
        file_release(&file);
        return fail_too_many(path, count_max);
    }
    if (size > limits->bytes_max - files->bytes) {
        file_release(&file);
        return fail_too_large(path, files->bytes + size, limits->bytes_max);
    }
    file.path = strdup(path);
    file.name = strdup(name);
    if (!file.path || !file.name) {
        file_release(&file);
        return say_failure_errno(-ENOMEM, "cannot pass on the files");
    }
    files->file[files->n++] = file;
    files->bytes += size;
    return 0;
}

static void say_left_out(const char *path, const char *reason)
{
    _cleanup_free_ char *shown = displayed(path);
    say_warning("left out %s: %s", shown, reason);
}

static int add_directory(struct input_files *files, int fd, const char *path, const char *name,
                         unsigned depth);

/* Adds @entry of the directory @dir; @path and @name are those of the entry. */
static int add_entry(struct input_files *files, int dir, const char *entry, const char *path,
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
    if (!utf8_is_valid(entry)) {
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
        return add_directory(files, TAKE_FD(fd), path, name, depth + 1);
    if (S_ISREG(st.st_mode))
        return add_file(files, TAKE_FD(fd), (uint64_t)st.st_size, path, name);
    say_left_out(path, kind_of(st.st_mode));
    return 0;
}

static int is_entry(const struct dirent *entry)
{
    return strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
}

static int add_entries(struct input_files *files, int fd, struct dirent **entries, int n_entries,
                       const char *path, const char *name, unsigned depth)
{
    for (int i = 0; i < n_entries; i++) {
        _cleanup_free_ char *entry_path = NULL, *entry_name = NULL;
        const char *entry = entries[i]->d_name;

        if (asprintf(&entry_path, "%s/%s", path, entry) < 0) {
            entry_path = NULL;
            return say_failure_errno(-ENOMEM, "cannot pass on the files");
        }
        if (asprintf(&entry_name, "%s%s%s", name, *name ? "/" : "", entry) < 0) {
            entry_name = NULL;
            return say_failure_errno(-ENOMEM, "cannot pass on the files");
        }
        int r = add_entry(files, fd, entry, entry_path, entry_name, depth);
        if (r != 0)
            return r;
    }
    return 0;
}

/* Consumes @fd. In the order of names, so that the same directory makes the same request. */
static int add_directory(struct input_files *files, int fd, const char *path, const char *name,
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
    r = add_entries(files, dir, entries, n_entries, path, name, depth);
    for (int i = 0; i < n_entries; i++)
        free(entries[i]);
    free(entries);
    return r;
}

int input_files_add_opened(struct input_files *files, int fd, const char *path, const char *name)
{
    _cleanup_close_ int owned = fd;
    struct stat st;

    if (fstat(owned, &st) < 0)
        return input_files_fail(path, strerror(errno));
    if (S_ISDIR(st.st_mode))
        return add_directory(files, TAKE_FD(owned), path, name, 0);
    if (S_ISREG(st.st_mode))
        return add_file(files, TAKE_FD(owned), (uint64_t)st.st_size, path, name);
    return input_files_fail(path, kind_of(st.st_mode));
}

/* What stands on the command line is the user's own word: here a link is followed. */
int input_files_add_path(struct input_files *files, const char *path, const char *name)
{
    _cleanup_close_ int fd = -1;
    struct stat st;

    if (!utf8_is_valid(name))
        return input_files_fail(path,
                                "its name is not valid UTF-8; give it another one after a colon");
    /* To open a device can do something to it, so it is looked at before. */
    if (stat(path, &st) < 0)
        return input_files_fail(path, strerror(errno));
    if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
        return input_files_fail(path, kind_of(st.st_mode));
    fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0)
        return input_files_fail(path, strerror(errno));
    return input_files_add_opened(files, TAKE_FD(fd), path, name);
}
