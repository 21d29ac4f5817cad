/* What the tests of the whole program sbxctl share: how it is started, and what it prints. Its path
 * is in SBXCTL_PROGRAM; it speaks to what listens on SOCKET in the test's directory. */
#pragma once

#include "client-fixture.h"

#include <json-c/json.h>
#include <sys/wait.h>

#include "common/json.h"

#define STDOUT "stdout"
#define STDERR "stderr"
#define SOCKET "socket"

static inline pid_t start(const char *input, const char *const *argv)
{
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid > 0)
        return pid;
    int in = open(input, O_RDONLY), out = open(STDOUT, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    int err = open(STDERR, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (in < 0 || out < 0 || err < 0 || dup2(in, 0) < 0 || dup2(out, 1) < 0 || dup2(err, 2) < 0)
        _exit(99);
    setenv("SBXCTL_SOCKET", SOCKET, 1);
    execv(getenv("SBXCTL_PROGRAM"), (char *const *)(uintptr_t)argv);
    _exit(98);
}

static inline int finish(pid_t pid)
{
    int status;

    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

#define SBXCTL(...) finish(start("/dev/null", (const char *const[]){ "sbxctl", __VA_ARGS__, NULL }))

/* Exactly one JSON object and a newline came out. */
static inline json_object *printed_object(void)
{
    const char *text = read_file(STDOUT);
    json_object *object = NULL;

    assert_true(strlen(text) > 0 && strchr(text, '\n') == text + strlen(text) - 1);
    assert_int_equal(json_parse_guarded(text, strlen(text) - 1, &object), 0);
    return object;
}

static inline const char *member(json_object *object, const char *name)
{
    return json_object_get_string(json_object_object_get(object, name));
}
