/* Commands that sbxctl doctor suggests: safe to paste, whatever is named in them. What it finds is
 * the functional tests' (tests/functional/test_doctor.py). */
#include "client-fixture.h"

#include "client/doctor.h"

static void plain_name_stays_as_it_is(void **state)
{
    static const char *const names[] = { "/etc/polkit-1/rules.d/50-x.rules", "python:3.12@sha256:0",
                                         "sbxctl-engine-e2b.service" };

    for (size_t i = 0; i < ELEMENTS(names); i++) {
        _cleanup_free_ char *word = doctor_word(names[i]);
        assert_string_equal(word, names[i]);
    }
}

/* By a shell's own word. */
static void odd_name_is_one_word_to_a_shell(void **state)
{
    static const char *const names[] = {
        "",
        "a b",
        "x;touch pwned",
        "$(touch pwned)",
        "`touch pwned`",
        "it's",
        "''",
        "'; touch pwned '",
        "*",
        "~",
        "-rf",
        "a&b|c>d",
        "ümlaut",
    };

    for (size_t i = 0; i < ELEMENTS(names); i++) {
        _cleanup_free_ char *word = doctor_word(names[i]), *command = NULL;
        char printed[128] = "", expected[128];
        assert_true(asprintf(&command, "printf '<%%s>' %s", word) > 0);
        FILE *f = popen(command, "re");
        assert_non_null(f);
        (void)!fread(printed, 1, sizeof(printed) - 1, f);
        assert_int_equal(pclose(f), 0);
        snprintf(expected, sizeof(expected), "<%s>", names[i]);
        assert_string_equal(printed, expected);
    }
    assert_int_not_equal(access("pwned", F_OK), 0);
}

static void nothing_in_a_name_reaches_the_terminal(void **state)
{
    _cleanup_free_ char *word = doctor_word("a\n\x1b[2J\xc2\x9b");
    assert_string_equal(word, "'a\\x0a\\x1b[2J\\xc2\\x9b'");
}

#define T(name) cmocka_unit_test_setup_teardown(name, enter_scratch, leave_scratch)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(plain_name_stays_as_it_is),
        T(odd_name_is_one_word_to_a_shell),
        T(nothing_in_a_name_reaches_the_terminal),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
