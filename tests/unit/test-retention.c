/* Which results are kept and which go (helper/broker/retention.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "broker/retention.h"
#include "common/cleanup.h"

/* Five runs, oldest first, that ended at 100, 200 and so on. */
static void fill(struct retained runs[5])
{
    static const char *const ids[] = { "a", "b", "c", "d", "e" };

    for (size_t i = 0; i < 5; i++)
        runs[i] = (struct retained){
            .id = ids[i], .ended_usec = 100 * (i + 1), .bytes = 10 * (i + 1), .files = 1
        };
}

/* The ids of those that go, as one word. */
static void assert_goes(const struct retention_rules *rules, uint64_t now_usec,
                        const char *expected)
{
    struct retained runs[5];
    char gone[6] = "";

    fill(runs);
    size_t n = retention_find(rules, runs, ELEMENTS(runs), now_usec);
    for (size_t i = 0; i < ELEMENTS(runs); i++)
        if (runs[i].why)
            strcat(gone, runs[i].id);
    assert_string_equal(gone, expected);
    assert_int_equal(n, strlen(expected));
}

static void without_rules_everything_stays(void **state)
{
    const struct retention_rules rules = { 0 };

    assert_goes(&rules, UINT64_MAX, "");
}

static void what_is_too_old_goes(void **state)
{
    const struct retention_rules rules = { .max_age_usec = 50 };

    assert_goes(&rules, 149, "");
    assert_goes(&rules, 150, "a");
    assert_goes(&rules, 260, "ab");
}

static void age_counts_from_the_end_of_a_run_not_its_place(void **state)
{
    const struct retention_rules rules = { .max_age_usec = 50 };
    struct retained runs[2] = { { .id = "long", .ended_usec = 300 },
                                { .id = "short", .ended_usec = 100 } };

    assert_int_equal(retention_find(&rules, runs, 2, 200), 1);
    assert_null(runs[0].why);
    assert_non_null(runs[1].why);
}

static void clock_that_went_back_removes_nothing(void **state)
{
    const struct retention_rules rules = { .max_age_usec = 50 };

    assert_goes(&rules, 0, "");
}

static void oldest_go_when_there_are_too_many(void **state)
{
    const struct retention_rules rules = { .max_runs = 3 };

    assert_goes(&rules, 0, "ab");
}

static void those_that_go_for_their_age_count_no_more(void **state)
{
    const struct retention_rules rules = { .max_age_usec = 50, .max_runs = 3 };

    assert_goes(&rules, 160, "ab");
    assert_goes(&rules, 360, "abc");
}

static void size_removes_nothing_unless_it_is_told_to(void **state)
{
    struct retention_rules rules = { .max_bytes = 100 };

    assert_goes(&rules, 0, "");
    rules.remove_oldest = true;
    /* 150 bytes in all; below 100 it is without the first three. */
    assert_goes(&rules, 0, "abc");
    rules = (struct retention_rules){ .max_files = 2, .remove_oldest = true };
    assert_goes(&rules, 0, "abcd");
}

static void full_is_told_with_what_has_to_go(void **state)
{
    const struct retention_rules rules = { .max_bytes = 100, .max_files = 100 };
    struct retained runs[5];
    struct retention_use use = { .bytes = 99, .files = 99 };

    assert_null(retention_full(&rules, &use));
    use.bytes = 100;
    assert_string_equal(retention_full(&rules, &use), "bytes");
    use = (struct retention_use){ .files = 100 };
    assert_string_equal(retention_full(&rules, &use), "files");
    fill(runs);
    assert_int_equal(retention_needed(&rules, runs, ELEMENTS(runs)), 3);
}

static void expiry_is_the_end_and_the_age(void **state)
{
    const struct retention_rules rules = { .max_age_usec = 50 }, none = { 0 };

    assert_int_equal(retention_expiry(&rules, 100), 150);
    assert_int_equal(retention_expiry(&rules, UINT64_MAX), 0);
    assert_int_equal(retention_expiry(&none, 100), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_rules_everything_stays),
        cmocka_unit_test(what_is_too_old_goes),
        cmocka_unit_test(age_counts_from_the_end_of_a_run_not_its_place),
        cmocka_unit_test(clock_that_went_back_removes_nothing),
        cmocka_unit_test(oldest_go_when_there_are_too_many),
        cmocka_unit_test(those_that_go_for_their_age_count_no_more),
        cmocka_unit_test(size_removes_nothing_unless_it_is_told_to),
        cmocka_unit_test(full_is_told_with_what_has_to_go),
        cmocka_unit_test(expiry_is_the_end_and_the_age),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
