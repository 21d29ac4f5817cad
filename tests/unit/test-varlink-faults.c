/* The varlink server and hostile callers: rows of the fault catalogue, and whatever else ends a
 * connection. After each of them the server still answers the next caller. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <string.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "varlink-bench.h"

#define ECHO "{\"method\":\"org.example.Test.Echo\"}"
#define TAKE "{\"method\":\"org.example.Test.TakeFds\"}"

/* The connection has ended without a word, and another caller is served. */
static void assert_ended(struct bench *b)
{
    assert_true(hung_up(b));
    settle(b);
    assert_int_equal(varlink_server_connections(b->server), 0);
    close_fd(b->caller);
    b->caller = bench_connect(b);
    send_message(b, ECHO);
    assert_answer(b, "{\"parameters\":{}}");
}

/* Messages that some parser somewhere takes for something else than we do, or that no varlink
 * client sends. */
static const char *const tricky[] = {
    /* No message at all. */
    "",
    " ",
    "null",
    "true",
    "1",
    "\"org.example.Test.Echo\"",
    "[]",
    "[" ECHO "]",
    ECHO ECHO,
    ECHO "x",
    ECHO ",",
    "\xef\xbb\xbf" ECHO,
    "GET / HTTP/1.1\r\n\r\n",
    /* No method, or not as a name. */
    "{}",
    "{\"parameters\":{}}",
    "{\"method\":null}",
    "{\"method\":1}",
    "{\"method\":true}",
    "{\"method\":[\"org.example.Test.Echo\"]}",
    "{\"method\":{\"org.example.Test.Echo\":1}}",
    "{\"Method\":\"org.example.Test.Echo\"}",
    "{\"method \":\"org.example.Test.Echo\"}",
    /* Parameters that are none. */
    "{\"method\":\"org.example.Test.Echo\",\"parameters\":[]}",
    "{\"method\":\"org.example.Test.Echo\",\"parameters\":\"{}\"}",
    "{\"method\":\"org.example.Test.Echo\",\"parameters\":0}",
    "{\"method\":\"org.example.Test.Echo\",\"parameters\":false}",
    /* Flags. */
    "{\"method\":\"org.example.Test.Echo\",\"more\":1}",
    "{\"method\":\"org.example.Test.Echo\",\"more\":\"true\"}",
    "{\"method\":\"org.example.Test.Echo\",\"more\":null}",
    "{\"method\":\"org.example.Test.Echo\",\"oneway\":0}",
    "{\"method\":\"org.example.Test.Echo\",\"oneway\":{}}",
    "{\"method\":\"org.example.Test.Echo\",\"upgrade\":[]}",
    "{\"method\":\"org.example.Test.Echo\",\"upgrade\":true}",
    "{\"method\":\"org.example.Test.Echo\",\"more\":true,\"oneway\":true}",
    "{\"method\":\"org.example.Test.Echo\",\"more\":true,\"upgrade\":true}",
    "{\"method\":\"org.example.Test.Echo\",\"oneway\":true,\"upgrade\":true}",
    "{\"method\":\"org.example.Test.Echo\",\"more\":true,\"oneway\":true,\"upgrade\":true}",
    /* Keys that are not ours. */
    "{\"method\":\"org.example.Test.Echo\",\"continues\":true}",
    "{\"method\":\"org.example.Test.Echo\",\"error\":\"a.B\"}",
    "{\"method\":\"org.example.Test.Echo\",\"org.example.Test.uid\":0}",
    "{\"method\":\"org.example.Test.Echo\",\"uid\":0}",
    "{\"method\":\"org.example.Test.Echo\",\"\":0}",
    /* The same key twice: who wins? */
    "{\"method\":\"org.example.Test.Echo\",\"method\":\"org.example.Test.Later\"}",
    "{\"method\":\"org.example.Test.Echo\",\"m\\u0065thod\":\"org.example.Test.Later\"}",
    "{\"method\":\"org.example.Test.Echo\",\"parameters\":{},\"parameters\":{}}",
    "{\"method\":\"org.example.Test.Echo\",\"oneway\":false,\"oneway\":true}",
    "{\"method\":\"org.example.Test.Echo\",\"parameters\":{\"network\":\"none\",\"network\":"
    "\"all\"}}",
    "{\"method\":\"org.example.Test.Echo\",\"parameters\":{\"network\":\"none\",\"net\\u0077ork\":"
    "1}}",
    "{\"method\":\"org.example.Test.Echo\",\"parameters\":{\"a\":{\"b\":1,\"b\":2}}}",
    "{\"method\":\"org.example.Test.Echo\",\"parameters\":{\"a\":[{\"b\":1,\"b\":2}]}}",
    "{\"method\":\"org.example.Test.Echo\",\"parameters\":{\"a\":{\"x\":1},\"a\":{\"y\":2}}}",
    "{\"method\":\"org.example.Test.Echo\",\"parameters\":{\"é\":1,\"\\u00e9\":2}}",
    /* Keys and values that end early for a C reader. */
    "{\"method\\u0000x\":\"org.example.Test.Echo\"}",
    "{\"method\":\"org.example.Test.Echo\\u0000\"}",
    "{\"method\":\"org.example.Test.Echo\",\"parameters\":{\"a\\u0000b\":1}}",
    "{\"method\":\"org.example.Test.Echo\",\"parameters\":{\"a\":\"b\\u0000c\"}}",
    "{\"method\":\"org.example.Test.Echo\",\"parameters\":{\"a\":\"\\\\\\u0000\"}}",
    /* Numbers that are clamped, rounded or no numbers. */
    "{\"method\":\"org.example.Test.Echo\",\"parameters\":{\"a\":9223372036854775808}}",
    "{\"method\":\"org.example.Test.Echo\",\"parameters\":{\"a\":18446744073709551616}}",
    "{\"method\":\"org.example.Test.Echo\",\"parameters\":{\"a\":-9223372036854775809}}",
    "{\"method\":\"org.example.Test.Echo\",\"parameters\":{\"a\":99999999999999999999999999999}}",
    "{\"method\":\"org.example.Test.Echo\",\"parameters\":{\"a\":1e400}}",
    "{\"method\":\"org.example.Test.Echo\",\"parameters\":{\"a\":NaN}}",
    "{\"method\":\"org.example.Test.Echo\",\"parameters\":{\"a\":Infinity}}",
    "{\"method\":\"org.example.Test.Echo\",\"parameters\":{\"a\":-Infinity}}",
    "{\"method\":\"org.example.Test.Echo\",\"parameters\":{\"a\":010}}",
    "{\"method\":\"org.example.Test.Echo\",\"parameters\":{\"a\":0x10}}",
    "{\"method\":\"org.example.Test.Echo\",\"parameters\":{\"a\":+1}}",
    "{\"method\":\"org.example.Test.Echo\",\"parameters\":{\"a\":1.}}",
    /* Text that is none. */
    "{\"method\":\"org.example.Test.Echo\",\"parameters\":{\"a\":\"\xff\"}}",
    "{\"method\":\"org.example.Test.Echo\",\"parameters\":{\"a\":\"\xc0\xae\xc0\xae/\"}}",
    "{\"method\":\"org.example.Test.Echo\",\"parameters\":{\"a\":\"\xed\xa0\x80\"}}",
    "{\"method\":\"org.example.Test.Echo\",\"parameters\":{\"a\":\"\\ud800\"}}",
    "{\"method\":\"org.example.Test.Echo\",\"parameters\":{\"a\":\"\\udc00\\ud800\"}}",
    "{\"method\":\"org.example.Test.Echo\",\"parameters\":{\"a\":\"\\x41\"}}",
    "{\"method\":\"org.example.Test.Echo\",\"parameters\":{\"a\":\"\n\"}}",
    "{\"method\":\"org.example.Test.Echo\",\"parameters\":{\"a\":\"\x1b[31m\"}}",
    /* What lax parsers allow. */
    "{'method':'org.example.Test.Echo'}",
    "{method:\"org.example.Test.Echo\"}",
    "{\"method\":\"org.example.Test.Echo\",}",
    "{\"method\":\"org.example.Test.Echo\" /* hi */}",
    "{\"method\":\"org.example.Test.Echo\"//\n}",
    "{\"method\":\"org.example.Test.Echo\",\"parameters\":{\"a\":[1,]}}",
    "{\"method\":\"org.example.Test.Echo\",\"parameters\":{\"a\":[1 2]}}",
    "{\"method\":\"org.example.Test.Echo\",\"parameters\":{\"a\":True}}",
    "{\"method\":\"org.example.Test.Echo\",\"parameters\":{\"a\":undefined}}",
    "{\"method\";\"org.example.Test.Echo\"}",
    "{\"method\":\"org.example.Test.Echo\"",
    "{\"method\":\"org.example.Test.Echo",
};

static void fault_73_tricky_messages_are_refused(void **state)
{
    struct bench *b = *state;

    for (size_t i = 0; i < ELEMENTS(tricky); i++) {
        unsigned refused = b->refused, calls = b->calls;

        send_message(b, tricky[i]);
        if (!hung_up(b))
            print_message("%s\n", tricky[i]);
        assert_ended(b);
        assert_int_equal(b->refused, refused + 1);
        assert_int_equal(b->calls, calls + 1); /* the next caller's */
    }
}

/* Odd, but with one meaning only: it comes back as it was sent. */
static void fault_73_odd_but_clear_messages_keep_their_meaning(void **state)
{
    static const struct {
        const char *parameters, *echo;
    } rows[] = {
        { "{\"a\":9223372036854775807}", "{\"a\":9223372036854775807}" },
        { "{\"a\":-9223372036854775808}", "{\"a\":-9223372036854775808}" },
        { "{\"a\":\"\\u0041\\/\"}", "{\"a\":\"A/\"}" },
        { "{\"a\":\"\\ud83d\\ude00\"}", "{\"a\":\"😀\"}" },
        { "{\"a\":{\"k\":1},\"b\":{\"k\":2}}", "{\"a\":{\"k\":1},\"b\":{\"k\":2}}" },
        { "{\"\":null}", "{\"\":null}" },
        { "{\"a\":\"\\u007f\\u0080\"}", "{\"a\":\"\\u007f\xc2\x80\"}" },
        { "{\"a\":\"\\u0001\"}", "{\"a\":\"\\u0001\"}" },
        { "{ \"a\" : [ ] }\r\n\t ", "{\"a\":[]}" },
        { "{\"__proto__\":{},\"constructor\":1}", "{\"__proto__\":{},\"constructor\":1}" },
    };
    struct bench *b = *state;

    for (size_t i = 0; i < ELEMENTS(rows); i++) {
        char text[256], answer[256];

        snprintf(text, sizeof(text), "{\"parameters\":%s,\"method\":\"org.example.Test.Echo\"}",
                 rows[i].parameters);
        snprintf(answer, sizeof(answer), "{\"parameters\":%s}", rows[i].echo);
        send_message(b, text);
        assert_answer(b, answer);
    }
}

static void message_with_duplicate_keys_ends_the_connection(void **state)
{
    struct bench *b = *state;

    send_message(b, "{\"method\":\"org.example.Test.Echo\",\"method\":\"org.example.Test.Echo\"}");
    assert_ended(b);
}

static void fault_10_depth_beyond_the_limit_ends_the_connection(void **state)
{
    struct bench *b = *state;

    /* The message and its parameters are two of 32 levels. */
    for (size_t depth = 29; depth <= 31; depth++) {
        char text[256],
            *p = stpcpy(text, "{\"method\":\"org.example.Test.Echo\",\"parameters\":{\"a\":");

        for (size_t i = 0; i < depth; i++)
            *p++ = '[';
        for (size_t i = 0; i < depth; i++)
            *p++ = ']';
        strcpy(p, "}}");
        send_message(b, text);
        if (depth <= 30)
            assert_non_null(next_answer(b));
        else
            assert_ended(b);
    }
}

static void fault_11_a_message_without_end_is_cut_at_its_limit(void **state)
{
    enum { SIZE = 3 * VARLINK_MESSAGE_MAX };
    struct bench *b = *state;
    _cleanup_free_ char *text = malloc(SIZE);

    memset(text, 'x', SIZE);
    send_bytes(b, text, SIZE, 0);
    assert_int_equal(b->refused, 1);
    assert_ended(b);
}

static void fault_11_a_message_of_the_largest_size_is_taken_and_one_byte_more_is_not(void **state)
{
    static const char head[] = "{\"method\":\"org.example.Test.Echo\",\"parameters\":{\"a\":\"";
    struct bench *b = *state;
    _cleanup_free_ char *text = malloc(VARLINK_MESSAGE_MAX + 2);
    const char *answer;

    for (size_t size = VARLINK_MESSAGE_MAX; size <= VARLINK_MESSAGE_MAX + 1; size++) {
        memset(text, 'x', size);
        memcpy(text, head, sizeof(head) - 1);
        memcpy(text + size - 3, "\"}}", 4);
        send_bytes(b, text, size + 1, 0);
        if (size == VARLINK_MESSAGE_MAX) {
            answer = next_answer(b);
            assert_non_null(answer);
            assert_true(strlen(answer) > size / 2);
        } else {
            assert_ended(b);
        }
    }
}

static int impatient_start(void **state)
{
    bench_options.message_timeout_usec = 1000;
    return bench_start(state);
}

/* Runs the loop until the connection ends by its timer; its own generous limit keeps a broken test
 * from hanging. */
static void run_until_ended(struct bench *b)
{
    for (int i = 0; i < 20 && varlink_server_connections(b->server) > 0; i++)
        assert_true(sd_event_run(b->event, 10 * 1000 * 1000) >= 0);
}

static void fault_11_a_message_that_is_not_completed_in_time_ends_the_connection(void **state)
{
    struct bench *b = *state;

    send_bytes(b, ECHO, 5, 0);
    run_until_ended(b);
    assert_int_equal(b->refused, 1);
    assert_ended(b);
}

static void fault_11_one_byte_at_a_time_does_not_restart_the_clock(void **state)
{
    struct bench *b = *state;

    for (int i = 0; i < 200000 && varlink_server_connections(b->server) > 0; i++) {
        if (send(b->caller, " ", 1, MSG_NOSIGNAL) < 0)
            break;
        sd_event_run(b->event, 10 * 1000);
    }
    assert_int_equal(b->refused, 1);
    assert_ended(b);
}

static int unhurried_start(void **state)
{
    bench_options.message_timeout_usec = 100 * 1000;
    return bench_start(state);
}

static void a_pending_call_has_no_clock(void **state)
{
    static const char text[] = "{\"method\":\"org.example.Test.Later\"}\0{\"me";
    struct bench *b = *state;

    /* The clock runs, and stops with the message. */
    send_bytes(b, text, 3, 0);
    send_bytes(b, text + 3, sizeof(text) - 4, 0);
    assert_int_equal(b->n_kept, 1);
    assert_int_equal(sd_event_run(b->event, 400 * 1000), 0);
    assert_int_equal(varlink_reply(b->kept[0], NULL), 0);
    /* Now the rest is waited for. */
    run_until_ended(b);
    assert_answer(b, "{\"parameters\":{}}");
    assert_int_equal(b->refused, 1);
    assert_ended(b);
}

static void fault_56_fds_with_half_a_message_are_closed(void **state)
{
    struct bench *b = *state;
    unsigned before = count_fds();

    send_bytes(b, TAKE, 5, VARLINK_FDS_MAX);
    assert_int_equal(count_fds(), before + VARLINK_FDS_MAX);
    run_until_ended(b);
    assert_int_equal(count_fds(), before - b->n_own);
    assert_ended(b);
}

static void fault_56_fds_of_a_caller_that_hangs_up_are_closed(void **state)
{
    struct bench *b = *state;
    unsigned before = count_fds();

    send_bytes(b, TAKE, 5, VARLINK_FDS_MAX);
    b->caller = close_fd(b->caller);
    settle(b);
    assert_int_equal(count_fds(), before - b->n_own - 1);
}

static void fault_56_fds_in_the_middle_of_a_message_end_the_connection(void **state)
{
    struct bench *b = *state;
    unsigned before = count_fds();

    send_bytes(b, TAKE, 5, 0);
    send_bytes(b, &TAKE[5], sizeof(TAKE) - 5, 3);
    assert_int_equal(b->calls, 0);
    assert_int_equal(count_fds(), before - b->n_own);
    assert_ended(b);
}

static void fault_56_second_set_of_fds_ends_the_connection(void **state)
{
    struct bench *b = *state;
    unsigned before = count_fds();

    send_bytes(b, TAKE, 5, 3);
    send_bytes(b, &TAKE[5], 5, 3);
    assert_int_equal(count_fds(), before - b->n_own);
    assert_ended(b);
}

static void fault_56_fds_for_a_method_that_takes_none_end_the_connection(void **state)
{
    static const char *const texts[] = {
        ECHO,
        "{\"method\":\"org.example.Test.Nothing\"}",
        "{\"method\":\"org.example.Other.TakeFds\"}",
        "{\"method\":\"org.varlink.service.GetInfo\"}",
        "{\"method\":\"org.example.Test.Echo\",\"oneway\":true}",
        "{\"method\":\"\"}",
        "{",
    };
    struct bench *b = *state;
    unsigned before = count_fds();

    for (size_t i = 0; i < ELEMENTS(texts); i++) {
        unsigned calls = b->calls;

        send_bytes(b, texts[i], strlen(texts[i]) + 1, 3);
        assert_int_equal(b->calls, calls);
        assert_ended(b);
    }
    assert_int_equal(count_fds(), before);
}

/* Sends @first without and @second with descriptors, before the server looks: the kernel glues
 * them. */
static void send_glued(struct bench *b, const char *first, size_t first_size, const char *second,
                       size_t second_size)
{
    assert_int_equal(send(b->caller, first, first_size, MSG_NOSIGNAL), first_size);
    send_bytes(b, second, second_size, 3);
}

static void fault_56_fds_behind_a_pipelined_message_end_the_connection(void **state)
{
    struct bench *b = *state;
    unsigned before = count_fds();

    send_glued(b, TAKE, sizeof(TAKE), TAKE, sizeof(TAKE));
    assert_int_equal(b->calls, 0);
    assert_int_equal(count_fds(), before - b->n_own);
    assert_ended(b);
    send_glued(b, ECHO, sizeof(ECHO), TAKE, 5);
    assert_ended(b);
    /* Two messages in one piece with descriptors: whose are they? */
    send_bytes(b, TAKE "\0" TAKE, 2 * sizeof(TAKE), 3);
    assert_ended(b);
    assert_int_equal(count_fds(), before);
}

static void fault_56_the_sockets_own_descriptor_may_be_sent_to_itself(void **state)
{
    struct bench *b = *state;
    union {
        char buffer[CMSG_SPACE(sizeof(int))];
        struct cmsghdr c;
    } control = { 0 };
    struct iovec iov = { .iov_base = (char[]){ TAKE }, .iov_len = sizeof(TAKE) };
    struct msghdr msg = { .msg_iov = &iov,
                          .msg_iovlen = 1,
                          .msg_control = control.buffer,
                          .msg_controllen = sizeof(control.buffer) };
    unsigned before = count_fds();

    control.c.cmsg_level = SOL_SOCKET;
    control.c.cmsg_type = SCM_RIGHTS;
    control.c.cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(&control.c), &b->caller, sizeof(int));
    assert_int_equal(sendmsg(b->caller, &msg, MSG_NOSIGNAL), sizeof(TAKE));
    settle(b);
    assert_answer(b, "{\"parameters\":{}}");
    assert_int_equal(b->n_fds, 1);
    assert_int_equal(count_fds(), before);
}

/* A limit of ours makes the kernel drop some of the descriptors on the way. */
static void fault_56_fds_that_the_kernel_cut_end_the_connection(void **state)
{
    struct bench *b = *state;
    struct rlimit limit, lower;
    unsigned before = count_fds();

    getrlimit(RLIMIT_NOFILE, &limit);
    lower = limit;
    lower.rlim_cur = before + 10;
    setrlimit(RLIMIT_NOFILE, &lower);
    send_bytes(b, TAKE, sizeof(TAKE), 100);
    setrlimit(RLIMIT_NOFILE, &limit);
    assert_int_equal(b->calls, 0);
    assert_int_equal(count_fds(), before - b->n_own);
    assert_ended(b);
}

static void a_caller_that_does_not_read_is_ended_at_the_limit(void **state)
{
    struct bench *b = *state;
    _cleanup_free_ char *text = malloc(100000);
    int r = 0;

    memset(text, 'x', 99999);
    text[99999] = '\0';
    send_message(b, "{\"method\":\"org.example.Test.Later\",\"more\":true}");
    for (int i = 0; i < 1000 && r == 0; i++) {
        json_object *o = json_object_new_object();

        json_add_string(o, "a", text);
        r = varlink_notify(b->kept[0], o, NULL, 0);
        assert_true(varlink_call_pending_output(b->kept[0]) <= VARLINK_OUTPUT_MAX);
        assert_int_equal(b->gone, 0); /* never from inside */
    }
    assert_int_equal(r, -ENOBUFS);
    assert_false(varlink_call_is_open(b->kept[0]));
    settle(b);
    assert_int_equal(b->gone, 1);
    assert_int_equal(b->refused, 1);
    assert_int_equal(varlink_server_connections(b->server), 0);
}

static void fault_9_thousands_of_aborted_calls_leave_nothing_behind(void **state)
{
    static const char *const texts[] = {
        "{\"method\":\"org.example.Test.Later\"}",
        ECHO,
        "{\"me",
        "x",
        "",
        "{\"method\":\"org.example.Test.Count\",\"more\":true}",
    };
    struct bench *b = *state;
    unsigned before = count_fds();

    for (size_t i = 0; i < 10000; i++) {
        const char *text = texts[i % ELEMENTS(texts)];
        int fd = bench_connect(b);

        (void)send(fd, text, strlen(text) + i % 2, MSG_NOSIGNAL);
        if (i % 3 == 0)
            settle(b);
        close_fd(fd);
        settle(b);
        if (b->n_kept > 0)
            varlink_call_unref(b->kept[--b->n_kept]);
    }
    assert_int_equal(count_fds(), before);
    assert_int_equal(varlink_server_connections(b->server), 1);
    send_message(b, ECHO);
    assert_answer(b, "{\"parameters\":{}}");
}

static void fault_14_a_call_outlives_its_connection_and_its_server(void **state)
{
    struct bench *b = *state;

    send_message(b,
                 "{\"method\":\"org.example.Test.Later\",\"parameters\":{\"a\":1},\"more\":true}");
    b->caller = close_fd(b->caller);
    settle(b);
    close_fd(b->caller);
    b->caller = bench_connect(b);
    send_message(b,
                 "{\"method\":\"org.example.Test.Later\",\"parameters\":{\"a\":2},\"more\":true}");
    assert_int_equal(b->n_kept, 2);
    b->server = varlink_server_unref(b->server);
    settle(b);
    for (size_t i = 0; i < 2; i++) {
        assert_false(varlink_call_is_open(b->kept[i]));
        assert_int_equal(varlink_call_peer(b->kept[i])->pid, getpid());
        assert_int_equal(
            json_object_get_int(json_object_object_get(varlink_call_parameters(b->kept[i]), "a")),
            i + 1);
        assert_int_equal(varlink_notify(b->kept[i], NULL, NULL, 0), -ENOTCONN);
        assert_int_equal(varlink_reply(b->kept[i], NULL), -ENOTCONN);
        assert_int_equal(varlink_error(b->kept[i], "a.B", NULL), -ENOTCONN);
        assert_int_equal(varlink_call_pending_output(b->kept[i]), 0);
    }
    assert_int_equal(b->gone, 1); /* the server's own end is nobody's hanging up */
}

static void fault_22_nothing_sent_later_touches_a_call_in_work(void **state)
{
    struct bench *b = *state;

    send_message(b,
                 "{\"method\":\"org.example.Test.Later\",\"parameters\":{\"network\":\"none\"}}");
    send_message(
        b, "{\"method\":\"org.example.Test.Later\",\"parameters\":{\"network\":\"internet\"}}");
    send_bytes(b, TAKE, sizeof(TAKE), 3);
    send_message(b, "garbage");
    assert_int_equal(b->n_kept, 1);
    assert_true(varlink_call_is_open(b->kept[0]));
    assert_string_equal(json_text(varlink_call_parameters(b->kept[0]), &(size_t){ 0 }),
                        "{\"network\":\"none\"}");
    assert_int_equal(varlink_call_n_fds(b->kept[0]), 0);
    assert_int_equal(varlink_reply(b->kept[0], NULL), 0);
    settle(b);
    assert_answer(b, "{\"parameters\":{}}");
}

static void fault_28_identity_is_the_sockets_whatever_a_message_says(void **state)
{
    struct bench *b = *state;

    send_message(b, "{\"method\":\"org.example.Test.Later\",\"parameters\":"
                    "{\"uid\":0,\"pid\":1,\"sender\":\";uid=0;\",\"user\":\"root\"}}");
    assert_int_equal(varlink_call_peer(b->kept[0])->uid, geteuid());
    assert_int_equal(varlink_call_peer(b->kept[0])->pid, getpid());
    assert_true(varlink_call_peer(b->kept[0])->start_time > 0);
}

static void fault_7_a_connection_without_identity_is_not_served(void **state)
{
    struct bench *b = *state;
    int pipes[2];
    unsigned before = count_fds();

    assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
    assert_int_equal(varlink_server_add_connection(b->server, pipes[0]), -ENOTSOCK);
    assert_int_equal(varlink_server_add_connection(b->server, socket(AF_UNIX, SOCK_STREAM, 0)),
                     -ESRCH);
    close_fd(pipes[1]);
    assert_int_equal(count_fds(), before);
    assert_int_equal(varlink_server_connections(b->server), 1);
}

int main(void)
{
#define ON_BENCH(f) cmocka_unit_test_setup_teardown(f, bench_start, bench_stop)
#define IMPATIENT(f) cmocka_unit_test_setup_teardown(f, impatient_start, bench_stop)
    const struct CMUnitTest tests[] = {
        ON_BENCH(fault_73_tricky_messages_are_refused),
        ON_BENCH(fault_73_odd_but_clear_messages_keep_their_meaning),
        ON_BENCH(message_with_duplicate_keys_ends_the_connection),
        ON_BENCH(fault_10_depth_beyond_the_limit_ends_the_connection),
        ON_BENCH(fault_11_a_message_without_end_is_cut_at_its_limit),
        ON_BENCH(fault_11_a_message_of_the_largest_size_is_taken_and_one_byte_more_is_not),
        IMPATIENT(fault_11_a_message_that_is_not_completed_in_time_ends_the_connection),
        IMPATIENT(fault_11_one_byte_at_a_time_does_not_restart_the_clock),
        cmocka_unit_test_setup_teardown(a_pending_call_has_no_clock, unhurried_start, bench_stop),
        IMPATIENT(fault_56_fds_with_half_a_message_are_closed),
        ON_BENCH(fault_56_fds_of_a_caller_that_hangs_up_are_closed),
        ON_BENCH(fault_56_fds_in_the_middle_of_a_message_end_the_connection),
        ON_BENCH(fault_56_second_set_of_fds_ends_the_connection),
        ON_BENCH(fault_56_fds_for_a_method_that_takes_none_end_the_connection),
        ON_BENCH(fault_56_fds_behind_a_pipelined_message_end_the_connection),
        ON_BENCH(fault_56_the_sockets_own_descriptor_may_be_sent_to_itself),
        ON_BENCH(fault_56_fds_that_the_kernel_cut_end_the_connection),
        ON_BENCH(a_caller_that_does_not_read_is_ended_at_the_limit),
        ON_BENCH(fault_9_thousands_of_aborted_calls_leave_nothing_behind),
        ON_BENCH(fault_14_a_call_outlives_its_connection_and_its_server),
        ON_BENCH(fault_22_nothing_sent_later_touches_a_call_in_work),
        ON_BENCH(fault_28_identity_is_the_sockets_whatever_a_message_says),
        ON_BENCH(fault_7_a_connection_without_identity_is_not_served),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
