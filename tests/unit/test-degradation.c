/* What the journal is told of a machine's lacks, with a socket in the place of journald's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "common/cleanup.h"
#include "common/degradation.h"

#define SOCKET "/tmp/test-degradation-journal"

static int listen_as_journald(void **state)
{
    static int fd;
    struct sockaddr_un address = { .sun_family = AF_UNIX, .sun_path = SOCKET };

    unlink(SOCKET);
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    *state = &fd;
    return bind(fd, (struct sockaddr *)&address, sizeof(address));
}

static int stop_listening(void **state)
{
    int *fd = *state;

    *fd = close_fd(*fd);
    return unlink(SOCKET);
}

static void each_has_a_record_with_its_name_and_id(void **state)
{
    static const char *const names[] = {
        [DEGRADATION_PEER_PIDFD] = "peer-pidfd",
        [DEGRADATION_PRIVATE_PIDS] = "private-pids",
        [DEGRADATION_SWAP_LIMIT] = "swap-limit",
    };
    const int *fd = *state;
    char record[2048], field[64];

    for (size_t i = 0; i < ELEMENTS(names); i++) {
        degradation_tell(SOCKET, (enum degradation)i);
        ssize_t n = recv(*fd, record, sizeof(record) - 1, 0);
        assert_true(n > 0);
        record[n] = '\0';
        snprintf(field, sizeof(field), "\nSBXCTL_DEGRADATION=%s\n", names[i]);
        assert_non_null(strstr(record, field));
        assert_ptr_equal(strstr(record, "MESSAGE_ID=" DEGRADATION_MESSAGE_ID "\n"), record);
        assert_non_null(strstr(record, "\nMESSAGE="));
        assert_int_equal(record[n - 1], '\n');
        assert_int_equal(recv(*fd, record, sizeof(record), 0), -1);
    }
}

static void told_on_stderr_when_the_journal_takes_nothing(void **state)
{
    char text[1024];
    int pipes[2], old = dup(STDERR_FILENO);

    assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
    assert_int_equal(dup2(pipes[1], STDERR_FILENO), STDERR_FILENO);
    degradation_tell("/nowhere/socket", DEGRADATION_PRIVATE_PIDS);
    dup2(old, STDERR_FILENO);
    close(old);
    close(pipes[1]);
    ssize_t n = read(pipes[0], text, sizeof(text) - 1);
    close(pipes[0]);
    assert_true(n > 0);
    text[n] = '\0';
    assert_non_null(strstr(text, "<4>This systemd (before 257)"));
}

/* A full queue is one that nobody reads; more of them than it holds come to an end. */
static void journal_that_stands_still_holds_up_nobody(void **state)
{
    int old = dup(STDERR_FILENO), null = open("/dev/null", O_WRONLY | O_CLOEXEC);

    assert_int_equal(dup2(null, STDERR_FILENO), STDERR_FILENO);
    for (int i = 0; i < 5000; i++)
        degradation_tell(SOCKET, DEGRADATION_SWAP_LIMIT);
    dup2(old, STDERR_FILENO);
    close(old);
    close(null);
}

static void explained_in_the_catalog(void **state)
{
    FILE *catalog = fopen(SBXCTL_CATALOG, "re");
    char line[256];
    int found = 0;

    assert_non_null(catalog);
    while (fgets(line, sizeof(line), catalog))
        found += strcmp(line, "-- " DEGRADATION_MESSAGE_ID "\n") == 0;
    fclose(catalog);
    assert_int_equal(found, 1);
}

#define WITH_JOURNALD(test) \
    cmocka_unit_test_setup_teardown(test, listen_as_journald, stop_listening)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_JOURNALD(each_has_a_record_with_its_name_and_id),
        cmocka_unit_test(told_on_stderr_when_the_journal_takes_nothing),
        WITH_JOURNALD(journal_that_stands_still_holds_up_nobody),
        cmocka_unit_test(explained_in_the_catalog),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
