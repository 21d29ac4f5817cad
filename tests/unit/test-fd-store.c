/* What the service manager is told of descriptors (helper/broker/fd-store.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "broker/fd-store.h"

/* The service manager's socket, in the abstract namespace. */
static int listen_as_manager(void)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    socklen_t size = sizeof(address);
    char name[sizeof(address.sun_path) + 1] = "@";
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(sa_family_t)), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &size), 0);
    size -= offsetof(struct sockaddr_un, sun_path);
    memcpy(name + 1, address.sun_path + 1, size - 1);
    assert_int_equal(setenv("NOTIFY_SOCKET", name, 1), 0);
    return fd;
}

/* How many messages with @text there are; all are read. */
static unsigned heard(int manager, const char *text)
{
    char message[1024];
    unsigned found = 0;
    ssize_t n;

    while ((n = recv(manager, message, sizeof(message) - 1, 0)) >= 0) {
        message[n] = '\0';
        found += strstr(message, text) != NULL;
    }
    return found;
}

static void what_is_kept_is_named_and_not_polled(void **state)
{
    int manager = listen_as_manager(), fd = STDIN_FILENO;

    assert_int_equal(fd_store_push("run.a.live", &fd, 1), 0);
    assert_int_equal(heard(manager, "FDSTORE=1\nFDPOLL=0\nFDNAME=run.a.live"), 1);
    assert_int_equal(fd_store_remove("run.a.live"), 0);
    assert_int_equal(heard(manager, "FDSTOREREMOVE=1\nFDNAME=run.a.live"), 1);
    assert_true(fd_store_retry());
    close(manager);
}

static void removal_that_a_full_socket_did_not_take_is_told_again(void **state)
{
    int manager = listen_as_manager(), fd = STDIN_FILENO;
    int taken = 0;

    while (taken < 100000 && fd_store_push("run.a.files", &fd, 1) == 0)
        taken++;
    assert_int_equal(fd_store_remove("run.a.waiting"), -EAGAIN);
    assert_int_equal(fd_store_remove("run.b.live"), -EAGAIN);
    assert_false(fd_store_retry());
    assert_int_equal(heard(manager, "FDSTOREREMOVE"), 0);
    assert_true(fd_store_retry());
    assert_int_equal(heard(manager, "FDSTOREREMOVE"), 2);
    assert_true(fd_store_retry());
    assert_int_equal(heard(manager, ""), 0);
    close(manager);
}

static void without_a_manager_nothing_is_told_again(void **state)
{
    int fd = STDIN_FILENO;

    assert_int_equal(unsetenv("NOTIFY_SOCKET"), 0);
    assert_int_equal(fd_store_push("run.a.live", &fd, 1), -ENOTCONN);
    assert_int_equal(fd_store_remove("run.a.live"), 0);
    assert_true(fd_store_retry());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_kept_is_named_and_not_polled),
        cmocka_unit_test(removal_that_a_full_socket_did_not_take_is_told_again),
        cmocka_unit_test(without_a_manager_nothing_is_told_again),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
