/* The identity of a unix socket's peer. Tests that need other users or a kernel of the past fork a
 * child for it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "common/peer.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

/* A listening socket with an abstract name that the kernel chose; its address in @ret. */
static int listen_somewhere(struct sockaddr_un *ret, socklen_t *ret_length)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sa_family_t family = AF_UNIX;

    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&family, sizeof(family)), 0);
    assert_int_equal(listen(fd, 10), 0);
    *ret_length = sizeof(*ret);
    assert_int_equal(getsockname(fd, (struct sockaddr *)ret, ret_length), 0);
    return fd;
}

/* Runs @body in a child that has nothing to do with cmocka; true if that returned true. */
static bool in_child(bool (*body)(void *), void *argument)
{
    pid_t pid = fork();
    int status = 0;

    if (pid == 0)
        _exit(body(argument) ? 0 : 1);
    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static uint64_t own_start_time(void)
{
    unsigned long long start_time = 0;
    FILE *f = fopen("/proc/self/stat", "re");

    assert_non_null(f);
    assert_int_equal(fscanf(f,
                            "%*d (%*[^)]) %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d "
                            "%*d %*d %*d %*d %*d %llu",
                            &start_time),
                     1);
    fclose(f);
    return start_time;
}

static void a_living_peer_is_known_by_uid_gid_pid_start_time_and_groups(void **state)
{
    _cleanup_(peer_release) struct peer peer = PEER_NULL;
    gid_t groups[64];
    int pair[2], n;

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    assert_int_equal(peer_acquire(pair[0], &peer), 0);
    assert_int_equal(peer.uid, geteuid());
    assert_int_equal(peer.gid, getegid());
    assert_int_equal(peer.pid, getpid());
    assert_int_equal(peer.start_time, own_start_time());
    n = getgroups(ELEMENTS(groups), groups);
    assert_int_equal(peer.n_groups, n);
    if (peer.pidfd >= 0)
        assert_int_equal(fcntl(peer.pidfd, F_GETFD), FD_CLOEXEC);
    close_fd(pair[0]);
    close_fd(pair[1]);
}

static void release_leaves_nothing_behind(void **state)
{
    struct peer peer = PEER_NULL;
    int pair[2], pidfd;

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    assert_int_equal(peer_acquire(pair[0], &peer), 0);
    pidfd = peer.pidfd;
    peer_release(&peer);
    assert_int_equal(peer.pidfd, -1);
    assert_null(peer.groups);
    if (pidfd >= 0)
        assert_int_equal(fcntl(pidfd, F_GETFD), -1);
    peer_release(&peer);
    close_fd(pair[0]);
    close_fd(pair[1]);
}

/* A command may call itself what it likes, for instance like the rest of the line. */
static void the_name_of_a_command_cannot_fake_its_start_time(void **state)
{
    _cleanup_(peer_release) struct peer peer = PEER_NULL;
    char name[16];
    int pair[2];
    uint64_t start_time = own_start_time();

    prctl(PR_GET_NAME, name);
    prctl(PR_SET_NAME, ") R 1 1 1 1 1");
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    assert_int_equal(peer_acquire(pair[0], &peer), 0);
    prctl(PR_SET_NAME, name);
    assert_int_equal(peer.start_time, start_time);
    close_fd(pair[0]);
    close_fd(pair[1]);
}

struct connecting {
    struct sockaddr_un address;
    socklen_t length;
    uid_t uid;
    gid_t gid;
    size_t n_groups;
};

static bool connect_and_leave(void *argument)
{
    struct connecting *c = argument;
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    gid_t groups[64];

    for (size_t i = 0; i < c->n_groups; i++)
        groups[i] = (gid_t)(70000 + i);
    if (c->uid != geteuid() &&
        (setgroups(c->n_groups, groups) < 0 || setresgid(c->gid, c->gid, c->gid) < 0 ||
         setresuid(c->uid, c->uid, c->uid) < 0))
        return false;
    return connect(fd, (struct sockaddr *)&c->address, c->length) == 0;
}

static void fault_50_a_peer_that_is_gone_has_no_start_time(void **state)
{
    _cleanup_(peer_release) struct peer peer = PEER_NULL;
    _cleanup_close_ int listener = -1, fd = -1;
    struct connecting c = { .uid = geteuid() };

    listener = listen_somewhere(&c.address, &c.length);
    assert_true(in_child(connect_and_leave, &c));
    fd = accept(listener, NULL, NULL);
    assert_true(fd >= 0);
    assert_int_equal(peer_acquire(fd, &peer), 0);
    assert_int_equal(peer.uid, geteuid());
    assert_int_equal(peer.start_time, 0);
}

static void fault_5_large_uids_are_read_as_they_are(void **state)
{
    static const uid_t uids[] = { 1000, 65534, 2147483647, 2147483648, 4000000000, 4294967294 };

    if (geteuid() != 0)
        skip();
    for (size_t i = 0; i < ELEMENTS(uids); i++) {
        _cleanup_(peer_release) struct peer peer = PEER_NULL;
        _cleanup_close_ int listener = -1, fd = -1;
        /* More groups than the first guess at their number. */
        struct connecting c = { .uid = uids[i], .gid = 4294967294, .n_groups = 50 };

        listener = listen_somewhere(&c.address, &c.length);
        assert_true(in_child(connect_and_leave, &c));
        fd = accept(listener, NULL, NULL);
        assert_int_equal(peer_acquire(fd, &peer), 0);
        assert_true(peer.uid == uids[i]);
        assert_true(peer.gid == 4294967294);
        assert_int_equal(peer.n_groups, 50);
        assert_int_equal(peer.groups[49], 70049);
    }
}

/* A process that ended but was not waited for still has its place in /proc. */
static void a_peer_that_is_a_zombie_has_no_start_time(void **state)
{
    _cleanup_(peer_release) struct peer peer = PEER_NULL;
    _cleanup_close_ int listener = -1, fd = -1;
    struct connecting c = { .uid = geteuid() };
    siginfo_t info;
    pid_t pid;

    listener = listen_somewhere(&c.address, &c.length);
    pid = fork();
    if (pid == 0)
        _exit(connect_and_leave(&c) ? 0 : 1);
    assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
    fd = accept(listener, NULL, NULL);
    assert_int_equal(peer_acquire(fd, &peer), 0);
    assert_int_equal(peer.pid, pid);
    assert_int_equal(peer.start_time, 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* Binds to @name (of @length bytes, an abstract name if it begins with a NUL) before it connects.
 */
static void assert_name_does_not_matter(const char *name, size_t length)
{
    _cleanup_(peer_release) struct peer peer = PEER_NULL;
    _cleanup_close_ int listener = -1, fd = -1, client = -1;
    struct sockaddr_un own = { .sun_family = AF_UNIX }, address;
    socklen_t address_length;

    listener = listen_somewhere(&address, &address_length);
    client = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    memcpy(own.sun_path, name, length);
    assert_int_equal(bind(client, (struct sockaddr *)&own,
                          (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length)),
                     0);
    assert_int_equal(connect(client, (struct sockaddr *)&address, address_length), 0);
    fd = accept(listener, NULL, NULL);
    assert_int_equal(peer_acquire(fd, &peer), 0);
    assert_int_equal(peer.uid, geteuid());
    assert_int_equal(peer.gid, getegid());
    assert_int_equal(peer.pid, getpid());
}

static void fault_28_the_name_of_a_socket_changes_nobodys_identity(void **state)
{
    static const char path[] = "/tmp/sbxctl-test;uid=0;";

    unlink(path);
    assert_name_does_not_matter(path, sizeof(path));
    unlink(path);
    assert_name_does_not_matter("\0;uid=0;pid=1;", 14);
    assert_name_does_not_matter("\0pid=1\nuid=0\0\xff\x1b[2J", 19);
}

static void fault_7_what_is_no_unix_socket_is_nobody(void **state)
{
    struct peer peer = PEER_NULL;
    int pipes[2], udp;

    assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
    assert_int_equal(peer_acquire(pipes[0], &peer), -ENOTSOCK);
    close_fd(pipes[0]);
    close_fd(pipes[1]);
    assert_int_equal(peer_acquire(-1, &peer), -EBADF);
    udp = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (udp >= 0)
        assert_int_equal(peer_acquire(udp, &peer), -ESRCH);
    close_fd(udp);
    /* A socket that nobody is connected to. */
    udp = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(peer_acquire(udp, &peer), -ESRCH);
    close_fd(udp);
    assert_true(peer.uid == (uid_t)-1);
}

/* Lets getsockopt() for @option fail with @error from here on. */
static bool break_option(int option, int error)
{
    scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ALLOW);
    bool good = ctx &&
                seccomp_rule_add(ctx, SCMP_ACT_ERRNO((unsigned)error), SCMP_SYS(getsockopt), 1,
                                 SCMP_A2(SCMP_CMP_EQ, (scmp_datum_t)option)) == 0 &&
                seccomp_load(ctx) == 0;

    seccomp_release(ctx);
    return good;
}

struct broken {
    int option, error, expected;
};

static bool acquire_with_broken_option(void *argument)
{
    const struct broken *b = argument;
    struct peer peer = PEER_NULL;
    uint64_t start_time = own_start_time();
    int pair[2];

    if (!break_option(b->option, b->error) || socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0)
        return false;
    if (peer_pidfd_supported() != (b->error != ENOPROTOOPT))
        return false;
    if (peer_acquire(pair[0], &peer) != b->expected)
        return false;
    if (b->expected < 0)
        return peer.uid == (uid_t)-1 && peer.pidfd == -1;
    return peer.pidfd == -1 && peer.start_time == (b->error == ENOPROTOOPT ? start_time : 0);
}

static void fault_7_a_failed_question_is_a_refusal(void **state)
{
    static struct broken rows[] = {
        { SO_PEERCRED, ENOMEM, -ENOMEM },     { SO_PEERCRED, ESRCH, -ESRCH },
        { SO_PEERGROUPS, ENODATA, -ENODATA }, { SO_PEERGROUPS, ERANGE, -ERANGE },
        { SO_PEERPIDFD, EMFILE, -EMFILE },    { SO_PEERPIDFD, EPERM, -EPERM },
    };

    for (size_t i = 0; i < ELEMENTS(rows); i++)
        assert_true(in_child(acquire_with_broken_option, &rows[i]));
}

static void without_pidfd_of_a_reaped_peer_there_is_no_start_time(void **state)
{
    static struct broken rows[] = {
        { SO_PEERPIDFD, EINVAL, 0 },
        { SO_PEERPIDFD, ESRCH, 0 },
        { SO_PEERPIDFD, ENODATA, 0 },
    };

    for (size_t i = 0; i < ELEMENTS(rows); i++)
        assert_true(in_child(acquire_with_broken_option, &rows[i]));
}

static void a_kernel_without_peer_pidfds_still_tells_the_start_time(void **state)
{
    static struct broken row = { SO_PEERPIDFD, ENOPROTOOPT, 0 };

    assert_true(in_child(acquire_with_broken_option, &row));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_living_peer_is_known_by_uid_gid_pid_start_time_and_groups),
        cmocka_unit_test(release_leaves_nothing_behind),
        cmocka_unit_test(the_name_of_a_command_cannot_fake_its_start_time),
        cmocka_unit_test(fault_50_a_peer_that_is_gone_has_no_start_time),
        cmocka_unit_test(a_peer_that_is_a_zombie_has_no_start_time),
        cmocka_unit_test(fault_5_large_uids_are_read_as_they_are),
        cmocka_unit_test(fault_28_the_name_of_a_socket_changes_nobodys_identity),
        cmocka_unit_test(fault_7_what_is_no_unix_socket_is_nobody),
        cmocka_unit_test(fault_7_a_failed_question_is_a_refusal),
        cmocka_unit_test(without_pidfd_of_a_reaped_peer_there_is_no_start_time),
        cmocka_unit_test(a_kernel_without_peer_pidfds_still_tells_the_start_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
