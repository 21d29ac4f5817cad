/* The launcher's end of the control socket is a process that connects: where it is, and how it ends
 * when it is hung up on. */
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "engine/docker/control.h"

#define SECOND USEC_PER_SEC

struct bench {
    char runtime[32];
    struct control control;
    int broker[2];
    pid_t launcher;
};

/* Connects, and then lives until it is hung up on, or for as long as it is left alone. */
static _Noreturn void be_launcher(const char *path, int namespaces, bool listens)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    char byte;

    if (unshare(namespaces) < 0)
        _exit(2);
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    int sock = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    if (connect(sock, (struct sockaddr *)&address, sizeof(address)) < 0)
        _exit(3);
    while (!listens)
        pause();
    _exit(read(sock, &byte, 1) == 0 ? 0 : 4);
}

static void accept_launcher(struct bench *b, int namespaces, bool listens)
{
    b->launcher = fork();
    assert_true(b->launcher >= 0);
    if (b->launcher == 0)
        be_launcher(b->control.path, namespaces, listens);
    assert_int_equal(
        control_accept(&b->control, b->broker[0], clock_usec(CLOCK_MONOTONIC) + 10 * SECOND), 0);
    assert_int_equal(b->control.pid, b->launcher);
}

static int set_up(void **state)
{
    struct bench *b = calloc(1, sizeof(*b));
    char path[64];

    *state = b;
    b->control = CONTROL_NULL;
    strcpy(b->runtime, "/tmp/test-docker-control-XXXXXX");
    if (!mkdtemp(b->runtime) || socketpair(AF_UNIX, SOCK_SEQPACKET, 0, b->broker) < 0)
        return -1;
    snprintf(path, sizeof(path), "%s/run-7", b->runtime);
    return mkdir(path, 0700) < 0 ? -1 : control_listen(&b->control, b->runtime, 7);
}

static int tear_down(void **state)
{
    struct bench *b = *state;
    char path[64];

    control_close(&b->control);
    if (b->launcher > 0) {
        kill(b->launcher, SIGKILL);
        waitpid(b->launcher, NULL, 0);
    }
    close_fd(b->broker[0]);
    close_fd(b->broker[1]);
    snprintf(path, sizeof(path), "%s/run-7", b->runtime);
    rmdir(path);
    rmdir(b->runtime);
    free(b);
    return 0;
}

/* As the machine's own network is told: by the socket that the service manager made. */
static uint64_t own_network(const struct bench *b)
{
    uint64_t network = 0;

    assert_int_equal(control_network(b->control.listener, &network), 0);
    return network;
}

static void launcher_in_our_network_is_seen(void **state)
{
    struct bench *b = *state;
    uint64_t network = 0;

    accept_launcher(b, 0, true);
    assert_int_equal(control_network(b->control.sock, &network), 0);
    assert_int_equal(network, own_network(b));
}

static void launcher_in_a_network_of_its_own_is_seen(void **state)
{
    struct bench *b = *state;
    uint64_t network = 0;

    accept_launcher(b, CLONE_NEWUSER | CLONE_NEWNET, true);
    assert_int_equal(control_network(b->control.sock, &network), 0);
    assert_int_not_equal(network, own_network(b));
}

static void what_is_no_socket_has_no_network(void **state)
{
    uint64_t network = 42;
    int pair[2];

    assert_int_equal(pipe(pair), 0);
    assert_int_equal(control_network(pair[0], &network), -ENOTSOCK);
    assert_int_equal(network, 42);
    close(pair[0]);
    close(pair[1]);
}

static void launcher_ends_when_it_is_hung_up_on_whoever_else_has_the_socket(void **state)
{
    struct bench *b = *state;
    int status;

    accept_launcher(b, 0, true);
    _cleanup_close_ int brokers = dup(b->control.sock);
    assert_true(brokers >= 0);
    assert_true(control_hang_up(&b->control, 10 * SECOND));
    assert_int_equal(waitpid(b->launcher, &status, WNOHANG), b->launcher);
    assert_int_equal(status, 0);
    b->launcher = 0;
}

static void launcher_that_stays_is_not_said_to_have_ended(void **state)
{
    struct bench *b = *state;

    accept_launcher(b, 0, false);
    assert_false(control_hang_up(&b->control, SECOND / 20));
    assert_int_equal(waitpid(b->launcher, NULL, WNOHANG), 0);
}

static void nobody_ends_when_nobody_came(void **state)
{
    struct bench *b = *state;

    assert_false(control_hang_up(&b->control, 10 * SECOND));
}

#define WITH_SOCKET(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_SOCKET(launcher_in_our_network_is_seen),
        WITH_SOCKET(launcher_in_a_network_of_its_own_is_seen),
        cmocka_unit_test(what_is_no_socket_has_no_network),
        WITH_SOCKET(launcher_ends_when_it_is_hung_up_on_whoever_else_has_the_socket),
        WITH_SOCKET(launcher_that_stays_is_not_said_to_have_ended),
        WITH_SOCKET(nobody_ends_when_nobody_came),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
