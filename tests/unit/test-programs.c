/* Every program that is installed, started by somebody who hands it nothing or nonsense: it ends by
 * itself, with an error. SBXCTL_PROGRAMS is their paths, with colons between, from meson. The
 * kernel makes an empty argv one of an empty string from Linux 5.18 on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cleanup.h"

#define STRANGER 65534
#define SANITIZER_STATUS 99

static char long_value[64 * 1024];

/* What service managers, buses and C libraries look at. */
static const char *const hostile[] = {
    "ASAN_OPTIONS=exitcode=99:detect_leaks=0",
    "UBSAN_OPTIONS=exitcode=99:halt_on_error=1",
    "LISTEN_FDS=2147483647",
    "LISTEN_FDNAMES=::::",
    "NOTIFY_SOCKET=@",
    "WATCHDOG_USEC=-1",
    "JOURNAL_STREAM=%s%n",
    "DBUS_SYSTEM_BUS_ADDRESS=unix:path=/dev/null;unix:abstract=%00",
    "SYSTEMD_LOG_LEVEL=debug",
    "STATE_DIRECTORY=../../..",
    "PATH=",
    "HOME=\n",
    "TMPDIR=/dev/null",
    "TZ=:../../../etc/shadow",
    "LC_ALL=\xff/..",
    "COLUMNS=-2147483648",
    "NO_COLOR",
    "=",
    "",
    "PATH=again",
    long_value,
};

/* Returns the exit status. */
static int run(const char *program, const char *const *argv, const char *const *environment,
               size_t n_environment)
{
    int status;
    pid_t pid = fork();

    if (pid == 0) {
        const char *entries[ELEMENTS(hostile) + 2] = { 0 };
        char listen_pid[32];
        int null = open("/dev/null", O_RDWR);

        dup2(null, STDIN_FILENO);
        dup2(null, STDOUT_FILENO);
        dup2(null, STDERR_FILENO);
        for (size_t i = 0; i < n_environment; i++)
            entries[i] = environment[i];
        if (n_environment > 0) {
            snprintf(listen_pid, sizeof(listen_pid), "LISTEN_PID=%d", (int)getpid());
            entries[n_environment] = listen_pid;
        }
        if (geteuid() == 0 && setresuid(STRANGER, STRANGER, STRANGER) < 0)
            _exit(0);
        alarm(20);
        execve(program, (char *const *)argv, (char *const *)entries);
        _exit(0);
    }
    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (!WIFEXITED(status))
        print_message("%s: signal %d\n", program, WTERMSIG(status));
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void assert_clean_error(const char *program, const char *const *argv,
                               const char *const *environment, size_t n_environment)
{
    int status = run(program, argv, environment, n_environment);

    if (status == 0 || status == SANITIZER_STATUS)
        print_message("%s: status %d\n", program, status);
    assert_true(status != 0 && status != SANITIZER_STATUS);
}

static void for_each_program(void (*body)(const char *))
{
    _cleanup_free_ char *programs = strdup(getenv("SBXCTL_PROGRAMS"));
    unsigned n = 0;

    for (char *at = programs, *program; (program = strsep(&at, ":")); n++) {
        assert_int_equal(access(program, X_OK), 0);
        body(program);
    }
    assert_true(n >= 4);
}

static void start_with_nothing(const char *program)
{
    /* The first two are the sanitizers' own. */
    assert_clean_error(program, (const char *const[]){ NULL }, NULL, 0);
    assert_clean_error(program, (const char *const[]){ NULL }, hostile, 2);
    assert_clean_error(program, (const char *const[]){ "", NULL }, hostile, 2);
}

static void start_with_nonsense(const char *program)
{
    assert_clean_error(program, (const char *const[]){ NULL }, hostile, ELEMENTS(hostile));
    assert_clean_error(program, (const char *const[]){ "sbxctl", NULL }, hostile,
                       ELEMENTS(hostile));
}

static void fault_08_an_empty_argv_ends_in_an_error(void **state)
{
    for_each_program(start_with_nothing);
}

static void fault_08_a_hostile_environment_ends_in_an_error(void **state)
{
    memset(long_value, 'x', sizeof(long_value) - 1);
    for_each_program(start_with_nonsense);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fault_08_an_empty_argv_ends_in_an_error),
        cmocka_unit_test(fault_08_a_hostile_environment_ends_in_an_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
