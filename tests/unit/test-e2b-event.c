/* What envd says of a process, in every form that its JSON may have, and base64 as it comes. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "common/base64.h"
#include "common/cleanup.h"
#include "engine/e2b/process-event.h"

static struct process_event parse(const char *text, bool end)
{
    struct process_event event;

    assert_int_equal(process_event_parse(text, strlen(text), end, &event), 0);
    return event;
}

static void start_tells_the_process(void **state)
{
    static const char *const texts[] = {
        "{\"event\":{\"start\":{\"pid\":42}}}",
        "{\"event\": {\"start\":  {\"pid\":\"42\", \"new\":[{}]}}, \"other\":null}",
    };

    for (size_t i = 0; i < ELEMENTS(texts); i++) {
        struct process_event event = parse(texts[i], false);
        assert_int_equal(event.type, PROCESS_STARTED);
        assert_int_equal(event.pid, 42);
    }
}

static void output_is_any_bytes(void **state)
{
    struct process_event event = parse("{\"event\":{\"data\":{\"stderr\":\"AP/+Cg==\"}}}", false);

    assert_int_equal(event.type, PROCESS_STDERR);
    assert_int_equal(event.data_size, 4);
    assert_memory_equal(event.data, "\0\xff\xfe\n", 4);
    process_event_release(&event);
    event = parse("{\"event\":{\"data\":{\"stdout\":\"\"}}}", false);
    assert_int_equal(event.type, PROCESS_STDOUT);
    assert_int_equal(event.data_size, 0);
    process_event_release(&event);
}

static void end_without_a_code_is_zero(void **state)
{
    struct process_event event =
        parse("{\"event\":{\"end\":{\"exited\":true,\"status\":\"exit status 0\"}}}", false);

    assert_int_equal(event.type, PROCESS_ENDED);
    assert_int_equal(event.exit_code, 0);
    assert_int_equal(event.signal, 0);
}

static void end_by_a_signal_tells_which(void **state)
{
    static const struct {
        const char *status;
        int signal;
    } cases[] = {
        { "signal: killed", SIGKILL },
        { "signal: terminated", SIGTERM },
        { "signal: segmentation fault (core dumped)", SIGSEGV },
        { "signal: whatever", 0 },
        { "", 0 },
    };

    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        char text[160];
        snprintf(text, sizeof(text), "{\"event\":{\"end\":{\"exitCode\":-1,\"status\":\"%s\"}}}",
                 cases[i].status);
        struct process_event event = parse(text, false);
        assert_int_equal(event.exit_code, -1);
        assert_int_equal(event.signal, cases[i].signal);
    }
}

static void what_is_new_is_a_sign_of_life(void **state)
{
    static const char *const texts[] = {
        "{\"event\":{\"keepalive\":{}}}",
        "{\"event\":{\"somethingNew\":{\"a\":1}}}",
        "{\"event\":{\"data\":{\"pty\":\"YQ==\"}}}",
        "{\"event\":{}}",
    };

    for (size_t i = 0; i < ELEMENTS(texts); i++)
        assert_int_equal(parse(texts[i], false).type, PROCESS_NOTHING);
}

static void last_message_tells_of_an_error(void **state)
{
    struct process_event event = parse("{}", true);

    assert_int_equal(event.type, PROCESS_OVER);
    assert_false(event.failed);
    event = parse("{\"error\":{\"code\":\"deadline_exceeded\",\"message\":\"m\"}}", true);
    assert_true(event.failed);
    assert_string_equal(event.code, "deadline_exceeded");
    /* Not an error that can be read, but one. */
    assert_true(parse("{\"error\":1}", true).failed);
}

static void what_is_no_event_is_refused(void **state)
{
    static const char *const texts[] = {
        "",
        "[]",
        "{}",
        "{\"event\":1}",
        "{\"event\":{\"start\":{}}}",
        "{\"event\":{\"start\":{\"pid\":-1}}}",
        "{\"event\":{\"start\":{\"pid\":\"4x\"}}}",
        "{\"event\":{\"start\":{\"pid\":99999999999}}}",
        "{\"event\":{\"data\":{\"stdout\":\"A\"}}}",
        "{\"event\":{\"data\":{\"stdout\":\"A*==\"}}}",
        "{\"event\":{\"end\":{\"exitCode\":256}}}",
        "{\"event\":{\"end\":{\"exitCode\":true}}}",
        "{\"event\":{\"start\":{\"pid\":1}}} trailing",
    };

    for (size_t i = 0; i < ELEMENTS(texts); i++) {
        struct process_event event;
        assert_int_equal(process_event_parse(texts[i], strlen(texts[i]), false, &event), -EBADMSG);
    }
}

static void base64_is_read_in_every_dress(void **state)
{
    static const struct {
        const char *text, *bytes;
        int size; /* -1: none */
    } cases[] = {
        { "", "", 0 },
        { "YQ==", "a", 1 },
        { "YQ", "a", 1 },
        { "YWI=", "ab", 2 },
        { "YWJj", "abc", 3 },
        { "-_8=", "\xfb\xff", 2 },
        { "+/8", "\xfb\xff", 2 },
        { "YW\nJj\r\n", "abc", 3 },
        { "Y", NULL, -1 },
        { "YQ=", NULL, -1 },
        { "YQ==YQ==", NULL, -1 },
        { "=", NULL, -1 },
        { "Y.Q=", NULL, -1 },
        { "YWJj====", NULL, -1 },
    };

    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        char text[32];
        size_t size = 0;
        strcpy(text, cases[i].text);
        int r = base64_decode(text, strlen(text), &size);
        assert_int_equal(r, cases[i].size < 0 ? -EBADMSG : 0);
        if (r == 0) {
            assert_int_equal(size, cases[i].size);
            assert_memory_equal(text, cases[i].bytes, size);
        }
    }
}

static void base64_is_written_padded(void **state)
{
    static const char *const cases[][2] = {
        { "", "" },        { "a", "YQ==" },        { "ab", "YWI=" },
        { "abc", "YWJj" }, { "\xfb\xff", "+/8=" }, { "abcdefg", "YWJjZGVmZw==" },
    };

    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        size_t size;
        _cleanup_free_ char *text = base64_encode(cases[i][0], strlen(cases[i][0]), &size);
        assert_string_equal(text, cases[i][1]);
        assert_int_equal(size, strlen(cases[i][1]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(start_tells_the_process),
        cmocka_unit_test(output_is_any_bytes),
        cmocka_unit_test(end_without_a_code_is_zero),
        cmocka_unit_test(end_by_a_signal_tells_which),
        cmocka_unit_test(what_is_new_is_a_sign_of_life),
        cmocka_unit_test(last_message_tells_of_an_error),
        cmocka_unit_test(what_is_no_event_is_refused),
        cmocka_unit_test(base64_is_read_in_every_dress),
        cmocka_unit_test(base64_is_written_padded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
