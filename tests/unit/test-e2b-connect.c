/* Connect's framing: whole messages however the bytes are cut, nothing above the limit, and an end
 * that is an end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "common/cleanup.h"
#include "engine/e2b/connect-frame.h"

#define STREAM "\0\0\0\0\3abc\0\0\0\0\0\2\0\0\0\2{}"
#define STREAM_SIZE (sizeof(STREAM) - 1)

struct heard {
    char text[256];
    size_t messages;
    int refuse;
};

static int on_message(const char *message, size_t size, bool end, void *userdata)
{
    struct heard *heard = userdata;
    size_t used = strlen(heard->text);

    heard->messages++;
    snprintf(heard->text + used, sizeof(heard->text) - used, "[%.*s%s]", (int)size, message,
             end ? "!" : "");
    return heard->refuse;
}

static void messages_are_whole_however_the_bytes_are_cut(void **state)
{
    for (size_t piece = 1; piece <= STREAM_SIZE; piece++) {
        struct connect_frames frames = { 0 };
        struct heard heard = { 0 };
        for (size_t at = 0; at < STREAM_SIZE; at += piece) {
            size_t size = STREAM_SIZE - at < piece ? STREAM_SIZE - at : piece;
            assert_false(connect_is_complete(&frames));
            assert_int_equal(connect_feed(&frames, &STREAM[at], size, on_message, &heard), 0);
        }
        assert_string_equal(heard.text, "[abc][][{}!]");
        assert_true(connect_is_complete(&frames));
        connect_release(&frames);
    }
}

static void stream_without_its_last_message_is_not_complete(void **state)
{
    for (size_t size = 0; size < STREAM_SIZE; size++) {
        struct connect_frames frames = { 0 };
        struct heard heard = { 0 };
        assert_int_equal(connect_feed(&frames, STREAM, size, on_message, &heard), 0);
        assert_false(connect_is_complete(&frames));
        connect_release(&frames);
    }
}

static void what_is_no_framing_is_refused(void **state)
{
    static const struct {
        const char *bytes;
        size_t size;
        int error;
    } cases[] = {
        { "\1\0\0\0\1a", 6, -EBADMSG },   /* compressed */
        { "\4\0\0\0\1a", 6, -EBADMSG },   /* a flag that is none */
        { "HTTP/", 5, -EBADMSG },         /* something else */
        { "\2\0\0\0\0\0", 6, -EBADMSG },  /* more behind the end */
        { "\0\0\x10\0\1", 5, -EMSGSIZE }, /* a MiB and one */
        { "\0\xff\xff\xff\xff", 5, -EMSGSIZE },
    };

    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        struct connect_frames frames = { 0 };
        struct heard heard = { 0 };
        assert_int_equal(connect_feed(&frames, cases[i].bytes, cases[i].size, on_message, &heard),
                         cases[i].error);
        connect_release(&frames);
    }
}

static void refusal_of_a_message_ends_it(void **state)
{
    struct connect_frames frames = { 0 };
    struct heard heard = { .refuse = -ENOSPC };

    assert_int_equal(connect_feed(&frames, STREAM, STREAM_SIZE, on_message, &heard), -ENOSPC);
    assert_int_equal(heard.messages, 1);
    connect_release(&frames);
}

static void header_says_how_much_follows(void **state)
{
    struct connect_frames frames = { 0 };
    struct heard heard = { 0 };
    char header[CONNECT_HEADER];

    connect_header(0x01020304, header);
    assert_memory_equal(header, "\0\1\2\3\4", CONNECT_HEADER);
    connect_header(1, header);
    assert_int_equal(connect_feed(&frames, header, sizeof(header), on_message, &heard), 0);
    assert_int_equal(connect_feed(&frames, "x", 1, on_message, &heard), 0);
    assert_string_equal(heard.text, "[x]");
    connect_release(&frames);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_are_whole_however_the_bytes_are_cut),
        cmocka_unit_test(stream_without_its_last_message_is_not_complete),
        cmocka_unit_test(what_is_no_framing_is_refused),
        cmocka_unit_test(refusal_of_a_message_ends_it),
        cmocka_unit_test(header_says_how_much_follows),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
