/* Cloud time by user and day (helper/broker/cloud-budget.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "broker/cloud-budget.h"
#include "common/cleanup.h"
#include "common/clock.h"

#define LIMIT (100 * USEC_PER_SEC)
#define DAY (86400 * USEC_PER_SEC)
#define NOON (20000 * DAY + DAY / 2)

struct fixture {
    char directory[40], path[64];
    struct cloud_budget *budget;
};

static void restart(struct fixture *f)
{
    f->budget = cloud_budget_free(f->budget);
    assert_int_equal(cloud_budget_open(f->path, LIMIT, &f->budget), 0);
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));

    assert_non_null(f);
    strcpy(f->directory, "/tmp/test-cloud-budget.XXXXXX");
    assert_non_null(mkdtemp(f->directory));
    snprintf(f->path, sizeof(f->path), "%s/time", f->directory);
    restart(f);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    cloud_budget_free(f->budget);
    unlink(f->path);
    rmdir(f->directory);
    free(f);
    return 0;
}

static void what_is_taken_is_not_there_any_more_even_after_a_restart(void **state)
{
    struct fixture *f = *state;
    uint64_t day;

    assert_int_equal(cloud_budget_take(f->budget, 1000, 60 * USEC_PER_SEC, NOON, &day), 0);
    restart(f);
    assert_int_equal(cloud_budget_left(f->budget, 1000, NOON), 40 * USEC_PER_SEC);
    assert_int_equal(cloud_budget_take(f->budget, 1000, 41 * USEC_PER_SEC, NOON, &day), -EDQUOT);
    assert_int_equal(cloud_budget_take(f->budget, 1000, 40 * USEC_PER_SEC, NOON, &day), 0);
}

static void users_have_a_budget_each(void **state)
{
    struct fixture *f = *state;
    uint64_t day;

    assert_int_equal(cloud_budget_take(f->budget, 1000, LIMIT, NOON, &day), 0);
    assert_int_equal(cloud_budget_left(f->budget, 1001, NOON), LIMIT);
}

static void what_was_not_needed_comes_back_and_what_was_needed_more_is_counted(void **state)
{
    struct fixture *f = *state;
    uint64_t day;

    assert_int_equal(cloud_budget_take(f->budget, 1000, 60 * USEC_PER_SEC, NOON, &day), 0);
    cloud_budget_settle(f->budget, 1000, day, 60 * USEC_PER_SEC, 5 * USEC_PER_SEC);
    assert_int_equal(cloud_budget_left(f->budget, 1000, NOON), 95 * USEC_PER_SEC);
    assert_int_equal(cloud_budget_take(f->budget, 1000, 95 * USEC_PER_SEC, NOON, &day), 0);
    cloud_budget_settle(f->budget, 1000, day, 95 * USEC_PER_SEC, 99 * USEC_PER_SEC);
    assert_int_equal(cloud_budget_left(f->budget, 1000, NOON), 0);
}

static void more_can_be_taken_as_long_as_there_is_some(void **state)
{
    struct fixture *f = *state;
    uint64_t day;

    assert_int_equal(cloud_budget_take(f->budget, 1000, 80 * USEC_PER_SEC, NOON, &day), 0);
    assert_int_equal(cloud_budget_take_more(f->budget, 1000, day, 15 * USEC_PER_SEC, NOON), 0);
    restart(f);
    assert_int_equal(cloud_budget_take_more(f->budget, 1000, day, 15 * USEC_PER_SEC, NOON),
                     -EDQUOT);
    assert_int_equal(cloud_budget_left(f->budget, 1000, NOON), 5 * USEC_PER_SEC);
    cloud_budget_settle(f->budget, 1000, day, 95 * USEC_PER_SEC, 20 * USEC_PER_SEC);
    assert_int_equal(cloud_budget_left(f->budget, 1000, NOON), 80 * USEC_PER_SEC);
}

static void no_more_is_taken_of_another_day_than_the_first_was(void **state)
{
    struct fixture *f = *state;
    uint64_t day;

    assert_int_equal(cloud_budget_take(f->budget, 1000, LIMIT, NOON, &day), 0);
    assert_int_equal(cloud_budget_take_more(f->budget, 1000, day, USEC_PER_SEC, NOON + DAY),
                     -ESTALE);
    assert_int_equal(cloud_budget_left(f->budget, 1000, NOON + DAY), LIMIT);
}

static void next_day_begins_anew_and_owes_nothing_to_the_last(void **state)
{
    struct fixture *f = *state;
    uint64_t day, other;

    assert_int_equal(cloud_budget_take(f->budget, 1000, LIMIT, NOON, &day), 0);
    assert_int_equal(cloud_budget_left(f->budget, 1000, NOON + DAY), LIMIT);
    assert_int_equal(cloud_budget_take(f->budget, 1000, 30 * USEC_PER_SEC, NOON + DAY, &other), 0);
    cloud_budget_settle(f->budget, 1000, day, LIMIT, 0);
    assert_int_equal(cloud_budget_left(f->budget, 1000, NOON + DAY), 70 * USEC_PER_SEC);
}

static void run_that_outlives_a_restart_gives_back_what_it_took_on_its_own_day(void **state)
{
    struct fixture *f = *state;
    uint64_t first, second;

    assert_int_equal(cloud_budget_take(f->budget, 1000, 60 * USEC_PER_SEC, NOON, &first), 0);
    restart(f);
    cloud_budget_settle(f->budget, 1000, first, 60 * USEC_PER_SEC, 10 * USEC_PER_SEC);
    assert_int_equal(cloud_budget_left(f->budget, 1000, NOON), LIMIT - 10 * USEC_PER_SEC);
    assert_int_equal(cloud_budget_take(f->budget, 1000, 60 * USEC_PER_SEC, NOON, &first), 0);
    restart(f);
    assert_int_equal(cloud_budget_take(f->budget, 1000, LIMIT, NOON + DAY, &second), 0);
    assert_true(first != second);
    cloud_budget_settle(f->budget, 1000, first, 60 * USEC_PER_SEC, 0);
    assert_int_equal(cloud_budget_left(f->budget, 1000, NOON + DAY), 0);
}

static void clock_that_is_set_back_brings_no_day_back(void **state)
{
    struct fixture *f = *state;
    uint64_t day;

    assert_int_equal(cloud_budget_take(f->budget, 1000, LIMIT, NOON, &day), 0);
    assert_int_equal(cloud_budget_left(f->budget, 1000, NOON - 3 * DAY), 0);
}

static void clock_that_was_ahead_once_does_not_keep_days_from_coming(void **state)
{
    struct fixture *f = *state;
    uint64_t day;

    assert_int_equal(cloud_budget_take(f->budget, 1000, LIMIT, NOON + 9000 * DAY, &day), 0);
    assert_int_equal(cloud_budget_left(f->budget, 1000, NOON), 0);
    cloud_budget_settle(f->budget, 1000, day, LIMIT, 40 * USEC_PER_SEC);
    assert_int_equal(cloud_budget_left(f->budget, 1000, NOON), 60 * USEC_PER_SEC);
    assert_int_equal(cloud_budget_take(f->budget, 1000, 60 * USEC_PER_SEC, NOON, &day), 0);
    restart(f);
    assert_int_equal(cloud_budget_left(f->budget, 1000, NOON), 0);
    assert_int_equal(cloud_budget_left(f->budget, 1000, NOON + DAY), LIMIT);
}

static void file_that_is_no_record_leaves_nobody_anything(void **state)
{
    static const char *const texts[] = {
        "",
        "{}",
        "{\"version\":1,\"day\":20000,\"users\":{\"1000\":-1}}",
        "{\"version\":1,\"day\":20000,\"users\":{\"1000\":\"x\"}}",
        "{\"version\":2,\"day\":20000,\"users\":{}}",
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < ELEMENTS(texts); i++) {
        FILE *file = fopen(f->path, "w");
        assert_non_null(file);
        fputs(texts[i], file);
        assert_int_equal(fclose(file), 0);
        restart(f);
        assert_int_equal(cloud_budget_left(f->budget, 1000, NOON), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        TEST(what_is_taken_is_not_there_any_more_even_after_a_restart),
        TEST(users_have_a_budget_each),
        TEST(what_was_not_needed_comes_back_and_what_was_needed_more_is_counted),
        TEST(more_can_be_taken_as_long_as_there_is_some),
        TEST(no_more_is_taken_of_another_day_than_the_first_was),
        TEST(next_day_begins_anew_and_owes_nothing_to_the_last),
        TEST(run_that_outlives_a_restart_gives_back_what_it_took_on_its_own_day),
        TEST(clock_that_is_set_back_brings_no_day_back),
        TEST(clock_that_was_ahead_once_does_not_keep_days_from_coming),
        TEST(file_that_is_no_record_leaves_nobody_anything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
