/* What a run took in a cloud that nobody knows the end of (helper/broker/run-cloud.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>

#include "broker/run-cloud.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/json.h"

#define SECONDS(n) ((n)*USEC_PER_SEC)
/* A time limit of 60 s, the minute after it, and 10 minutes for the files. */
#define MOST SECONDS(60 + 60 + 600)

static uint64_t took(const char *engine, const char *status, uint64_t ago_usec)
{
    struct manager manager = { .config.cloud_engines = { (char[]){ "e2b" } } };
    _cleanup_json_ json_object *result = NULL;
    char text[160];

    int n = snprintf(text, sizeof(text),
                     "{\"engine\":\"%s\",\"status\":\"%s\",\"policy\":{\"timeoutUSec\":60000000}}",
                     engine, status);
    assert_int_equal(json_parse_guarded(text, (size_t)n, &result), 0);
    return run_cloud_of_lost(&manager, result, clock_usec(CLOCK_REALTIME) - ago_usec);
}

static void it_took_all_that_time_though_its_files_were_still_being_sent(void **state)
{
    assert_in_range(took("e2b", "starting", SECONDS(1)), SECONDS(1), SECONDS(5));
    assert_in_range(took("e2b", "starting", SECONDS(500)), SECONDS(500), SECONDS(505));
}

static void it_took_no_more_than_a_sandbox_may_live(void **state)
{
    assert_int_equal(took("e2b", "starting", SECONDS(86400)), MOST);
}

static void it_took_none_elsewhere_or_before_it_had_a_sandbox(void **state)
{
    assert_int_equal(took("systemd", "starting", SECONDS(10)), UINT64_MAX);
    assert_int_equal(took("e2b", "queued", SECONDS(10)), UINT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_took_all_that_time_though_its_files_were_still_being_sent),
        cmocka_unit_test(it_took_no_more_than_a_sandbox_may_live),
        cmocka_unit_test(it_took_none_elsewhere_or_before_it_had_a_sandbox),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
