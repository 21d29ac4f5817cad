/* What stays of terminal output for who reads it without a terminal. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "broker/collapse.h"

/* In a buffer of exactly that size, so that the sanitizer sees a read beyond it. */
static void assert_collapsed_bytes(const char *data, size_t size, const char *expected)
{
    char *text = malloc(size ? size : 1);

    memcpy(text, data, size);
    size_t n = collapse_text(text, size);
    assert_int_equal(n, strlen(expected));
    assert_memory_equal(text, expected, n);
    free(text);
}

static void assert_collapsed(const char *text, const char *expected)
{
    assert_collapsed_bytes(text, strlen(text), expected);
}

static void ordinary_text_stays(void **state)
{
    static const char text[] = "a\tb\n\n\xc3\xa9\xff [31m ]0; \\ \b\x7f\nno newline";

    assert_collapsed("", "");
    assert_collapsed(text, text);
}

static void of_a_line_written_over_the_last_state_stays(void **state)
{
    assert_collapsed("10%\r20%\r100%\ndone\n", "100%\ndone\n");
    assert_collapsed("\r10%\r20%", "20%");
    assert_collapsed("first\n10%\r20%\r", "first\n20%");
    assert_collapsed("10%\r20%\r\nnext", "20%\nnext");
}

static void line_ends_of_other_systems_become_newlines(void **state)
{
    assert_collapsed("one\r\ntwo\r\r\n", "one\ntwo\n");
}

static void escape_sequences_go(void **state)
{
    assert_collapsed("\033[31mred\033[0m \033[1;38:5:9mbold\033[m", "red bold");
    assert_collapsed("\033[2K\033[?25l\033[1 qx\033[!p", "x");
    assert_collapsed("\033]0;title\ax\033]8;;http://a\033\\link\033]8;;\033\\", "xlink");
    assert_collapsed("\033(Bx\0337y\033=z\033P1$r\033\\", "xyz");
    assert_collapsed("10%\033[K\r\033[32m20%\033[0m\r\n", "20%\n");
}

static void broken_escape_sequences_swallow_nothing_else(void **state)
{
    assert_collapsed("x\033", "x");
    assert_collapsed("x\033[", "x");
    assert_collapsed("x\033[12", "x");
    assert_collapsed("x\033]0;no end\nnext", "x0;no end\nnext");
    assert_collapsed("\033[31\nnext", "\nnext");
    assert_collapsed("\033[\xc3\xa9", "\xc3\xa9");
    assert_collapsed("\033\033[1mx", "x");
    assert_collapsed_bytes("\033]0;\033", 5, "0;");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ordinary_text_stays),
        cmocka_unit_test(of_a_line_written_over_the_last_state_stays),
        cmocka_unit_test(line_ends_of_other_systems_become_newlines),
        cmocka_unit_test(escape_sequences_go),
        cmocka_unit_test(broken_escape_sequences_swallow_nothing_else),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
