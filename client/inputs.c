/* What --file and --input-run name, copied into sealed memfds, see inputs.h. */
#include "client/inputs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>

#include "client/exit-status.h"
#include "client/input-files.h"
#include "client/input-run.h"
#include "client/say.h"
#include "common/cleanup.h"
#include "common/file.h"
#include "common/memfd.h"
#include "common/quantity.h"

#define COPY_BUFFER (128 * 1024)

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

/* Of a file that is more than it said before. */
static int fail_too_long(const char *path, uint64_t max)
{
    char max_size[QUANTITY_TEXT];
    _cleanup_free_ char *shown = displayed(path);
    return say_failure(EXIT_OURS, "Failed", input_files_less_data,
                       "%s was longer than it seemed: the sum of the input files is more than the "
                       "%s that are allowed",
                       shown, format_bytes(max, max_size));
}

static int find(struct input_files *files, const char *text)
{
    _cleanup_free_ char *path = NULL, *name = NULL;

    int r = input_split(text, &path, &name);
    if (r == -EINVAL)
        return input_files_fail(text, "it has no name; give it one after a colon");
    if (r < 0)
        return input_files_fail(text, strerror(-r));
    return input_files_add_path(files, path, name);
}

static int find_named(struct input_files *files, const struct input_path *input)
{
    _cleanup_free_ char *name = NULL;

    if (input->name)
        return input_files_add_path(files, input->path, input->name);
    int r = last_part(input->path, &name);
    if (r == -EINVAL)
        return input_files_fail(input->path, "it has no name; give it one");
    if (r < 0)
        return input_files_fail(input->path, strerror(-r));
    return input_files_add_path(files, input->path, name);
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

static int pass_on(struct request *request, struct input_files *files)
{
    uint64_t max = files->limits->bytes_max, left = max;

    for (size_t i = 0; i < files->n; i++) {
        struct input_file *file = &files->file[i];
        int fd = copy_to_memfd(file->fd, &left);
        if (fd == -EFBIG)
            return fail_too_long(file->path, max);
        if (fd < 0)
            return input_files_fail(file->path, strerror(-fd));
        file->fd = close_fd(file->fd);
        int r = add_input(request, fd, file->name);
        if (r != 0)
            return r;
    }
    return 0;
}

int inputs_add(struct request *request, const struct input_wishes *wishes,
               const struct input_limits *limits)
{
    _cleanup_(input_files_release) struct input_files files = { .limits = limits };
    int r = 0;

    /* All are found before the first is read, so that what is too much is refused at once. */
    for (size_t i = 0; i < wishes->n_runs && r == 0; i++)
        r = input_run_find(&files, wishes->runs[i]);
    for (size_t i = 0; i < wishes->n_paths && r == 0; i++)
        r = find(&files, wishes->paths[i]);
    return r == 0 ? pass_on(request, &files) : r;
}

int inputs_add_paths(struct request *request, const struct input_path *paths, size_t n_paths,
                     const struct input_limits *limits)
{
    _cleanup_(input_files_release) struct input_files files = { .limits = limits };

    for (size_t i = 0; i < n_paths; i++) {
        int r = find_named(&files, &paths[i]);
        if (r != 0)
            return r;
    }
    return pass_on(request, &files);
}

int inputs_add_bytes(struct request *request, const char *name, const void *data, size_t size)
{
    int fd = memfd_with("input", data, size);

    return fd < 0 ? say_failure_errno(fd, "cannot pass on the files")
                  : add_input(request, fd, name);
}
