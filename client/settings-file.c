/* See settings-file.h. */
#include "client/settings-file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/exit-status.h"
#include "client/say.h"
#include "common/cleanup.h"
#include "common/file.h"

#define FILE_MAX (64 * 1024 * 1024)
#define BACKUPS_MAX 1000

static int fail(const char *doing, const char *path, const char *why, const char *hint)
{
    _cleanup_free_ char *shown = displayed(path);
    return say_failure(EXIT_OURS, "Failed", hint, "cannot %s %s: %s", doing, shown, why);
}

/* Who may write there may have put a link there, or may put one now. */
static int check_directory(const char *path)
{
    _cleanup_free_ char *directory = strdup(path);
    struct stat st;

    if (!directory)
        return say_failure_errno(-ENOMEM, "cannot change the settings");
    *strrchr(directory, '/') = '\0';
    if (stat(*directory ? directory : "/", &st) < 0)
        return fail("look at", directory, strerror(errno), NULL);
    if (st.st_uid != geteuid())
        return fail("change what is in", directory, "the directory belongs to somebody else",
                    "run it as the user whose settings they are");
    if (st.st_mode & S_IWOTH)
        return fail("change what is in", directory, "everybody may write there",
                    "take that right away: chmod o-w");
    return 0;
}

static int read_text(int fd, struct settings_file *file)
{
    file->size = (size_t)file->st.st_size;
    file->text = malloc(file->size + 1);
    if (!file->text)
        return say_failure_errno(-ENOMEM, "cannot read the settings");
    ssize_t n = pread_full(fd, file->text, file->size, 0);
    if (n < 0)
        return fail("read", file->path, strerror((int)-n), NULL);
    file->size = (size_t)n;
    file->text[n] = '\0';
    return 0;
}

static int open_file(struct settings_file *file)
{
    _cleanup_close_ int fd =
        open(file->path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);

    if (fd < 0 || fstat(fd, &file->st) < 0)
        return fail("read", file->path, strerror(errno), NULL);
    if (!S_ISREG(file->st.st_mode))
        return fail("change", file->path, "it is not a regular file", NULL);
    if (file->st.st_uid != geteuid())
        return fail("change", file->path, "it belongs to somebody else",
                    "run it as the user whose settings they are");
    if (file->st.st_size > FILE_MAX)
        return fail("change", file->path, "it is too large", NULL);
    return read_text(fd, file);
}

int settings_file_read(const char *path, struct settings_file *ret)
{
    _cleanup_(settings_file_release) struct settings_file file = {};
    struct stat st;
    int r = 0;

    file.path = realpath(path, NULL);
    if (file.path) {
        r = check_directory(file.path);
        if (r == 0)
            r = open_file(&file);
    } else if (errno != ENOENT) {
        r = fail("find", path, strerror(errno), NULL);
    } else if (lstat(path, &st) == 0) {
        r = fail("change", path, "it is a link to what is not there", "remove it");
    } else {
        file.path = strdup(path);
        file.text = strdup("");
        if (!file.path || !file.text)
            r = say_failure_errno(-ENOMEM, "cannot read the settings");
    }
    if (r != 0)
        return r;
    *ret = file;
    file = (struct settings_file){};
    return 0;
}

void settings_file_release(struct settings_file *file)
{
    free(file->path);
    free(file->text);
    *file = (struct settings_file){};
}

/* ---- Writing ---- */

static int make_directories(const char *path)
{
    _cleanup_free_ char *copy = strdup(path);

    if (!copy)
        return -ENOMEM;
    for (char *slash = strchr(copy + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(copy, 0700) < 0 && errno != EEXIST)
            return -errno;
        *slash = '/';
    }
    return 0;
}

/* On the disk, and with the mode of the old file. */
static int fill(int fd, const char *text, size_t size, mode_t mode)
{
    int r = write_all(fd, text, size);

    if (r < 0)
        return r;
    return fchmod(fd, mode) < 0 || fsync(fd) < 0 ? -errno : 0;
}

static int write_backup(const struct settings_file *file, char **ret)
{
    for (int i = 1; i <= BACKUPS_MAX; i++) {
        _cleanup_free_ char *path = NULL;
        if ((i == 1 ? asprintf(&path, "%s.before-sbxctl", file->path)
                    : asprintf(&path, "%s.before-sbxctl.%d", file->path, i)) < 0) {
            path = NULL;
            return -ENOMEM;
        }
        _cleanup_close_ int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (fd < 0 && errno == EEXIST)
            continue;
        if (fd < 0)
            return -errno;
        int r = fill(fd, file->text, file->size, file->st.st_mode & 0777);
        if (r < 0) {
            (void)unlink(path);
            return r;
        }
        *ret = TAKE_PTR(path);
        return 0;
    }
    return -EEXIST;
}

/* An assistant that runs may write its file at any time. */
static bool has_changed(const struct settings_file *file)
{
    struct stat st;

    if (lstat(file->path, &st) < 0)
        return errno != ENOENT || file->st.st_nlink > 0;
    return st.st_ino != file->st.st_ino || st.st_size != file->st.st_size ||
           st.st_mtim.tv_sec != file->st.st_mtim.tv_sec ||
           st.st_mtim.tv_nsec != file->st.st_mtim.tv_nsec;
}

static int write_new(const struct settings_file *file, const char *text)
{
    mode_t mode = file->st.st_nlink > 0 ? file->st.st_mode & 0777 : 0600;
    _cleanup_free_ char *path = NULL;

    if (asprintf(&path, "%s.sbxctl-XXXXXX", file->path) < 0) {
        path = NULL;
        return -ENOMEM;
    }
    _cleanup_close_ int fd = mkostemp(path, O_CLOEXEC);
    if (fd < 0)
        return -errno;
    int r = fill(fd, text, strlen(text), mode);
    if (r >= 0 && has_changed(file))
        r = -EBUSY;
    if (r >= 0 && rename(path, file->path) < 0)
        r = -errno;
    if (r < 0)
        (void)unlink(path);
    return r;
}

int settings_file_replace(const struct settings_file *file, const char *text, char **ret_backup)
{
    _cleanup_free_ char *backup = NULL;
    int r = make_directories(file->path), status;

    if (r < 0)
        return fail("make the directory of", file->path, strerror(-r), NULL);
    status = check_directory(file->path);
    if (status != 0)
        return status;
    r = file->st.st_nlink > 0 ? write_backup(file, &backup) : 0;
    if (r >= 0)
        r = write_new(file, text);
    if (r == -EBUSY)
        return fail("change", file->path, "somebody has changed it meanwhile",
                    "end the assistant, and try again");
    if (r < 0)
        return fail("write", file->path, strerror(-r), NULL);
    *ret_backup = TAKE_PTR(backup);
    return 0;
}
