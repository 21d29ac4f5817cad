/* One packet with descriptors over a SOCK_SEQPACKET socket. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "common/cleanup.h"
#include "common/packet.h"

struct pair {
    int a, b;
};

static int make_pair(void **state)
{
    static struct pair pair;
    int fds[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) < 0)
        return -1;
    pair = (struct pair){ fds[0], fds[1] };
    *state = &pair;
    return 0;
}

static int close_pair(void **state)
{
    struct pair *p = *state;

    p->a = close_fd(p->a);
    p->b = close_fd(p->b);
    return 0;
}

static int lowest_free_fd(void)
{
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

    close_fd(fd);
    return fd;
}

static void packets_keep_their_borders_and_descriptors(void **state)
{
    struct pair *p = *state;
    int fds[PACKET_FDS_MAX], zero = open("/dev/zero", O_RDONLY | O_CLOEXEC);
    char data[16], byte = 1;
    size_t n;

    assert_int_equal(packet_send(p->a, "one", 3, NULL, 0), 0);
    assert_int_equal(packet_send(p->a, "two!", 4, &zero, 1), 0);
    close_fd(zero);

    assert_int_equal(packet_recv(p->b, data, sizeof(data), fds, &n), 3);
    assert_int_equal(n, 0);
    assert_int_equal(fds[0], -1);
    assert_int_equal(packet_recv(p->b, data, sizeof(data), fds, &n), 4);
    assert_memory_equal(data, "two!", 4);
    assert_int_equal(n, 1);
    assert_int_equal(fcntl(fds[0], F_GETFD), FD_CLOEXEC);
    assert_int_equal(read(fds[0], &byte, 1), 1);
    assert_int_equal(byte, 0);
    packet_close_fds(fds);
    assert_int_equal(fds[0], -1);
}

static void packet_that_does_not_fit_is_refused_and_its_descriptors_closed(void **state)
{
    struct pair *p = *state;
    int fds[PACKET_FDS_MAX], zero = open("/dev/zero", O_RDONLY | O_CLOEXEC), before;
    char data[4];
    size_t n = 1;

    assert_int_equal(packet_send(p->a, "too long", 8, &zero, 1), 0);
    before = lowest_free_fd();
    assert_int_equal(packet_recv(p->b, data, sizeof(data), fds, &n), -EMSGSIZE);
    assert_int_equal(n, 0);
    assert_int_equal(lowest_free_fd(), before);
    close_fd(zero);
}

static void too_many_descriptors_are_refused_and_closed(void **state)
{
    struct pair *p = *state;
    union {
        char buffer[CMSG_SPACE(sizeof(int) * (PACKET_FDS_MAX + 3))];
        struct cmsghdr c;
    } control = { 0 };
    struct iovec iov = { .iov_base = (char[]){ "x" }, .iov_len = 1 };
    struct msghdr msg = { .msg_iov = &iov,
                          .msg_iovlen = 1,
                          .msg_control = control.buffer,
                          .msg_controllen = sizeof(control.buffer) };
    int fds[PACKET_FDS_MAX], many[PACKET_FDS_MAX + 3], before;
    char data[4];
    size_t n;

    for (size_t i = 0; i < ELEMENTS(many); i++)
        many[i] = STDERR_FILENO;
    assert_int_equal(packet_send(p->a, "x", 1, many, ELEMENTS(many)), -EINVAL);

    control.c.cmsg_level = SOL_SOCKET;
    control.c.cmsg_type = SCM_RIGHTS;
    control.c.cmsg_len = CMSG_LEN(sizeof(many));
    memcpy(CMSG_DATA(&control.c), many, sizeof(many));
    assert_int_equal(sendmsg(p->a, &msg, MSG_NOSIGNAL), 1);
    before = lowest_free_fd();
    assert_int_equal(packet_recv(p->b, data, sizeof(data), fds, &n), -EMSGSIZE);
    assert_int_equal(lowest_free_fd(), before);
}

static void an_empty_socket_and_a_closed_one_are_told_apart(void **state)
{
    struct pair *p = *state;
    int fds[PACKET_FDS_MAX];
    char data[4];
    size_t n;

    assert_int_equal(packet_recv(p->b, data, sizeof(data), fds, &n), -EAGAIN);
    p->a = close_fd(p->a);
    assert_int_equal(packet_recv(p->b, data, sizeof(data), fds, &n), 0);
    assert_int_equal(packet_send(p->b, "x", 1, NULL, 0), -EPIPE);
}

static void the_last_word_of_who_hung_up_on_something_unread_is_heard(void **state)
{
    struct pair *p = *state;
    int fds[PACKET_FDS_MAX], zero = open("/dev/zero", O_RDONLY | O_CLOEXEC);
    char data[8];
    size_t n;

    assert_int_equal(packet_send(p->a, "ended", 5, &zero, 1), 0);
    close_fd(zero);
    assert_int_equal(packet_send(p->b, "kill", 4, NULL, 0), 0);
    p->a = close_fd(p->a);
    assert_int_equal(packet_recv(p->b, data, sizeof(data), fds, &n), 5);
    assert_memory_equal(data, "ended", 5);
    assert_int_equal(n, 1);
    packet_close_fds(fds);
    assert_int_equal(packet_recv(p->b, data, sizeof(data), fds, &n), 0);
}

static void who_hung_up_on_something_unread_and_said_nothing_is_at_its_end(void **state)
{
    struct pair *p = *state;
    int fds[PACKET_FDS_MAX];
    char data[8];
    size_t n;

    assert_int_equal(packet_send(p->b, "kill", 4, NULL, 0), 0);
    p->a = close_fd(p->a);
    assert_int_equal(packet_recv(p->b, data, sizeof(data), fds, &n), 0);
}

static void fault_56_an_empty_packet_with_descriptors_leaves_none(void **state)
{
    struct pair *p = *state;
    int fds[PACKET_FDS_MAX], free_fd = lowest_free_fd(), stdio[2] = { 0, 1 };
    char data[16];
    size_t n = 4711;

    assert_int_equal(packet_send(p->a, NULL, 0, stdio, 2), 0);
    assert_int_equal(packet_recv(p->b, data, sizeof(data), fds, &n), 0);
    assert_int_equal(n, 0);
    assert_int_equal(fds[0], -1);
    assert_int_equal(lowest_free_fd(), free_fd);
}

int main(void)
{
#define WITH_PAIR(f) cmocka_unit_test_setup_teardown(f, make_pair, close_pair)
    const struct CMUnitTest tests[] = {
        WITH_PAIR(packets_keep_their_borders_and_descriptors),
        WITH_PAIR(packet_that_does_not_fit_is_refused_and_its_descriptors_closed),
        WITH_PAIR(too_many_descriptors_are_refused_and_closed),
        WITH_PAIR(fault_56_an_empty_packet_with_descriptors_leaves_none),
        WITH_PAIR(an_empty_socket_and_a_closed_one_are_told_apart),
        WITH_PAIR(the_last_word_of_who_hung_up_on_something_unread_is_heard),
        WITH_PAIR(who_hung_up_on_something_unread_and_said_nothing_is_at_its_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
