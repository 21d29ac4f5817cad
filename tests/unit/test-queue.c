/* The order of runs and what they may have together (helper/broker/queue.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "broker/queue.h"
#include "common/clock.h"

#define MIB (UINT64_C(1) << 20)
#define ITEMS_MAX 4000

static struct queue_item items[ITEMS_MAX];
static struct queue queue;

static int setup(void **state)
{
    memset(items, 0, sizeof(items));
    queue = (struct queue){ .limits = { .runs = 2,
                                        .runs_per_user = 2,
                                        .queued = 1000,
                                        .queued_per_user = 1000,
                                        .memory_bytes = 4096 * MIB } };
    return 0;
}

static int teardown(void **state)
{
    for (size_t i = 0; i < ITEMS_MAX; i++)
        queue_leave(&queue, &items[i]);
    assert_null(queue.users);
    assert_int_equal(queue.n_running + queue.n_waiting + queue.memory_bytes + queue.cpu_percent, 0);
    return 0;
}

static void prepare(size_t i, uid_t uid, uint64_t mebibytes)
{
    items[i].uid = uid;
    items[i].memory_bytes = mebibytes * MIB;
    items[i].cpu_percent = 100;
}

static void add(size_t i, uid_t uid, uint64_t mebibytes)
{
    prepare(i, uid, mebibytes);
    assert_int_equal(queue_enter(&queue, &items[i]), 0);
    queue_line_up(&queue, &items[i]);
}

#define assert_taken(i) assert_ptr_equal(queue_take(&queue), &items[i])
#define assert_nobody() assert_null(queue_take(&queue))

static void who_was_never_served_comes_first(void **state)
{
    queue.limits.runs = 1;
    add(0, 1, 512);
    add(1, 1, 512);
    assert_taken(0);
    add(2, 2, 512);
    queue_leave(&queue, &items[0]);
    assert_taken(2);
}

static void user_is_served_in_the_order_of_coming(void **state)
{
    for (size_t i = 0; i < 4; i++)
        add(i, 1, 512);
    assert_taken(0);
    assert_taken(1);
    assert_nobody();
    queue_leave(&queue, &items[1]);
    assert_taken(2);
}

static void hundred_runs_of_one_user_do_not_hold_up_the_one_of_another(void **state)
{
    for (size_t i = 0; i < 100; i++)
        add(i, 1, 512);
    assert_taken(0);
    assert_taken(1);
    add(100, 2, 512);
    assert_nobody();
    queue_leave(&queue, &items[0]);
    assert_taken(100);
}

static void users_take_turns(void **state)
{
    queue.limits.runs = 1;
    for (size_t i = 0; i < 9; i++)
        add(i, 1 + i / 3, 512);
    for (size_t turn = 0; turn < 9; turn++) {
        struct queue_item *item = queue_take(&queue);
        assert_non_null(item);
        /* Each user is served once in each round of three. */
        for (size_t i = 0; i < 9; i++)
            if (items[i].stage == QUEUE_WAITING && items[i].uid == item->uid)
                assert_true(turn < 6);
        assert_int_equal((size_t)(item - items) % 3, turn / 3);
        queue_leave(&queue, item);
    }
    assert_nobody();
}

static void promised_memory_is_never_above_the_limit(void **state)
{
    queue.limits.runs = queue.limits.runs_per_user = 10;
    for (size_t i = 0; i < 5; i++)
        add(i, 1, 1024);
    for (size_t i = 0; i < 4; i++)
        assert_taken(i);
    assert_nobody();
    assert_int_equal(queue.memory_bytes, 4096 * MIB);
    queue_shrink(&queue, &items[2], 512 * MIB, 100, 0);
    assert_nobody();
    queue_shrink(&queue, &items[3], 512 * MIB, 100, 0);
    assert_taken(4);
}

static void cpus_and_the_users_memory_are_limits_too(void **state)
{
    queue.limits.runs = queue.limits.runs_per_user = 10;
    queue.limits.cpu_percent = 300;
    queue.limits.memory_per_user_bytes = 1024 * MIB;
    for (size_t i = 0; i < 3; i++)
        add(i, 1, 512);
    add(3, 2, 512);
    add(4, 3, 512);
    assert_taken(0);
    assert_taken(3);
    assert_taken(4);
    assert_nobody(); /* three CPUs are taken */
    queue_leave(&queue, &items[4]);
    assert_taken(1);
    queue_leave(&queue, &items[3]);
    assert_nobody(); /* the user's gibibyte is */
    queue_leave(&queue, &items[0]);
    assert_taken(2);
}

static void large_run_is_not_passed_over_for_ever(void **state)
{
    size_t small = 0, next = 2;

    add(0, 1, 1024);
    assert_taken(0);
    add(1, 2, 4096); /* does not fit beside any other */
    for (; next < 100; next++) {
        add(next, 1, 1024);
        struct queue_item *item = queue_take(&queue);
        if (!item)
            break;
        queue_leave(&queue, &items[small]);
        small = (size_t)(item - items);
    }
    assert_in_range(next, 3, 12);
    queue_leave(&queue, &items[small]);
    assert_taken(1);
    queue_leave(&queue, &items[1]);
    assert_taken(next);
}

static void run_of_a_user_who_has_enough_keeps_nobody_waiting(void **state)
{
    queue.limits.runs = 10;
    queue.limits.runs_per_user = 1;
    add(0, 1, 2048);
    assert_taken(0);
    add(1, 1, 4096); /* its user runs another: not passed over, whatever starts */
    for (size_t i = 2; i < 20; i++) {
        add(i, 2, 512);
        assert_taken(i);
        queue_leave(&queue, &items[i]);
    }
    assert_int_equal(items[1].passed_over, 0);
}

static void full_queue_refuses_and_counts_those_to_be_approved(void **state)
{
    queue.limits.queued_per_user = 2;
    for (size_t i = 0; i < 4; i++) {
        prepare(i, 1, 512);
        assert_int_equal(queue_enter(&queue, &items[i]), 0);
    }
    prepare(4, 1, 512);
    assert_int_equal(queue_enter(&queue, &items[4]), QUEUE_USER_FULL);
    assert_int_equal(items[4].stage, QUEUE_OUTSIDE);
    assert_int_equal(queue_waiting_of(&queue, 1), 4);
    queue.limits.queued = 3;
    prepare(5, 2, 512);
    assert_int_equal(queue_enter(&queue, &items[5]), 0);
    prepare(6, 3, 512);
    assert_int_equal(queue_enter(&queue, &items[6]), QUEUE_MACHINE_FULL);
    assert_int_equal(queue_waiting_of(&queue, 3), 0);
}

static void content_that_waits_is_bounded_for_each_user(void **state)
{
    queue.limits.held_per_user_bytes = 10;
    for (size_t i = 0; i < 3; i++) {
        prepare(i, 1, 512);
        items[i].held_bytes = 5;
    }
    assert_int_equal(queue_enter(&queue, &items[0]), 0);
    assert_int_equal(queue_enter(&queue, &items[1]), 0);
    assert_int_equal(queue_enter(&queue, &items[2]), QUEUE_USER_HOLDS);
    queue_line_up(&queue, &items[0]);
    assert_taken(0);
    queue_shrink(&queue, &items[0], items[0].memory_bytes, 100, 0);
    assert_int_equal(queue_enter(&queue, &items[2]), 0);
}

static void place_tells_who_comes_first_and_what_for(void **state)
{
    struct queue_place place;

    for (size_t i = 0; i < 5; i++)
        add(i, 1, 512);
    assert_taken(0);
    assert_taken(1);
    add(5, 2, 512);
    queue_find_place(&queue, &items[4], &place);
    assert_int_equal(place.position, 3); /* two of its user's, and the other user's one */
    assert_int_equal(place.queued, 4);
    assert_string_equal(place.reason, "Your 2 runs at once are taken.");
    queue_find_place(&queue, &items[5], &place);
    assert_int_equal(place.position, 0);
    assert_string_equal(place.reason, "The machine's 2 runs at once are taken.");
    queue.limits.runs = 5;
    queue.limits.memory_bytes = 1024 * MIB;
    queue_find_place(&queue, &items[5], &place);
    assert_string_equal(place.reason, "The machine's memory for runs is taken: 1 GiB of 1 GiB.");
}

static void note_order(struct queue_item *item, const struct queue_place *place, void *userdata)
{
    size_t *order = userdata;

    order[place->position]++;
}

static void places_are_the_order_in_which_runs_start(void **state)
{
    size_t seen[12] = { 0 };

    queue.limits.runs = 1;
    for (size_t i = 0; i < 12; i++)
        add(i, 1 + i % 3, 512);
    for (size_t n = 12; n > 0; n--) {
        memset(seen, 0, sizeof(seen));
        queue_foreach(&queue, note_order, seen);
        for (size_t i = 0; i < n; i++)
            assert_int_equal(seen[i], 1);
        queue_leave(&queue, queue_take(&queue));
    }
}

static void what_could_never_start_is_told(void **state)
{
    char reason[256];

    assert_true(queue_could_fit(&queue.limits, 4096 * MIB, 1000, reason));
    assert_false(queue_could_fit(&queue.limits, 4097 * MIB, 100, reason));
    assert_non_null(strstr(reason, "4 GiB together"));
    queue.limits.cpu_percent = 100;
    assert_false(queue_could_fit(&queue.limits, 4096 * MIB, 101, reason));
}

static void thousands_that_wait_cost_no_more_than_a_few(void **state)
{
    uint64_t began;

    queue.limits.runs = queue.limits.runs_per_user = 1;
    queue.limits.queued = queue.limits.queued_per_user = ITEMS_MAX;
    for (size_t i = 0; i < ITEMS_MAX; i++)
        add(i, (uid_t)(i % 3), 1);
    began = clock_usec(CLOCK_MONOTONIC);
    for (size_t i = 0; i < ITEMS_MAX; i++)
        queue_leave(&queue, queue_take(&queue));
    assert_nobody();
    /* Linear, it takes a millisecond; quadratic, it would take 16 million steps. */
    assert_true(clock_usec(CLOCK_MONOTONIC) - began < 100000);
}

int main(void)
{
#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(who_was_never_served_comes_first),
        TEST(user_is_served_in_the_order_of_coming),
        TEST(hundred_runs_of_one_user_do_not_hold_up_the_one_of_another),
        TEST(users_take_turns),
        TEST(promised_memory_is_never_above_the_limit),
        TEST(cpus_and_the_users_memory_are_limits_too),
        TEST(large_run_is_not_passed_over_for_ever),
        TEST(run_of_a_user_who_has_enough_keeps_nobody_waiting),
        TEST(full_queue_refuses_and_counts_those_to_be_approved),
        TEST(content_that_waits_is_bounded_for_each_user),
        TEST(place_tells_who_comes_first_and_what_for),
        TEST(places_are_the_order_in_which_runs_start),
        TEST(what_could_never_start_is_told),
        TEST(thousands_that_wait_cost_no_more_than_a_few),
    };
    return cmocka_run_group_tests_name("queue", tests, NULL, NULL);
}
