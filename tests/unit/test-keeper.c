/* When results are looked through (helper/broker/keeper.h). */
#include "store-broker.h"

#include "broker/audit.h"
#include "broker/keeper.h"
#include "broker/pool.h"
#include "common/clock.h"

/* Between the ends of runs; less than the keeper waits for after one. */
#define OFTEN_USEC (50 * 1000ULL)

static void put(struct manager *manager, const char *id, uid_t uid, uint64_t created_usec)
{
    json_object *result = json_object_new_object();

    assert_int_equal(index_put(manager->index, id, uid, created_usec, true, result), 0);
    json_object_put(result);
}

static void results_are_looked_through_while_runs_end_all_the_time(void **state)
{
    struct fixture *f = *state;
    struct manager manager = { .event = f->event, .store = f->store };
    uint64_t until = clock_usec(CLOCK_MONOTONIC) + WAIT_USEC;
    char path[128];

    manager.config.results.max_runs = 1;
    manager.config.idle_exit_usec = 2 * WAIT_USEC;
    snprintf(path, sizeof(path), "%s/index", f->scratch.path);
    assert_int_equal(index_open(path, &manager.index), 0);
    assert_int_equal(audit_open("/nowhere", &manager.audit), 0);
    assert_int_equal(pool_new(&manager, &manager.pool), 0);
    assert_int_equal(keeper_new(&manager, &manager.keeper), 0);
    put(&manager, RUN_ID, f->uid, 1);
    put(&manager, OTHER_ID, f->uid, 2);

    while (index_get(manager.index, RUN_ID) && clock_usec(CLOCK_MONOTONIC) < until) {
        keeper_look(manager.keeper);
        assert_true(sd_event_run(f->event, OFTEN_USEC) >= 0);
    }
    assert_null(index_get(manager.index, RUN_ID));
    assert_non_null(index_get(manager.index, OTHER_ID));

    keeper_free(manager.keeper);
    pool_free(manager.pool);
    sd_event_source_disable_unref(manager.idle);
    audit_close(manager.audit);
    index_close(manager.index);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(results_are_looked_through_while_runs_end_all_the_time,
                                        setup, teardown),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
