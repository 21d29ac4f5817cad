/* Text of strangers made safe to show. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/escape.h"

/* A literal with its length, NULs included. */
#define BYTES(s) s, sizeof(s) - 1

static void assert_escaped(const char *data, size_t size, const char *expected)
{
    _cleanup_free_ char *text = escape_text(data, size, 0);

    assert_non_null(text);
    assert_string_equal(text, expected);
}

static void printable_text_stays_as_it_is(void **state)
{
    assert_escaped(BYTES(""), "");
    assert_escaped(BYTES("plain text, 100% \"quoted\" ~"), "plain text, 100% \"quoted\" ~");
    assert_escaped(BYTES("Grüße 日本語 😀 ¡"), "Grüße 日本語 😀 ¡");
    /* A joined emoji and Persian need their joiners. */
    assert_escaped(BYTES("\U0001F468\u200d\U0001F469 \u0645\u06cc\u200c\u062e"),
                   "\U0001F468\u200d\U0001F469 \u0645\u06cc\u200c\u062e");
}

static void fault_13_control_characters_and_direction_marks_are_escaped(void **state)
{
    assert_escaped(BYTES("a\nb\r\tc"), "a\\x0ab\\x0d\\x09c");
    assert_escaped(BYTES("\x1b[2J"), "\\x1b[2J");
    assert_escaped(BYTES("a\0b"), "a\\x00b");
    assert_escaped(BYTES("\x7f"), "\\x7f");
    assert_escaped(BYTES("\xc2\x9b"
                         "31m"),
                   "\\xc2\\x9b31m");
    assert_escaped(BYTES("\xc2\x85"), "\\xc2\\x85");
    assert_escaped(BYTES("\u2028\u2029"), "\\xe2\\x80\\xa8\\xe2\\x80\\xa9");
    assert_escaped(BYTES("\u202e"), "\\xe2\\x80\\xae");
    assert_escaped(BYTES("\u2066\u200f\u061c"), "\\xe2\\x81\\xa6\\xe2\\x80\\x8f\\xd8\\x9c");
    assert_escaped(BYTES("\ufeff\u200b"), "\\xef\\xbb\\xbf\\xe2\\x80\\x8b");
    assert_escaped(BYTES("\\x41"), "\\x5cx41");
}

static void invalid_utf8_is_escaped_byte_by_byte(void **state)
{
    assert_escaped(BYTES("\xff\xfe"), "\\xff\\xfe");
    assert_escaped(BYTES("\xc0\x80"), "\\xc0\\x80");                   /* overlong NUL */
    assert_escaped(BYTES("\xe0\x80\xaf"), "\\xe0\\x80\\xaf");          /* overlong slash */
    assert_escaped(BYTES("\xed\xa0\x80"), "\\xed\\xa0\\x80");          /* surrogate */
    assert_escaped(BYTES("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80"); /* above U+10FFFF */
    assert_escaped(BYTES("\xc3"), "\\xc3");                            /* cut */
    assert_escaped(BYTES("\xe2\x82"
                         "A"),
                   "\\xe2\\x82"
                   "A");
    assert_escaped(BYTES("\x80"), "\\x80");
}

static void a_cut_result_ends_in_an_ellipsis_and_fits(void **state)
{
    static const char data[] = "ab\nü😀\\c\xff"
                               "defgh";

    for (size_t max = 1; max < 60; max++) {
        _cleanup_free_ char *text = escape_text(data, sizeof(data) - 1, max);
        _cleanup_free_ char *whole = escape_text(data, sizeof(data) - 1, 0);
        size_t length = strlen(text);

        assert_true(length <= max);
        if (max >= strlen(whole)) {
            assert_string_equal(text, whole);
            continue;
        }
        if (max < 3) {
            assert_string_equal(text, "");
            continue;
        }
        assert_string_equal(text + length - 3, "…");
        assert_memory_equal(text, whole, length - 3);
        /* What stands before the ellipsis is whole: it can be undone, and its original is a prefix.
         */
        text[length - 3] = '\0';
        _cleanup_free_ char *back = unescape_text(text, &length);
        assert_non_null(back);
        assert_memory_equal(back, data, length);
    }
}

static void escaping_can_be_undone(void **state)
{
    char data[255 + 255];
    size_t size;

    for (size_t i = 0; i < 255; i++) {
        data[i] = (char)(i + 1);
        data[sizeof(data) - 1 - i] = (char)(i + 1);
    }
    _cleanup_free_ char *text = escape_text(data, sizeof(data), 0);
    _cleanup_free_ char *back = unescape_text(text, &size);
    assert_non_null(back);
    assert_int_equal(size, sizeof(data));
    assert_memory_equal(back, data, size);
    assert_int_equal(back[size], 0);
}

static void what_is_no_escaped_text_is_not_undone(void **state)
{
    static const char *const texts[] = {
        "\\",   "\\x",  "\\x0",  "\\x0g",      "\\n",  "\\\\",  "\\X0a",   "\\x0A",
        "a\nb", "\x1b", "\\x41", "\\xc3\\xa9", "\xff", "\\x00", "a\\x00b", "\\xc3\xa9",
    };

    for (size_t i = 0; i < ELEMENTS(texts); i++) {
        size_t size;

        errno = 0;
        assert_null(unescape_text(texts[i], &size));
        assert_int_equal(errno, EINVAL);
    }
}

static void assert_utf8(const char *data, size_t size, const char *expected)
{
    _cleanup_free_ char *text = utf8_text(data, size);

    assert_non_null(text);
    assert_string_equal(text, expected);
}

static void bytes_become_valid_utf8_for_json(void **state)
{
    assert_utf8(BYTES(""), "");
    assert_utf8(BYTES("a\nb\x1b"), "a\nb\x1b");
    assert_utf8(BYTES("ü😀"), "ü😀");
    assert_utf8(BYTES("a\0b"), "a\ufffd"
                               "b");
    assert_utf8(BYTES("\xff\xfe"), "\ufffd\ufffd");
    assert_utf8(BYTES("\xe2\x82"), "\ufffd");
    assert_utf8(BYTES("\xe2\x82"
                      "A"),
                "\ufffd"
                "A");
    assert_utf8(BYTES("\xed\xa0\x80"), "\ufffd");
}

static void valid_utf8_is_told_from_other_bytes(void **state)
{
    assert_true(utf8_is_valid(""));
    assert_true(utf8_is_valid("a\n\xc3\xbc\xf0\x9f\x98\x80\xef\xbf\xbd"));
    assert_false(utf8_is_valid("\xff"));
    assert_false(utf8_is_valid("a\xe2\x82"));
    assert_false(utf8_is_valid("\xed\xa0\x80"));
    assert_false(utf8_is_valid("\xc0\xafz"));
}

static void assert_escaped_json(const char *json, const char *expected)
{
    _cleanup_free_ char *text = escape_json(json);

    assert_non_null(text);
    assert_string_equal(text, expected);
}

static void json_is_shown_without_what_moves_the_cursor_or_hides_text(void **state)
{
    assert_escaped_json("{\"a\":\"Grüße \\n\\\\ 😀\"}", "{\"a\":\"Grüße \\n\\\\ 😀\"}");
    assert_escaped_json("\"\x7f\xc2\x9b"
                        "31m\"",
                        "\"\\u007f\\u009b31m\"");
    assert_escaped_json("\"\xe2\x80\xae\xef\xbb\xbf\"", "\"\\u202e\\ufeff\"");
    assert_escaped_json("\"\xf3\xa0\x81\x81\"", "\"\\udb40\\udc41\"");
    assert_escaped_json("\"\xff\"", "\"\xff\"");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(printable_text_stays_as_it_is),
        cmocka_unit_test(fault_13_control_characters_and_direction_marks_are_escaped),
        cmocka_unit_test(invalid_utf8_is_escaped_byte_by_byte),
        cmocka_unit_test(a_cut_result_ends_in_an_ellipsis_and_fits),
        cmocka_unit_test(escaping_can_be_undone),
        cmocka_unit_test(what_is_no_escaped_text_is_not_undone),
        cmocka_unit_test(bytes_become_valid_utf8_for_json),
        cmocka_unit_test(valid_utf8_is_told_from_other_bytes),
        cmocka_unit_test(json_is_shown_without_what_moves_the_cursor_or_hides_text),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
