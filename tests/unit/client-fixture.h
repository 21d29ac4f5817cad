/* What the tests of the client share: a scratch directory and small files in it. */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
/* after the others */
#include <cmocka.h>

#include "common/cleanup.h"

/* The test's working directory is a fresh one from setup to teardown. */
static inline int enter_scratch(void **state)
{
    static char path[64];

    strcpy(path, "/tmp/test-client-XXXXXX");
    assert_non_null(mkdtemp(path));
    assert_int_equal(chdir(path), 0);
    *state = path;
    return 0;
}

static inline int leave_scratch(void **state)
{
    char command[128];

    assert_int_equal(chdir("/"), 0);
    snprintf(command, sizeof(command), "rm -rf '%s'", (const char *)*state);
    return system(command);
}

static inline void write_file(const char *path, const char *text)
{
    _cleanup_close_ int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
}

/* The file's text in a static buffer; "" if there is none. */
static inline const char *read_file(const char *path)
{
    static char text[64 * 1024];
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);

    ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);
    text[n < 0 ? 0 : n] = '\0';
    return text;
}

/* What @command, written into a file by stdio, left there. */
#define PRINTED(to, command)              \
    ({                                    \
        FILE *to = fopen("printed", "w"); \
        assert_non_null(to);              \
        command;                          \
        fclose(to);                       \
        read_file("printed");             \
    })

/* What @command says on standard error, read from a file. */
#define SAID(command)                                                           \
    ({                                                                          \
        int _own = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);                    \
        int _to = open("said", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600); \
        assert_true(_own >= 0 && _to >= 0);                                     \
        assert_int_equal(dup2(_to, STDERR_FILENO), STDERR_FILENO);              \
        command;                                                                \
        fflush(stderr);                                                         \
        assert_int_equal(dup2(_own, STDERR_FILENO), STDERR_FILENO);             \
        close(_own);                                                            \
        close(_to);                                                             \
        read_file("said");                                                      \
    })
