/* The varlink client as a program uses it, against our server and against ones that are not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "varlink-bench.h"

static json_object *one(const char *key, const char *value)
{
    json_object *o = json_object_new_object();

    json_add_string(o, key, value);
    return o;
}

/* The bench's caller end as a client; the bench keeps nothing of it. */
static struct varlink_client *client_of(struct bench *b)
{
    struct varlink_client *client = NULL;

    assert_int_equal(varlink_client_new(TAKE_FD(b->caller), &client), 0);
    return client;
}

static void the_client_calls_and_gets_answers(void **state)
{
    struct bench *b = *state;
    struct varlink_client *client = client_of(b);
    struct varlink_answer answer;

    assert_int_equal(varlink_client_receive(client, 0, &answer), -ENODATA);
    assert_int_equal(
        varlink_client_send(client, "org.example.Test.Echo", one("a", "b"), 0, NULL, 0), 0);
    assert_int_equal(varlink_client_receive(client, 0, &answer), 0);
    assert_int_equal(varlink_client_send(client, "org.example.Test.Echo", NULL, 0, NULL, 0),
                     -EBUSY);
    settle(b);
    assert_int_equal(varlink_client_receive(client, 0, &answer), 1);
    assert_null(answer.error);
    assert_false(answer.continues);
    assert_string_equal(json_text(answer.parameters, &(size_t){ 0 }), "{\"a\":\"b\"}");
    varlink_answer_release(&answer);

    assert_int_equal(
        varlink_client_send(client, "org.example.Test.Count", NULL, VARLINK_CALL_MORE, NULL, 0), 0);
    settle(b);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(varlink_client_receive(client, UINT64_MAX, &answer), 1);
        assert_int_equal(answer.continues, i < 2);
        varlink_answer_release(&answer);
    }
    assert_int_equal(varlink_client_send(client, "org.example.Test.No", NULL, 0, NULL, 0), 0);
    settle(b);
    assert_int_equal(varlink_client_receive(client, 1000000, &answer), 1);
    assert_string_equal(answer.error, "org.varlink.service.MethodNotFound");
    varlink_answer_release(&answer);

    assert_int_equal(
        varlink_client_send(client, "org.example.Test.Echo", NULL, VARLINK_CALL_ONEWAY, NULL, 0),
        0);
    assert_int_equal(varlink_client_receive(client, 0, &answer), -ENODATA);
    varlink_client_free(client);
}

static void the_client_passes_descriptors_both_ways(void **state)
{
    struct bench *b = *state;
    struct varlink_client *client = client_of(b);
    struct varlink_answer answer;
    int fds[] = { STDERR_FILENO, STDERR_FILENO }, zero = open("/dev/zero", O_RDONLY | O_CLOEXEC);
    unsigned before;
    char byte = 1;

    assert_int_equal(varlink_client_send(client, "org.example.Test.TakeFds", NULL, 0, fds, 2), 0);
    settle(b);
    assert_int_equal(b->n_fds, 2);
    assert_int_equal(varlink_client_receive(client, 0, &answer), 1);
    varlink_answer_release(&answer);

    assert_int_equal(
        varlink_client_send(client, "org.example.Test.Later", NULL, VARLINK_CALL_MORE, NULL, 0), 0);
    settle(b);
    before = count_fds();
    /* The kernel may well glue these together. */
    assert_int_equal(varlink_notify(b->kept[0], one("n", "1"), NULL, 0), 0);
    assert_int_equal(varlink_notify(b->kept[0], one("n", "2"), &zero, 1), 0);
    assert_int_equal(varlink_notify(b->kept[0], one("n", "3"), NULL, 0), 0);
    settle(b);
    for (size_t i = 1; i <= 3; i++) {
        assert_int_equal(varlink_client_receive(client, 0, &answer), 1);
        assert_int_equal(answer.n_fds, i == 2);
        if (i == 2) {
            assert_int_equal(read(answer.fds[0], &byte, 1), 1);
            assert_int_equal(byte, 0);
            assert_int_equal(fcntl(answer.fds[0], F_GETFD), FD_CLOEXEC);
        }
        varlink_answer_release(&answer);
    }
    assert_int_equal(count_fds(), before);
    close_fd(zero);
    varlink_client_free(client);
}

static void descriptors_of_a_long_answer_come_once(void **state)
{
    enum { SIZE = 1000000 };
    struct bench *b = *state;
    struct varlink_client *client = client_of(b);
    struct varlink_answer answer;
    _cleanup_free_ char *text = malloc(SIZE);
    int fd = STDERR_FILENO, r;

    memset(text, 'x', SIZE - 1);
    text[SIZE - 1] = '\0';
    assert_int_equal(
        varlink_client_send(client, "org.example.Test.Later", NULL, VARLINK_CALL_MORE, NULL, 0), 0);
    settle(b);
    assert_int_equal(varlink_notify(b->kept[0], one("a", text), &fd, 1), 0);
    assert_true(varlink_call_pending_output(b->kept[0]) > 0);
    while ((r = varlink_client_receive(client, 0, &answer)) == 0)
        settle(b);
    assert_int_equal(r, 1);
    assert_int_equal(answer.n_fds, 1);
    varlink_answer_release(&answer);
    varlink_client_free(client);
}

/* A server of our own hand: its end of the connection. */
static struct varlink_client *client_of_pair(int *ret_server, enum varlink_call_flags flags)
{
    struct varlink_client *client;
    int pair[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    assert_int_equal(varlink_client_new(pair[0], &client), 0);
    assert_int_equal(varlink_client_send(client, "a.B", NULL, flags, NULL, 0), 0);
    *ret_server = pair[1];
    return client;
}

static void descriptors_belong_to_the_answer_that_began_last(void **state)
{
    struct bench *b = *state;
    struct varlink_client *client;
    struct varlink_answer answer;
    int server;

    client = client_of_pair(&server, VARLINK_CALL_MORE);
    close_fd(b->caller);
    b->caller = server;
    assert_int_equal(send(server, "{\"continues\":true}", 19, 0), 19);
    send_bytes(b, "{\"continu", 9, 2);
    assert_int_equal(varlink_client_receive(client, 0, &answer), 1);
    assert_int_equal(answer.n_fds, 0);
    varlink_answer_release(&answer);
    assert_int_equal(varlink_client_receive(client, 0, &answer), 0);
    assert_int_equal(send(server, "es\":true}\0{}", 13, 0), 13);
    assert_int_equal(varlink_client_receive(client, 0, &answer), 1);
    assert_int_equal(answer.n_fds, 2);
    varlink_answer_release(&answer);
    assert_int_equal(varlink_client_receive(client, 0, &answer), 1);
    assert_int_equal(answer.n_fds, 0);
    varlink_answer_release(&answer);
    varlink_client_free(client);
}

static void two_sets_of_descriptors_for_one_answer_are_refused(void **state)
{
    struct bench *b = *state;
    struct varlink_client *client;
    struct varlink_answer answer;
    unsigned before = count_fds();
    int server;

    client = client_of_pair(&server, 0);
    close_fd(b->caller);
    b->caller = server;
    send_bytes(b, "{", 1, 2);
    send_bytes(b, "}", 2, 2);
    assert_int_equal(varlink_client_receive(client, 0, &answer), -EBADMSG);
    varlink_client_free(client);
    settle(b);
    assert_int_equal(count_fds(), before - b->n_own);
}

/* A client whose server says @answer to a call with @flags; what receive() makes of it. */
static int answered(const char *text, size_t size, enum varlink_call_flags flags)
{
    struct varlink_answer answer;
    int server, r;
    struct varlink_client *client = client_of_pair(&server, flags);

    assert_int_equal(send(server, text, size, MSG_NOSIGNAL), size);
    shutdown(server, SHUT_WR);
    r = varlink_client_receive(client, UINT64_MAX, &answer);
    if (r > 0)
        varlink_answer_release(&answer);
    varlink_client_free(client);
    close_fd(server);
    return r;
}

static void the_client_takes_nothing_but_varlink(void **state)
{
    static const char *const bad[] = {
        "",
        "x",
        "[]",
        "null",
        "{\"parameters\":[]}",
        "{\"parameters\":1}",
        "{\"error\":null}",
        "{\"error\":1}",
        "{\"continues\":1}",
        "{\"continues\":null}",
        "{\"surplus\":1}",
        "{\"method\":\"a.B\"}",
        "{\"error\":\"a.B\",\"continues\":true}",
        "{\"parameters\":{},\"parameters\":{}}",
        "{\"parameters\":{\"a\":1,\"a\":2}}",
        "{\"parameters\":{\"a\":\"\\u0000\"}}",
        "{\"continues\":true}",
    };

    for (size_t i = 0; i < ELEMENTS(bad); i++)
        assert_int_equal(answered(bad[i], strlen(bad[i]) + 1, 0), -EBADMSG);
    assert_int_equal(answered("{\"error\":\"a.B\",\"continues\":true}", 33, VARLINK_CALL_MORE),
                     -EBADMSG);
    assert_int_equal(answered("{}", 3, 0), 1);
    assert_int_equal(answered("{\"parameters\":null}", 20, 0), 1);
    assert_int_equal(answered("{\"continues\":true}", 19, VARLINK_CALL_MORE), 1);
    assert_int_equal(answered("{\"continues\":false}", 20, 0), 1);
    assert_int_equal(answered("", 0, 0), -ECONNRESET);
    assert_int_equal(answered("{\"parameters\":{}}", 10, 0), -ECONNRESET);
}

static void on_alarm(int signal)
{
}

static void the_client_waits_no_longer_than_it_is_told(void **state)
{
    struct bench *b = *state;
    struct varlink_client *client = client_of(b);
    struct varlink_answer answer;
    struct sigaction action = { .sa_handler = on_alarm };
    struct itimerval timer = { .it_value = { .tv_usec = 2000 },
                               .it_interval = { .tv_usec = 2000 } };

    /* Interrupted all the time, it still keeps its deadline. */
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &timer, NULL);
    assert_int_equal(varlink_client_send(client, "org.example.Test.Later", NULL, 0, NULL, 0), 0);
    assert_int_equal(varlink_client_receive(client, 20000, &answer), 0);
    timer = (struct itimerval){ 0 };
    setitimer(ITIMER_REAL, &timer, NULL);
    varlink_client_free(client);
}

static void a_server_that_is_gone_is_an_error_not_a_signal(void **state)
{
    struct bench *b = *state;
    struct varlink_client *client = client_of(b);
    struct varlink_answer answer;

    b->server = varlink_server_unref(b->server);
    assert_int_equal(varlink_client_send(client, "org.example.Test.Echo", NULL, 0, NULL, 0),
                     -EPIPE);
    assert_int_equal(varlink_client_receive(client, 0, &answer), -ENODATA);
    varlink_client_free(client);
    assert_int_equal(varlink_client_connect("/nonexistent/socket", &client), -ENOENT);
    assert_int_equal(varlink_client_connect("/dev/null", &client), -ECONNREFUSED);
    assert_int_equal(
        varlink_client_connect("/0123456789012345678901234567890123456789012345678901234"
                               "567890123456789012345678901234567890123456789012345678",
                               &client),
        -ENAMETOOLONG);
}

int main(void)
{
#define ON_BENCH(f) cmocka_unit_test_setup_teardown(f, bench_start, bench_stop)
    const struct CMUnitTest tests[] = {
        ON_BENCH(the_client_calls_and_gets_answers),
        ON_BENCH(the_client_passes_descriptors_both_ways),
        ON_BENCH(descriptors_of_a_long_answer_come_once),
        ON_BENCH(descriptors_belong_to_the_answer_that_began_last),
        ON_BENCH(two_sets_of_descriptors_for_one_answer_are_refused),
        cmocka_unit_test(the_client_takes_nothing_but_varlink),
        ON_BENCH(the_client_waits_no_longer_than_it_is_told),
        ON_BENCH(a_server_that_is_gone_is_an_error_not_a_signal),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
