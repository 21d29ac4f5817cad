/* The limit on records of requests that come to nothing (helper/broker/audit-quota.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "broker/audit-quota.h"
#include "journald-double.h"

#define LIMIT 3
#define LONG_USEC (3600 * 1000 * 1000ULL)

struct fixture {
    struct journald journald;
    sd_event *event;
    struct audit *audit;
    struct audit_quota *quota;
};

static void begin(struct fixture *f, uint64_t interval_usec)
{
    assert_int_equal(audit_quota_new(f->event, f->audit, LIMIT, interval_usec, &f->quota), 0);
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));

    assert_non_null(f);
    journald_new(&f->journald);
    assert_true(sd_event_new(&f->event) >= 0);
    assert_int_equal(audit_open(f->journald.address.sun_path, &f->audit), 0);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    audit_quota_free(f->quota);
    audit_close(f->audit);
    sd_event_unref(f->event);
    journald_free(&f->journald);
    free(f);
    return 0;
}

static const char *receive(struct fixture *f)
{
    return journald_receive(&f->journald);
}

/* The next record says that @n requests of @uid were held back; 0: no uid is named. */
static void assert_told(struct fixture *f, unsigned uid, unsigned n)
{
    char line[64];
    const char *text = receive(f);

    assert_non_null(text);
    snprintf(line, sizeof(line), "MESSAGE_ID=%s\n", audit_message_id(AUDIT_HELD_BACK));
    assert_non_null(strstr(text, line));
    snprintf(line, sizeof(line), "\nSBXCTL_HELD_BACK=%u\n", n);
    assert_non_null(strstr(text, line));
    snprintf(line, sizeof(line), "\nSBXCTL_UID=%u\n", uid);
    if (uid > 0)
        assert_non_null(strstr(text, line));
    else
        assert_null(strstr(text, "SBXCTL_UID"));
}

/* How many of @n requests are recorded. */
static unsigned take(struct fixture *f, uid_t uid, unsigned n)
{
    unsigned taken = 0;

    for (unsigned i = 0; i < n; i++)
        taken += audit_quota_take(f->quota, uid);
    return taken;
}

static void each_user_has_a_limit_and_the_rest_is_told_as_a_number(void **state)
{
    struct fixture *f = *state;

    begin(f, LONG_USEC);
    assert_int_equal(take(f, 1000, 10), LIMIT);
    assert_int_equal(take(f, 1001, LIMIT), LIMIT);
    assert_int_equal(take(f, 4000000000, LIMIT + 1), LIMIT);
    assert_null(receive(f));
    f->quota = audit_quota_free(f->quota);
    assert_told(f, 1000, 10 - LIMIT);
    assert_told(f, 4000000000, 1);
    assert_null(receive(f));
}

static void a_new_interval_begins_with_telling(void **state)
{
    struct fixture *f = *state;

    begin(f, 1000);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(take(f, 1000, 10), LIMIT);
        assert_true(sd_event_run(f->event, 20 * 1000 * 1000) > 0);
        assert_told(f, 1000, 10 - LIMIT);
        assert_null(receive(f));
    }
    /* Nobody asked: nothing goes on. */
    assert_int_equal(sd_event_run(f->event, 50 * 1000), 0);
}

static void what_comes_to_something_is_not_counted(void **state)
{
    struct fixture *f = *state;

    begin(f, LONG_USEC);
    for (int i = 0; i < 100; i++) {
        assert_true(audit_quota_take(f->quota, 1000));
        audit_quota_give_back(f->quota, 1000, false);
    }
    assert_int_equal(take(f, 1000, LIMIT + 2), LIMIT);
    audit_quota_give_back(f->quota, 1000, true);
    audit_quota_give_back(f->quota, 1001, true); /* of an interval that is over */
    audit_quota_give_back(f->quota, 1001, false);
    f->quota = audit_quota_free(f->quota);
    assert_told(f, 1000, 1);
    assert_null(receive(f));
}

static void a_number_that_nobody_took_is_told_later(void **state)
{
    struct fixture *f = *state;

    begin(f, 1000);
    journald_stop(&f->journald);
    assert_int_equal(take(f, 1000, LIMIT + 1), LIMIT);
    assert_true(sd_event_run(f->event, 20 * 1000 * 1000) > 0);
    journald_start(&f->journald);
    assert_int_equal(take(f, 1000, LIMIT + 1), LIMIT);
    assert_true(sd_event_run(f->event, 20 * 1000 * 1000) > 0);
    assert_told(f, 1000, 2);
    assert_null(receive(f));
}

/* Beyond 64 of them. A number that is still to be told takes a place, too. */
static void a_crowd_of_users_shares_one_limit(void **state)
{
    struct fixture *f = *state;
    unsigned held_back = 0;

    begin(f, 1000);
    for (unsigned round = 0; round < 2; round++) {
        unsigned recorded = 0;

        for (uid_t uid = 100000; uid < 110000; uid++)
            recorded += take(f, uid, 2);
        assert_int_equal(recorded, (64 - round) * 2 + LIMIT);
        held_back += 2 * 10000 - recorded;
        if (round == 0)
            journald_stop(&f->journald);
        assert_true(sd_event_run(f->event, 20 * 1000 * 1000) > 0);
        if (round == 0)
            journald_start(&f->journald);
    }
    assert_told(f, 0, held_back);
    assert_null(receive(f));
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(each_user_has_a_limit_and_the_rest_is_told_as_a_number),
        T(a_new_interval_begins_with_telling),
        T(what_comes_to_something_is_not_counted),
        T(a_number_that_nobody_took_is_told_later),
        T(a_crowd_of_users_shares_one_limit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
