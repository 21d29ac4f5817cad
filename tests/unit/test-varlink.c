/* The varlink server as a caller meets it. Hostile callers are in test-varlink-faults.c, the client
 * in test-varlink-client.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "varlink-bench.h"

static json_object *one(const char *key, const char *value)
{
    json_object *o = json_object_new_object();

    json_add_string(o, key, value);
    return o;
}

static void a_call_is_answered(void **state)
{
    struct bench *b = *state;

    send_message(b, "{\"method\":\"org.example.Test.Echo\",\"parameters\":{\"a\":[1,null,\"é\"]}}");
    assert_answer(b, "{\"parameters\":{\"a\":[1,null,\"é\"]}}");
    send_message(b, "{\"method\":\"org.example.Test.Echo\"}");
    assert_answer(b, "{\"parameters\":{}}");
    send_message(b, "{\"method\":\"org.example.Test.Echo\",\"parameters\":null,\"more\":false,"
                    "\"oneway\":false,\"upgrade\":false}");
    assert_answer(b, "{\"parameters\":{}}");
    assert_int_equal(b->refused, 0);
}

static void a_message_may_come_byte_by_byte(void **state)
{
    static const char text[] = "{\"method\":\"org.example.Test.Echo\"}";
    struct bench *b = *state;

    for (size_t i = 0; i < sizeof(text); i++) {
        assert_no_answer(b);
        send_bytes(b, text + i, 1, 0);
    }
    assert_answer(b, "{\"parameters\":{}}");
}

static void pipelined_calls_are_answered_in_order(void **state)
{
    static const char text[] = "{\"method\":\"org.example.Test.Echo\",\"parameters\":{\"n\":1}}\0"
                               "{\"method\":\"org.example.Test.Later\"}\0"
                               "{\"method\":\"org.example.Test.Echo\",\"parameters\":{\"n\":3}}";
    struct bench *b = *state;

    send_bytes(b, text, sizeof(text), 0);
    assert_answer(b, "{\"parameters\":{\"n\":1}}");
    assert_no_answer(b);
    assert_int_equal(b->calls, 2);
    send_message(b, "{\"method\":\"org.example.Test.Echo\",\"parameters\":{\"n\":4}}");
    assert_no_answer(b);
    assert_int_equal(varlink_reply(b->kept[0], NULL), 0);
    settle(b);
    assert_answer(b, "{\"parameters\":{}}");
    assert_answer(b, "{\"parameters\":{\"n\":3}}");
    assert_answer(b, "{\"parameters\":{\"n\":4}}");
}

static void many_pipelined_calls_are_all_answered(void **state)
{
    static const char text[] = "{\"method\":\"org.example.Test.Big\"}";
    enum { CALLS = 500 };
    struct bench *b = *state;
    size_t sent = 0, n = 0, total = CALLS * sizeof(text);
    _cleanup_free_ char *all = malloc(total);

    for (size_t i = 0; i < total; i++)
        all[i] = text[i % sizeof(text)];
    /* The caller sends as long as it can before it reads. The answers are more than the server
     * would ever buffer. */
    while (n < CALLS) {
        ssize_t r;

        while (sent < total && (r = send(b->caller, all + sent, total - sent, MSG_NOSIGNAL)) > 0) {
            sent += (size_t)r;
            settle(b);
        }
        if (!next_answer(b))
            break;
        n++;
    }
    assert_int_equal(n, CALLS);
    assert_false(hung_up(b));
}

static void more_brings_several_answers(void **state)
{
    struct bench *b = *state;

    send_message(b, "{\"method\":\"org.example.Test.Count\",\"more\":true}");
    assert_answer(b, "{\"parameters\":{\"n\":0},\"continues\":true}");
    assert_answer(b, "{\"parameters\":{\"n\":1},\"continues\":true}");
    assert_answer(b, "{\"parameters\":{\"n\":2}}");
    assert_no_answer(b);
}

static void a_method_that_needs_more_says_so(void **state)
{
    struct bench *b = *state;

    send_message(b, "{\"method\":\"org.example.Test.Count\"}");
    assert_answer(b, "{\"error\":\"org.varlink.service.ExpectedMore\",\"parameters\":{}}");
    assert_int_equal(b->calls, 0);
    assert_int_equal(b->refused, 1);
}

static void notify_without_more_is_refused_to_the_method(void **state)
{
    struct bench *b = *state;

    send_message(b, "{\"method\":\"org.example.Test.Later\"}");
    assert_int_equal(varlink_notify(b->kept[0], NULL, NULL, 0), -EBADE);
    assert_true(varlink_call_is_open(b->kept[0]));
    assert_no_answer(b);
}

static void a_oneway_call_is_never_answered(void **state)
{
    static const char *const methods[] = {
        "org.example.Test.Echo",
        "org.example.Test.Count",
        "org.example.Test.Nothing",
        "no.such.Interface",
        "nodot",
        "org.example.Test.Forget",
    };
    struct bench *b = *state;

    for (size_t i = 0; i < ELEMENTS(methods); i++) {
        char text[256];

        snprintf(text, sizeof(text), "{\"method\":\"%s\",\"oneway\":true}", methods[i]);
        send_message(b, text);
    }
    assert_no_answer(b);
    assert_false(hung_up(b));
    assert_int_equal(b->calls, 2);
    send_message(b, "{\"method\":\"org.example.Test.Later\",\"oneway\":true}");
    assert_true(varlink_call_is_oneway(b->kept[0]));
    assert_int_equal(varlink_notify(b->kept[0], NULL, NULL, 0), 0);
    assert_int_equal(varlink_error(b->kept[0], "org.example.Test.Bad", NULL), 0);
    assert_int_equal(varlink_reply(b->kept[0], NULL), -ENOTCONN);
    send_message(b, "{\"method\":\"org.example.Test.Echo\"}");
    assert_answer(b, "{\"parameters\":{}}");
    assert_no_answer(b);
}

static void an_error_is_final(void **state)
{
    struct bench *b = *state;

    send_message(b, "{\"method\":\"org.example.Test.Later\",\"more\":true}");
    assert_int_equal(varlink_notify(b->kept[0], one("phase", "a"), NULL, 0), 0);
    assert_int_equal(varlink_error_invalid_parameter(b->kept[0], "x"), 0);
    assert_false(varlink_call_is_open(b->kept[0]));
    assert_int_equal(varlink_reply(b->kept[0], NULL), -ENOTCONN);
    assert_int_equal(varlink_notify(b->kept[0], one("phase", "b"), NULL, 0), -ENOTCONN);
    assert_answer(b, "{\"parameters\":{\"phase\":\"a\"},\"continues\":true}");
    assert_answer(b, "{\"error\":\"org.varlink.service.InvalidParameter\","
                     "\"parameters\":{\"parameter\":\"x\"}}");
    assert_no_answer(b);
}

static void unknown_names_are_told_apart(void **state)
{
    static const struct {
        const char *method, *answer;
    } rows[] = {
        { "org.example.Other.Echo", "{\"error\":\"org.varlink.service.InterfaceNotFound\","
                                    "\"parameters\":{\"interface\":\"org.example.Other\"}}" },
        { "org.example.Test.echo", "{\"error\":\"org.varlink.service.MethodNotFound\","
                                   "\"parameters\":{\"method\":\"org.example.Test.echo\"}}" },
        { "org.example.Test.Echo ", "{\"error\":\"org.varlink.service.MethodNotFound\","
                                    "\"parameters\":{\"method\":\"org.example.Test.Echo \"}}" },
        { "Echo", "{\"error\":\"org.varlink.service.MethodNotFound\","
                  "\"parameters\":{\"method\":\"Echo\"}}" },
        { "",
          "{\"error\":\"org.varlink.service.MethodNotFound\",\"parameters\":{\"method\":\"\"}}" },
        { ".Echo", "{\"error\":\"org.varlink.service.MethodNotFound\","
                   "\"parameters\":{\"method\":\".Echo\"}}" },
        { "org.example.Test.", "{\"error\":\"org.varlink.service.MethodNotFound\","
                               "\"parameters\":{\"method\":\"org.example.Test.\"}}" },
    };
    struct bench *b = *state;

    for (size_t i = 0; i < ELEMENTS(rows); i++) {
        char text[256];

        snprintf(text, sizeof(text), "{\"method\":\"%s\"}", rows[i].method);
        send_message(b, text);
        assert_answer(b, rows[i].answer);
    }
    assert_int_equal(b->calls, 0);
    assert_int_equal(b->refused, ELEMENTS(rows));
}

static void the_service_describes_itself(void **state)
{
    struct bench *b = *state;
    const char *text;

    send_message(b, "{\"method\":\"org.varlink.service.GetInfo\"}");
    assert_answer(b,
                  "{\"parameters\":{\"vendor\":\"Example\",\"product\":\"bench\",\"version\":\"1\","
                  "\"url\":\"https://example.org\","
                  "\"interfaces\":[\"org.example.Test\",\"org.varlink.service\","
                  "\"xyz.example.Empty\"]}}");
    send_message(b, "{\"method\":\"org.varlink.service.GetInterfaceDescription\","
                    "\"parameters\":{\"interface\":\"org.example.Test\"}}");
    assert_answer(b, "{\"parameters\":{\"description\":\"interface org.example.Test\\n\"}}");
    send_message(b, "{\"method\":\"org.varlink.service.GetInterfaceDescription\","
                    "\"parameters\":{\"interface\":\"org.varlink.service\"}}");
    text = next_answer(b);
    assert_non_null(text);
    assert_non_null(strstr(text, "method GetInfo()"));
    send_message(b, "{\"method\":\"org.varlink.service.GetInterfaceDescription\","
                    "\"parameters\":{\"interface\":\"org.example\"}}");
    assert_answer(b, "{\"error\":\"org.varlink.service.InterfaceNotFound\","
                     "\"parameters\":{\"interface\":\"org.example\"}}");
}

static void the_service_names_a_wrong_parameter(void **state)
{
    struct bench *b = *state;

    send_message(b, "{\"method\":\"org.varlink.service.GetInfo\",\"parameters\":{\"uid\":0}}");
    assert_answer(b, "{\"error\":\"org.varlink.service.InvalidParameter\","
                     "\"parameters\":{\"parameter\":\"uid\"}}");
    send_message(b, "{\"method\":\"org.varlink.service.GetInterfaceDescription\"}");
    assert_answer(b, "{\"error\":\"org.varlink.service.InvalidParameter\","
                     "\"parameters\":{\"parameter\":\"interface\"}}");
    send_message(b, "{\"method\":\"org.varlink.service.GetInterfaceDescription\","
                    "\"parameters\":{\"interface\":1}}");
    assert_answer(b, "{\"error\":\"org.varlink.service.InvalidParameter\","
                     "\"parameters\":{\"parameter\":\"interface\"}}");
}

static void a_method_that_fails_answers_and_ends_the_connection(void **state)
{
    struct bench *b = *state;

    send_message(b, "{\"method\":\"org.example.Test.Fail\"}");
    assert_answer(b, "{\"error\":\"org.example.Test.Failed\","
                     "\"parameters\":{\"reason\":\"Input/output error\"}}");
    assert_true(hung_up(b));
}

static void a_forgotten_call_is_answered_and_ends_the_connection(void **state)
{
    struct bench *b = *state;

    send_message(b, "{\"method\":\"org.example.Test.Forget\"}");
    assert_answer(
        b, "{\"error\":\"org.example.Test.Failed\",\"parameters\":{\"reason\":\"no answer\"}}");
    assert_true(hung_up(b));
}

static void descriptors_come_with_their_call(void **state)
{
    static const char text[] = "{\"method\":\"org.example.Test.TakeFds\"}";
    struct bench *b = *state;
    unsigned before = count_fds();

    send_bytes(b, text, sizeof(text), 3);
    assert_answer(b, "{\"parameters\":{}}");
    assert_int_equal(b->n_fds, 3);
    send_bytes(b, text, sizeof(text), VARLINK_FDS_MAX);
    assert_answer(b, "{\"parameters\":{}}");
    assert_int_equal(b->n_fds, VARLINK_FDS_MAX);
    send_bytes(b, text, sizeof(text), 0);
    assert_answer(b, "{\"parameters\":{}}");
    assert_int_equal(b->n_fds, 0);
    assert_int_equal(count_fds(), before);
}

static void a_long_message_may_bring_descriptors_with_its_beginning(void **state)
{
    enum { SIZE = 900000 };
    static const char head[] = "{\"method\":\"org.example.Test.TakeFds\",\"parameters\":{\"a\":\"";
    struct bench *b = *state;
    _cleanup_free_ char *text = malloc(SIZE);

    memset(text, 'x', SIZE);
    memcpy(text, head, sizeof(head) - 1);
    memcpy(text + SIZE - 4, "\"}}", 4);
    send_bytes(b, text, SIZE, 2);
    assert_answer(b, "{\"parameters\":{}}");
    assert_int_equal(b->n_fds, 2);
}

static void a_caller_that_ended_its_own_direction_gets_its_answer(void **state)
{
    struct bench *b = *state;

    send_message(b, "{\"method\":\"org.example.Test.Later\"}");
    assert_int_equal(shutdown(b->caller, SHUT_WR), 0);
    settle(b);
    assert_int_equal(b->gone, 0);
    assert_true(varlink_call_is_open(b->kept[0]));
    assert_int_equal(varlink_reply(b->kept[0], NULL), 0);
    settle(b);
    assert_answer(b, "{\"parameters\":{}}");
    assert_true(hung_up(b));
    assert_int_equal(b->refused, 0);
}

static void calls_sent_before_a_hang_up_are_carried_out(void **state)
{
    static const char text[] = "{\"method\":\"org.example.Test.Echo\",\"oneway\":true}\0"
                               "{\"method\":\"org.example.Test.Echo\",\"oneway\":true}\0"
                               "{\"method\":\"org.example.Test.Echo\",\"oneway\":true}";
    struct bench *b = *state;

    assert_int_equal(send(b->caller, text, sizeof(text), MSG_NOSIGNAL), sizeof(text));
    b->caller = close_fd(b->caller);
    settle(b);
    assert_int_equal(b->calls, 3);
    assert_int_equal(varlink_server_connections(b->server), 0);
}

static void a_hang_up_is_told_once(void **state)
{
    struct bench *b = *state;

    send_message(b, "{\"method\":\"org.example.Test.Later\",\"more\":true}");
    assert_int_equal(varlink_notify(b->kept[0], NULL, NULL, 0), 0);
    b->caller = close_fd(b->caller);
    settle(b);
    assert_int_equal(b->gone, 1);
    assert_false(varlink_call_is_open(b->kept[0]));
    assert_int_equal(varlink_call_peer(b->kept[0])->uid, geteuid());
    assert_int_equal(varlink_notify(b->kept[0], NULL, NULL, 0), -ENOTCONN);
    assert_int_equal(varlink_reply(b->kept[0], NULL), -ENOTCONN);
    settle(b);
    assert_int_equal(b->gone, 1);
    assert_int_equal(varlink_server_connections(b->server), 0);
}

static void a_method_that_answers_the_dead_does_not_hear_of_it(void **state)
{
    struct bench *b = *state;

    send_message(b, "{\"method\":\"org.example.Test.Later\",\"more\":true}");
    b->caller = close_fd(b->caller);
    assert_int_equal(varlink_notify(b->kept[0], NULL, NULL, 0), -ENOTCONN);
    assert_int_equal(varlink_reply(b->kept[0], NULL), -ENOTCONN);
    settle(b);
    assert_int_equal(b->gone, 0);
}

static void after_the_final_answer_a_hang_up_is_not_told(void **state)
{
    struct bench *b = *state;

    send_message(b, "{\"method\":\"org.example.Test.Later\"}");
    assert_int_equal(varlink_reply(b->kept[0], NULL), 0);
    b->caller = close_fd(b->caller);
    settle(b);
    assert_int_equal(b->gone, 0);
    assert_int_equal(varlink_server_connections(b->server), 0);
}

static void waiting_output_is_counted_and_its_end_told(void **state)
{
    struct bench *b = *state;
    _cleanup_free_ char *text = malloc(1024 * 1024);

    memset(text, 'x', 1024 * 1024 - 1);
    text[1024 * 1024 - 1] = '\0';
    send_message(b, "{\"method\":\"org.example.Test.Later\",\"more\":true}");
    assert_int_equal(varlink_notify(b->kept[0], one("a", "small"), NULL, 0), 0);
    assert_int_equal(varlink_call_pending_output(b->kept[0]), 0);
    assert_int_equal(varlink_notify(b->kept[0], one("a", text), NULL, 0), 0);
    settle(b);
    assert_true(varlink_call_pending_output(b->kept[0]) > 0);
    assert_int_equal(b->drained, 0);
    assert_non_null(next_answer(b));
    assert_non_null(next_answer(b));
    assert_int_equal(varlink_call_pending_output(b->kept[0]), 0);
    assert_int_equal(b->drained, 1);
}

static void connections_are_limited_in_total_and_per_user(void **state)
{
    struct bench *b = *state;
    int fds[6];

    /* The bench's own connection is the first. */
    for (size_t i = 0; i < ELEMENTS(fds); i++)
        fds[i] = bench_connect(b);
    settle(b);
    assert_int_equal(varlink_server_connections(b->server), 3);
    for (size_t i = 0; i < ELEMENTS(fds); i++) {
        char c;
        ssize_t n = recv(fds[i], &c, 1, 0);

        assert_true(i < 2 ? n < 0 && errno == EAGAIN : n == 0);
        close_fd(fds[i]);
    }
    settle(b);
    assert_int_equal(varlink_server_connections(b->server), 1);
    assert_int_equal(b->busy, 1);
    assert_int_equal(b->idle, 0);
    b->caller = close_fd(b->caller);
    settle(b);
    assert_int_equal(b->idle, 1);
}

static int three_in_total(void **state)
{
    bench_options.connections_max = 3;
    return bench_start(state);
}

static int three_per_user(void **state)
{
    bench_options.connections_per_user_max = 3;
    return bench_start(state);
}

static void a_listening_socket_is_served_and_only_that(void **state)
{
    struct bench *b = *state;
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    socklen_t length = sizeof(address);
    int listener = socket(AF_UNIX, SOCK_STREAM, 0), caller = socket(AF_UNIX, SOCK_STREAM, 0);
    char answer[64];

    assert_int_equal(varlink_server_listen(b->server, socket(AF_UNIX, SOCK_STREAM, 0)), -EINVAL);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, sizeof(sa_family_t)), 0);
    assert_int_equal(listen(listener, 5), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &length), 0);
    assert_int_equal(varlink_server_listen(b->server, listener), 0);
    assert_int_equal(fcntl(listener, F_GETFD), FD_CLOEXEC);
    assert_int_equal(connect(caller, (struct sockaddr *)&address, length), 0);
    settle(b);
    assert_int_equal(varlink_server_connections(b->server), 2);
    assert_int_equal(send(caller, "{\"method\":\"org.example.Test.Echo\"}", 35, 0), 35);
    settle(b);
    assert_int_equal(recv(caller, answer, sizeof(answer), 0), sizeof("{\"parameters\":{}}"));
    assert_string_equal(answer, "{\"parameters\":{}}");
    close_fd(caller);
}

int main(void)
{
#define ON_BENCH(f) cmocka_unit_test_setup_teardown(f, bench_start, bench_stop)
    const struct CMUnitTest tests[] = {
        ON_BENCH(a_call_is_answered),
        ON_BENCH(a_message_may_come_byte_by_byte),
        ON_BENCH(pipelined_calls_are_answered_in_order),
        ON_BENCH(many_pipelined_calls_are_all_answered),
        ON_BENCH(more_brings_several_answers),
        ON_BENCH(a_method_that_needs_more_says_so),
        ON_BENCH(notify_without_more_is_refused_to_the_method),
        ON_BENCH(a_oneway_call_is_never_answered),
        ON_BENCH(an_error_is_final),
        ON_BENCH(unknown_names_are_told_apart),
        ON_BENCH(the_service_describes_itself),
        ON_BENCH(the_service_names_a_wrong_parameter),
        ON_BENCH(a_method_that_fails_answers_and_ends_the_connection),
        ON_BENCH(a_forgotten_call_is_answered_and_ends_the_connection),
        ON_BENCH(descriptors_come_with_their_call),
        ON_BENCH(a_long_message_may_bring_descriptors_with_its_beginning),
        ON_BENCH(a_caller_that_ended_its_own_direction_gets_its_answer),
        ON_BENCH(calls_sent_before_a_hang_up_are_carried_out),
        ON_BENCH(a_hang_up_is_told_once),
        ON_BENCH(a_method_that_answers_the_dead_does_not_hear_of_it),
        ON_BENCH(after_the_final_answer_a_hang_up_is_not_told),
        ON_BENCH(waiting_output_is_counted_and_its_end_told),
        { "connections_are_limited_in_total", connections_are_limited_in_total_and_per_user,
          three_in_total, bench_stop, NULL },
        { "connections_are_limited_per_user", connections_are_limited_in_total_and_per_user,
          three_per_user, bench_stop, NULL },
        ON_BENCH(a_listening_socket_is_served_and_only_that),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
