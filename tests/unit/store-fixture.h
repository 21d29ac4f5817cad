/* What the tests of the store share: a scratch directory with a workspace and a state directory,
 * and looking into results. Tests run as root or as a plain user; what needs privileges skips
 * itself in the latter case. */
#pragma once

#include <assert.h>
#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
/* after the others */
#include <cmocka.h>

#include "broker/store.h"
#include "broker/store-remove.h"

#define RUN_ID "0123456789abcdef"

struct scratch {
    char path[64];
    int fd;
    int workspace; /* <path>/workspace */
    int outside;   /* <path>/outside, which nothing may touch or read */
};

static inline bool is_root(void)
{
    return geteuid() == 0;
}

static inline void make_directory_at(int dirfd, const char *name)
{
    assert_int_equal(mkdirat(dirfd, name, 0755), 0);
}

static inline int open_directory_at(int dirfd, const char *name)
{
    int fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    assert_true(fd >= 0);
    return fd;
}

static inline void write_file_at(int dirfd, const char *name, const char *text)
{
    int fd = openat(dirfd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
}

/* The file's text in a static buffer, or NULL if there is no such file. */
static inline const char *file_at(int dirfd, const char *name)
{
    static char text[4096];
    int fd = openat(dirfd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

    if (fd < 0)
        return NULL;
    ssize_t n = read(fd, text, sizeof(text) - 1);
    close(fd);
    text[n < 0 ? 0 : n] = '\0';
    return text;
}

static inline bool exists_at(int dirfd, const char *name)
{
    struct stat st;

    return fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static inline struct stat stat_at(int dirfd, const char *name)
{
    struct stat st = { 0 };

    assert_int_equal(fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW), 0);
    return st;
}

static inline void scratch_make(struct scratch *s)
{
    strcpy(s->path, "/tmp/test-store.XXXXXX");
    assert_non_null(mkdtemp(s->path));
    s->fd = open_directory_at(AT_FDCWD, s->path);
    make_directory_at(s->fd, "workspace");
    make_directory_at(s->fd, "outside");
    s->workspace = open_directory_at(s->fd, "workspace");
    s->outside = open_directory_at(s->fd, "outside");
    write_file_at(s->outside, "secret", "SECRET");
}

static inline void scratch_remove(struct scratch *s)
{
    json_object *ignored = NULL;
    int tmp = open_directory_at(AT_FDCWD, "/tmp");

    close(s->workspace);
    close(s->outside);
    close(s->fd);
    assert_int_equal(remove_tree(tmp, s->path + strlen("/tmp/"), REMOVE_ANY_OWNER, &ignored), 0);
    close(tmp);
    json_object_put(ignored);
}

/* The entry of that (escaped) name in a list of a result, or NULL. */
static inline json_object *entry_of(json_object *result, const char *list, const char *name)
{
    json_object *array = json_object_object_get(result, list);

    for (size_t i = 0; i < json_object_array_length(array); i++) {
        json_object *entry = json_object_array_get_idx(array, i);
        if (strcmp(json_object_get_string(json_object_object_get(entry, "name")), name) == 0)
            return entry;
    }
    return NULL;
}

static inline size_t count_of(json_object *result, const char *list)
{
    return json_object_array_length(json_object_object_get(result, list));
}

static inline const char *reason_of(json_object *result, const char *name)
{
    json_object *entry = entry_of(result, "skipped", name);

    return entry ? json_object_get_string(json_object_object_get(entry, "reason")) : NULL;
}

static inline void assert_reason(json_object *result, const char *name, const char *part)
{
    const char *reason = reason_of(result, name);

    assert_non_null(reason);
    if (!strstr(reason, part))
        fail_msg("%s: \"%s\" does not say \"%s\"", name, reason, part);
}
