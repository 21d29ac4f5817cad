/* helper/broker/memory.c: when this machine is short of memory. */
#include "broker/memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* after what it needs */
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define PLENTY "MemTotal: 1000000 kB\nMemFree: 10 kB\nMemAvailable: 500000 kB\n"
#define CALM                                            \
    "some avg10=9.99 avg60=50.00 avg300=0.00 total=7\n" \
    "full avg10=0.00 avg60=0.00 avg300=0.00 total=1\n"

static char directory[64];

static void write_text(const char *name, const char *text)
{
    char path[128];

    snprintf(path, sizeof(path), "%s/%s", directory, name);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static bool is_short(const char *meminfo, const char *pressure, uint64_t need)
{
    write_text("meminfo", meminfo);
    write_text("pressure", pressure);
    return memory_is_short(directory, need);
}

static int set_up(void **state)
{
    snprintf(directory, sizeof(directory), "/tmp/test-memory-XXXXXX");
    return mkdtemp(directory) ? 0 : -1;
}

static int tear_down(void **state)
{
    char command[128];

    snprintf(command, sizeof(command), "rm -rf %s", directory);
    return system(command);
}

static void plenty_and_calm_is_not_short(void **state)
{
    assert_false(is_short(PLENTY, CALM, 0));
    assert_false(is_short(PLENTY, CALM, UINT64_C(500000) << 10));
}

static void what_is_needed_and_not_there_is_short(void **state)
{
    assert_true(is_short(PLENTY, CALM, UINT64_C(500001) << 10));
}

static void less_than_a_tenth_is_short(void **state)
{
    assert_true(is_short("MemTotal: 1000000 kB\nMemAvailable: 99999 kB\n", CALM, 0));
    assert_false(is_short("MemTotal: 1000000 kB\nMemAvailable: 100000 kB\n", CALM, 0));
}

static void waiting_for_memory_is_short(void **state)
{
    assert_true(is_short(PLENTY, "some avg10=10.01 avg60=0.00 avg300=0.00 total=7\n", 0));
}

static void what_cannot_be_read_says_nothing(void **state)
{
    assert_false(memory_is_short("/nonexistent", UINT64_MAX));
    assert_false(is_short("", "", UINT64_MAX));
    assert_false(is_short("MemTotal: many\nMemAvailable: 1 kB\n", "some avg10=?\n", 0));
    assert_true(is_short("", "some avg10=99.00\n", 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plenty_and_calm_is_not_short),
        cmocka_unit_test(what_is_needed_and_not_there_is_short),
        cmocka_unit_test(less_than_a_tenth_is_short),
        cmocka_unit_test(waiting_for_memory_is_short),
        cmocka_unit_test(what_cannot_be_read_says_nothing),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
