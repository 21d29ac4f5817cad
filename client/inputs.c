/* What --file names: opened, measured, and copied into sealed memfds, see inputs.h. */
#include "client/inputs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>

#include "client/exit-status.h"
#include "client/say.h"
#include "common/cleanup.h"
#include "common/escape.h"
#include "common/file.h"
#include "common/memfd.h"
#include "common/quantity.h"

#define DIRECTORY_DEPTH_MAX 64
#define COPY_BUFFER (128 * 1024)

struct file {
    int fd;
    char *path, *name; /* here, and in the workspace */
};

/* What was found and opened so far. */
struct files {
    const struct input_limits *limits;
    struct file file[REQUEST_INPUTS_MAX];
    size_t n;
    uint64_t bytes;
};

static void file_release(struct file *file)
{
    close_fd(file->fd);
    free(file->path);
    free(file->name);
}

static void files_release(struct files *files)
{
    for (size_t i = 0; i < files->n; i++)
        file_release(&files->file[i]);
}

static bool exists(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0;
}

/* The last part of @path as a new string: of what it resolves to, where it ends in "." or "..".
 * Returns 0 or a negative errno. */
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

static int fail_input(const char *path, const char *reason)
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

static const char less_data[] =
    "give the run less data, or ask the administrator to raise InputSize=";

static int fail_too_large(const char *path, uint64_t bytes, uint64_t max)
{
    char size[QUANTITY_TEXT], max_size[QUANTITY_TEXT];
    _cleanup_free_ char *shown = displayed(path);
    return say_failure(EXIT_OURS, "Failed", less_data,
                       "the sum of the input files, up to %s, is %s, and at most %s is allowed",
                       shown, format_bytes(bytes, size), format_bytes(max, max_size));
}

/* Of a file that is more than it said before. */
static int fail_too_long(const char *path, uint64_t max)
{
    char max_size[QUANTITY_TEXT];
    _cleanup_free_ char *shown = displayed(path);
    return say_failure(EXIT_OURS, "Failed", less_data,
                       "%s was longer than it seemed: the sum of the input files is more than the "
                       "%s that are allowed",
                       shown, format_bytes(max, max_size));
}

/* Consumes @fd, a regular file. */
static int add_file(struct files *files, int fd, uint64_t size, const char *path, const char *name)
{
    struct file file = { .fd = fd };
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

static int add_directory(struct files *files, int fd, const char *path, const char *name,
                         unsigned depth);

/* Adds @entry of the directory @dir; @path and @name are those of the entry. */
static int add_entry(struct files *files, int dir, const char *entry, const char *path,
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

static int add_entries(struct files *files, int fd, struct dirent **entries, int n_entries,
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
        int r = add_entry(files, fd, entry, entry_path, entry_name, depth);
        if (r != 0)
            return r;
    }
    return 0;
}

/* Consumes @fd. In the order of names, so that the same directory makes the same request. */
static int add_directory(struct files *files, int fd, const char *path, const char *name,
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

/* What stands on the command line is the user's own word: here a link is followed. */
static int add_path(struct files *files, const char *path, const char *name)
{
    _cleanup_close_ int fd = -1;
    struct stat st;

    if (!utf8_is_valid(name))
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
        return add_directory(files, TAKE_FD(fd), path, name, 0);
    if (S_ISREG(st.st_mode))
        return add_file(files, TAKE_FD(fd), (uint64_t)st.st_size, path, name);
    return fail_input(path, kind_of(st.st_mode));
}

static int find(struct files *files, const char *text)
{
    _cleanup_free_ char *path = NULL, *name = NULL;

    int r = input_split(text, &path, &name);
    if (r == -EINVAL)
        return fail_input(text, "it has no name; give it one after a colon");
    if (r < 0)
        return fail_input(text, strerror(-r));
    return add_path(files, path, name);
}

int64_t copy_bytes(int from, int to, uint64_t max)
{
    char buffer[COPY_BUFFER];
    uint64_t done = 0;

    while (done < max) {
        size_t want = max - done < sizeof(buffer) ? (size_t)(max - done) : sizeof(buffer);
        ssize_t n = read(from, buffer, want);
        if (n == 0)
            break;
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        int r = write_all(to, buffer, (size_t)n);
        if (r < 0)
            return r;
        done += (uint64_t)n;
    }
    return (int64_t)done;
}

/* Copies from @offset on, to the same place. Returns as copy_bytes(). */
static int64_t copy_range(int from, int to, off_t offset, uint64_t max)
{
    uint64_t done = 0;

    if (lseek(from, offset, SEEK_SET) < 0 || lseek(to, offset, SEEK_SET) < 0)
        return -errno;
    while (done < max) {
        ssize_t n = sendfile(to, from, NULL, max - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        done += (uint64_t)n;
    }
    /* Not every file system can do that, and some say end of file where there is more to read. */
    int64_t n = copy_bytes(from, to, max - done);
    return n < 0 ? n : (int64_t)done + n;
}

/* Copies what is there, whatever its size was said to be, and leaves holes. Returns 0, -EFBIG if it
 * is more than @max bytes, or another negative errno. */
static int copy_file(int from, int to, uint64_t max)
{
    off_t begin, end = 0;
    struct stat st;

    if (fstat(from, &st) < 0)
        return -errno;
    if ((uint64_t)st.st_size > max)
        return -EFBIG;
    while (file_next_data(from, end, st.st_size, &begin, &end)) {
        int64_t n = copy_range(from, to, begin, (uint64_t)(end - begin));
        if (n < 0)
            return (int)n;
        if (n < end - begin)
            return 0; /* it has shrunk */
    }
    if (ftruncate(to, st.st_size) < 0)
        return -errno;
    /* It may have grown, and in /proc all files say that they are empty. */
    uint64_t left = max - (uint64_t)st.st_size;
    int64_t n = copy_range(from, to, st.st_size, left + 1);
    if (n < 0)
        return (int)n;
    return (uint64_t)n > left ? -EFBIG : 0;
}

/* Returns a sealed memfd, whose size is taken from @left, or a negative errno as above. */
static int copy_to_memfd(int from, uint64_t *left)
{
    _cleanup_close_ int to = memfd_new("input");

    if (to < 0)
        return to;
    int r = copy_file(from, to, *left);
    if (r < 0)
        return r;
    off_t size = lseek(to, 0, SEEK_END);
    /* The offset travels with the descriptor. */
    if (size < 0 || lseek(to, 0, SEEK_SET) < 0)
        return -errno;
    r = memfd_seal(to);
    if (r < 0)
        return r;
    *left -= (uint64_t)size;
    return TAKE_FD(to);
}

/* Consumes @fd. */
static int add_input(struct request *request, int fd, const char *name)
{
    size_t index;
    int r = request_take_fd(request, fd, &index);

    if (r != 0)
        return r;
    json_object *input = json_object_new_object();
    if (json_append(request->inputs, input) < 0 || json_add_string(input, "name", name) < 0 ||
        json_add_uint64(input, "fd", index) < 0)
        return say_failure_errno(-ENOMEM, "cannot pass on the files");
    return 0;
}

static int pass_on(struct request *request, struct files *files)
{
    uint64_t max = files->limits->bytes_max, left = max;

    for (size_t i = 0; i < files->n; i++) {
        struct file *file = &files->file[i];
        int fd = copy_to_memfd(file->fd, &left);
        if (fd == -EFBIG)
            return fail_too_long(file->path, max);
        if (fd < 0)
            return fail_input(file->path, strerror(-fd));
        file->fd = close_fd(file->fd);
        int r = add_input(request, fd, file->name);
        if (r != 0)
            return r;
    }
    return 0;
}

int inputs_add(struct request *request, const char *const *texts, size_t n_texts,
               const struct input_limits *limits)
{
    _cleanup_(files_release) struct files files = { .limits = limits };

    /* All are found before the first is read, so that what is too much is refused at once. */
    for (size_t i = 0; i < n_texts; i++) {
        int r = find(&files, texts[i]);
        if (r != 0)
            return r;
    }
    return pass_on(request, &files);
}
