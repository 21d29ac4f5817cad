/* Closing of descriptors whose owner lets the closer wait. A TCP socket that lingers stands for a
 * FUSE file: its close(2) waits until the peer has taken what was sent, or is gone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "common/cleanup.h"
#include "common/foreign.h"

#define MANY (FOREIGN_USER_MAX + 1)

struct pair {
    int lingering, peer;
};

static struct pair make_pair(void)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    struct linger linger = { .l_onoff = 1, .l_linger = 60 };
    socklen_t size = sizeof(address);
    _cleanup_close_ int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct pair pair = { .lingering = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0) };
    static const char block[65536];

    assert_int_equal(bind(listener, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &size), 0);
    assert_int_equal(connect(pair.lingering, (struct sockaddr *)&address, size), 0);
    pair.peer = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    assert_true(pair.peer >= 0);
    /* Fill both buffers, so that there is something to linger for. */
    for (struct pollfd writable = { .fd = pair.lingering, .events = POLLOUT };
         poll(&writable, 1, 50) == 1;)
        while (send(pair.lingering, block, sizeof(block), MSG_DONTWAIT) > 0)
            ;
    assert_int_equal(setsockopt(pair.lingering, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)), 0);
    return pair;
}

static size_t threads(void)
{
    DIR *dir = opendir("/proc/self/task");
    size_t n = 0;

    assert_non_null(dir);
    while (readdir(dir))
        n++;
    closedir(dir);
    return n - 2;
}

static void wait_for_threads(size_t n)
{
    for (int i = 0; i < 1000 && threads() != n; i++)
        poll(NULL, 0, 10);
    assert_int_equal(threads(), n);
}

static void fault_54_a_close_that_waits_holds_up_nobody(void **state)
{
    struct pair pair = make_pair();

    foreign_close(pair.lingering, 1000);
    /* We are here, and somebody else waits. */
    assert_int_equal(threads(), 2);
    assert_false(foreign_overdue(1000));
    close(pair.peer);
    wait_for_threads(1);
}

static void send_and_close(int sock, int fd)
{
    union {
        char buffer[CMSG_SPACE(sizeof(int))];
        struct cmsghdr header;
    } control = { .header = { .cmsg_len = CMSG_LEN(sizeof(int)),
                              .cmsg_level = SOL_SOCKET,
                              .cmsg_type = SCM_RIGHTS } };
    char x = 'x';
    struct iovec byte = { .iov_base = &x, .iov_len = sizeof(x) };
    struct msghdr msg = { .msg_iov = &byte,
                          .msg_iovlen = 1,
                          .msg_control = control.buffer,
                          .msg_controllen = sizeof(control.buffer) };

    memcpy(CMSG_DATA(&control.header), &fd, sizeof(fd));
    assert_int_equal(sendmsg(sock, &msg, MSG_NOSIGNAL), 1);
    close(fd);
}

/* Who closes a socket closes what was sent to it and not received. */
static void fault_54_unread_descriptors_hold_up_nobody(void **state)
{
    struct pair pair = make_pair();
    int sockets[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), 0);
    send_and_close(sockets[1], pair.lingering);
    foreign_close_socket(sockets[0], 1000);
    assert_int_equal(threads(), 2);
    assert_int_equal(send(sockets[1], "x", 1, MSG_NOSIGNAL), -1);
    close(pair.peer);
    wait_for_threads(1);
    assert_int_equal(foreign_pending(), 0);
    close(sockets[1]);
}

static void socket_without_unread_bytes_is_closed_at_once(void **state)
{
    int sockets[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), 0);
    foreign_close_socket(sockets[0], 1000);
    assert_int_equal(fcntl(sockets[0], F_GETFD), -1);
    close(sockets[1]);
    foreign_close_socket(-1, 1000);
}

static void fault_09_threads_of_one_user_are_bounded_and_all_is_closed(void **state)
{
    struct pair pairs[MANY + 5];

    for (size_t i = 0; i < ELEMENTS(pairs); i++)
        pairs[i] = make_pair();
    for (size_t i = 0; i < ELEMENTS(pairs); i++)
        foreign_close(pairs[i].lingering, 1000);
    assert_int_equal(threads(), 1 + MANY);
    assert_int_equal(foreign_pending(), ELEMENTS(pairs));
    for (size_t i = 0; i < ELEMENTS(pairs); i++)
        close(pairs[i].peer);
    wait_for_threads(1);
    assert_int_equal(foreign_pending(), 0);
    for (size_t i = 0; i < ELEMENTS(pairs); i++)
        assert_int_equal(fcntl(pairs[i].lingering, F_GETFD), -1);
}

static void large_memfd_is_closed_by_a_thread_and_a_small_one_at_once(void **state)
{
    int small = memfd_create("small", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    int large = memfd_create("large", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    struct pair pairs[MANY];

    assert_true(small >= 0 && large >= 0);
    assert_int_equal(ftruncate(large, 64 * 1024 * 1024), 0);
    for (size_t i = 0; i < MANY; i++)
        pairs[i] = make_pair();
    /* So that no thread is left, and whatever needs one has to wait. */
    for (size_t i = 0; i < MANY; i++)
        foreign_close(pairs[i].lingering, 1000);
    foreign_close(small, 1000);
    foreign_close(large, 1000);
    assert_int_equal(fcntl(small, F_GETFD), -1);
    assert_int_equal(fcntl(large, F_GETFD), FD_CLOEXEC);
    for (size_t i = 0; i < MANY; i++)
        close(pairs[i].peer);
    wait_for_threads(1);
    assert_int_equal(fcntl(large, F_GETFD), -1);
    foreign_close(-1, 1000);
}

static void fault_09_who_has_too_many_waiting_gets_no_more_in(void **state)
{
    struct pair pairs[MANY];

    for (size_t i = 0; i < MANY; i++)
        pairs[i] = make_pair();
    for (size_t i = 0; i < MANY; i++) {
        assert_false(foreign_overdue(1000));
        foreign_close(pairs[i].lingering, 1000);
    }
    assert_true(foreign_overdue(1000));
    assert_false(foreign_overdue(1001));
    for (size_t i = 0; i < MANY; i++)
        close(pairs[i].peer);
    wait_for_threads(1);
    assert_false(foreign_overdue(1000));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fault_54_a_close_that_waits_holds_up_nobody),
        cmocka_unit_test(fault_09_who_has_too_many_waiting_gets_no_more_in),
        cmocka_unit_test(fault_54_unread_descriptors_hold_up_nobody),
        cmocka_unit_test(socket_without_unread_bytes_is_closed_at_once),
        cmocka_unit_test(fault_09_threads_of_one_user_are_bounded_and_all_is_closed),
        cmocka_unit_test(large_memfd_is_closed_by_a_thread_and_a_small_one_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
