/* Copying outputs, see save.h. */
#include "client/save.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "client/exit-status.h"
#include "client/file-list.h"
#include "client/say.h"
#include "common/cleanup.h"
#include "common/directory.h"
#include "common/escape.h"
#include "common/file.h"
#include "common/json.h"

#define DEPTH_MAX 256 /* of PATH_MAX there is room for more, of descriptors not */
#define COPY_BUFFER (128 * 1024)

struct save {
    json_object *written; /* array of objects */
    bool failed;
};

static void say_not_saved(struct save *save, const char *name, const char *reason)
{
    _cleanup_free_ char *shown = displayed(name);

    save->failed = true;
    say_warning("did not save %s: %s", shown, reason);
}

static int copy_range(int from, int to, off_t begin, off_t end)
{
    char buffer[COPY_BUFFER];

    while (begin < end) {
        size_t size = end - begin < (off_t)sizeof(buffer) ? (size_t)(end - begin) : sizeof(buffer);
        ssize_t n = pread_full(from, buffer, size, begin);
        if (n <= 0)
            return (int)n;
        int r = pwrite_all(to, buffer, (size_t)n, begin);
        if (r < 0)
            return r;
        begin += n;
    }
    return 0;
}

/* Copies the data and leaves the holes: a sparse file may be larger than the disk. */
static int copy_data(int from, int to, off_t size)
{
    off_t begin, end = 0;

    while (file_next_data(from, end, size, &begin, &end)) {
        int r = copy_range(from, to, begin, end);
        if (r < 0)
            return r;
    }
    return ftruncate(to, size) < 0 ? -errno : 0;
}

/* Opens @name in @dir to be written, only if it is a regular file with no link on the way. */
static int open_target(int dir, const char *name, mode_t mode)
{
    _cleanup_close_ int fd =
        openat(dir, name, O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC,
               (mode & 0777) | S_IRUSR | S_IWUSR);
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode))
        return -EEXIST;
    if (ftruncate(fd, 0) < 0)
        return -errno;
    return TAKE_FD(fd);
}

static const char *target_problem(int r)
{
    if (r == -ELOOP)
        return "a link of that name is in the way";
    if (r == -EEXIST || r == -ENXIO)
        return "something that is no regular file is in the way";
    return strerror(-r);
}

static void note_written(struct save *save, const char *path, off_t size)
{
    _cleanup_free_ char *name = escape_text(path, strlen(path), 0);
    json_object *file = json_object_new_object();

    if (!name || json_append(save->written, file) < 0 || json_add_string(file, "name", name) < 0 ||
        json_add_uint64(file, "bytes", (uint64_t)size) < 0)
        save->failed = true;
}

static void save_file(struct save *save, int from, const struct stat *st, int to_dir,
                      const char *name, const char *path)
{
    _cleanup_close_ int to = open_target(to_dir, name, st->st_mode);

    if (to < 0) {
        say_not_saved(save, path, target_problem(to));
        return;
    }
    int r = copy_data(from, to, st->st_size);
    if (r < 0)
        say_not_saved(save, path, strerror(-r));
    else
        note_written(save, path, st->st_size);
}

static void save_directory(struct save *save, int from, int to, const char *path, unsigned depth);

static void save_subdirectory(struct save *save, int from, int to_dir, const char *name,
                              const char *path, unsigned depth)
{
    _cleanup_close_ int source = from, to = -1;

    if (depth >= DEPTH_MAX) {
        say_not_saved(save, path, "it lies too deep");
        return;
    }
    if (mkdirat(to_dir, name, 0777) < 0 && errno != EEXIST) {
        say_not_saved(save, path, strerror(errno));
        return;
    }
    to = openat(to_dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (to < 0) {
        say_not_saved(save, path,
                      errno == ENOTDIR || errno == ELOOP ? "what is in the way is no directory"
                                                         : strerror(errno));
        return;
    }
    save_directory(save, TAKE_FD(source), to, path, depth + 1);
}

static void save_entry(struct save *save, int from_dir, int to_dir, const char *name,
                       const char *path, unsigned depth)
{
    _cleanup_close_ int from =
        openat(from_dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    struct stat st;

    if (from < 0 || fstat(from, &st) < 0)
        say_not_saved(save, path, errno == ELOOP ? "it is a link" : strerror(errno));
    else if (S_ISDIR(st.st_mode))
        save_subdirectory(save, TAKE_FD(from), to_dir, name, path, depth);
    else if (S_ISREG(st.st_mode))
        save_file(save, from, &st, to_dir, name, path);
    else
        say_not_saved(save, path, "it is not a regular file");
}

/* Consumes @from. @path is that below the run's files, "" at the top. */
static void save_directory(struct save *save, int from, int to, const char *path, unsigned depth)
{
    _cleanup_closedir_ DIR *dir = directory_take(from);
    const struct dirent *entry;

    if (!dir) {
        say_not_saved(save, path, strerror(errno));
        return;
    }
    while ((entry = directory_next(dir))) {
        _cleanup_free_ char *entry_path = NULL;
        if (asprintf(&entry_path, "%s%s%s", path, *path ? "/" : "", entry->d_name) < 0) {
            entry_path = NULL;
            save->failed = true;
            return;
        }
        save_entry(save, dirfd(dir), to, entry->d_name, entry_path, depth);
    }
}

int outputs_open(const char *output_directory)
{
    _cleanup_close_ int dir = open(output_directory, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (dir < 0)
        return -errno;
    int files = openat(dir, "files", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return files < 0 ? -errno : files;
}

int outputs_open_file(int directory, const char *path)
{
    const struct open_how how = {
        .flags = O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS,
    };
    long fd = syscall(SYS_openat2, directory, path, &how, sizeof(how));

    return fd < 0 ? -errno : (int)fd;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(json_get_string(*(json_object *const *)a, "name"),
                  json_get_string(*(json_object *const *)b, "name"));
}

static void say_written(json_object *written, const char *target)
{
    size_t n = json_object_array_length(written);
    _cleanup_free_ char *shown = displayed(target);

    json_object_array_sort(written, compare_names);
    if (n == 0)
        say("the run made no files");
    else
        say("saved %zu file%s to %s:", n, n == 1 ? "" : "s", shown);
    file_list_say(written);
}

int save_check_target(const char *target)
{
    _cleanup_free_ char *shown = displayed(target), *copy = strdup(target), *place = NULL;
    struct stat st;

    if (!copy)
        return say_failure_errno(-ENOMEM, "cannot start the run");
    bool exists = stat(target, &st) == 0;
    if (asprintf(&place, "%s/.", exists ? target : dirname(copy)) < 0) {
        place = NULL;
        return say_failure_errno(-ENOMEM, "cannot start the run");
    }
    if (faccessat(AT_FDCWD, place, W_OK | X_OK, AT_EACCESS) < 0)
        return say_failure(EXIT_OURS, "Failed", NULL, "cannot %s %s: %s",
                           exists ? "write to" : "make the directory", shown, strerror(errno));
    return 0;
}

int save_outputs(const char *output_directory, const char *target, json_object *written)
{
    _cleanup_json_ json_object *own = written ? json_object_get(written) : json_object_new_array();
    _cleanup_free_ char *shown = displayed(target);
    _cleanup_close_ int from = -1, to = -1;
    struct save save = { .written = own };

    if (!own)
        return say_failure_errno(-ENOMEM, "cannot save the files");
    from = outputs_open(output_directory);
    if (from < 0)
        return say_failure_errno(from, "cannot read the run's directory");
    if (mkdir(target, 0777) < 0 && errno != EEXIST)
        return say_failure(EXIT_OURS, "Failed", NULL, "cannot make the directory %s: %s", shown,
                           strerror(errno));
    to = open(target, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (to < 0)
        return say_failure(EXIT_OURS, "Failed", NULL, "cannot write to %s: %s", shown,
                           strerror(errno));

    save_directory(&save, TAKE_FD(from), to, "", 0);
    say_written(own, target);
    return save.failed ? EXIT_OURS : 0;
}
