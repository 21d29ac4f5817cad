/* Sizes and times as people write them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>

#include "common/cleanup.h"
#include "common/quantity.h"

struct row {
    const char *text;
    int r;
    uint64_t value;
};

static void check(int (*parse)(const char *, uint64_t *), const struct row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t value = 12345;
        int r = parse(rows[i].text, &value);

        if (r != rows[i].r)
            print_message("\"%s\"\n", rows[i].text);
        assert_int_equal(r, rows[i].r);
        assert_true(value == (r < 0 ? 12345 : rows[i].value));
    }
}

static void bytes_take_suffixes_and_nothing_else(void **state)
{
    static const struct row rows[] = {
        { "0", 0, 0 },
        { "17", 0, 17 },
        { "17B", 0, 17 },
        { "1K", 0, 1024 },
        { "1KB", 0, 1024 },
        { "1KiB", 0, 1024 },
        { "512M", 0, 512 << 20 },
        { "512m", 0, 512 << 20 },
        { "2GiB", 0, UINT64_C(2) << 30 },
        { "3T", 0, UINT64_C(3) << 40 },
        { "9223372036854775807", 0, INT64_MAX },
        { "9223372036854775808", -ERANGE, 0 },
        { "8388608T", -ERANGE, 0 },
        { "8388607T", 0, UINT64_C(8388607) << 40 },
        { "99999999999999999999999999", -ERANGE, 0 },
        { "", -EINVAL, 0 },
        { "M", -EINVAL, 0 },
        { "-1", -EINVAL, 0 },
        { "+1", -EINVAL, 0 },
        { " 1", -EINVAL, 0 },
        { "1 ", -EINVAL, 0 },
        { "1 M", -EINVAL, 0 },
        { "1.5G", -EINVAL, 0 },
        { "1iB", -EINVAL, 0 },
        { "1Ki", -EINVAL, 0 },
        { "1KK", -EINVAL, 0 },
        { "0x10", -EINVAL, 0 },
        { "1e3", -EINVAL, 0 },
        { "1BB", -EINVAL, 0 },
        { "1M\n", -EINVAL, 0 },
    };

    check(parse_bytes, rows, ELEMENTS(rows));
}

static void times_are_seconds_or_units_one_after_another(void **state)
{
    static const struct row rows[] = {
        { "60", 0, 60000000 },
        { "0", 0, 0 },
        { "90s", 0, 90000000 },
        { "250ms", 0, 250000 },
        { "2min", 0, 120000000 },
        { "2m", 0, 120000000 },
        { "1min30s", 0, 90000000 },
        { "1h1min1s1ms", 0, 3661001000 },
        { "1d", 0, UINT64_C(86400000000) },
        { "9223372036854775807", -ERANGE, 0 },
        { "9223372036854s9223372036854s", -ERANGE, 0 },
        { "", -EINVAL, 0 },
        { "s", -EINVAL, 0 },
        { "1.5s", -EINVAL, 0 },
        { "1min30", -EINVAL, 0 },
        { "1y", -EINVAL, 0 },
        { "1 min", -EINVAL, 0 },
        { "-1s", -EINVAL, 0 },
        { "1sec", -EINVAL, 0 },
    };

    check(parse_usec, rows, ELEMENTS(rows));
}

static void cpus_are_a_decimal_or_a_percentage(void **state)
{
    static const struct row rows[] = {
        { "1", 0, 100 },         { "2", 0, 200 },       { "0.5", 0, 50 },
        { "1.25", 0, 125 },      { "0.01", 0, 1 },      { "150%", 0, 150 },
        { "1%", 0, 1 },          { "0", -ERANGE, 0 },   { "0.00", -ERANGE, 0 },
        { "0%", -ERANGE, 0 },    { "1.", -EINVAL, 0 },  { ".5", -EINVAL, 0 },
        { "1.255", -EINVAL, 0 }, { "-1", -EINVAL, 0 },  { "1.5%", -EINVAL, 0 },
        { "", -EINVAL, 0 },      { "1,5", -EINVAL, 0 }, { "92233720368547759", -ERANGE, 0 },
    };

    check(parse_cpus, rows, ELEMENTS(rows));
}

static void fault_43_odd_looking_numbers_are_refused(void **state)
{
    static const struct row rows[] = {
        { "0", 0, 0 },
        { "00", 0, 0 },
        { "1", 0, 1 },
        { "+1", -EINVAL, 0 },
        { " 1", -EINVAL, 0 },
        { "1:", -EINVAL, 0 },
        { ":1", -EINVAL, 0 },
        { "-1", -EINVAL, 0 },
        { "4294967295", 0, 4294967295 },
        { "4294967296", 0, 4294967296 },
        { "0x0", -EINVAL, 0 },
        { "1\n", -EINVAL, 0 },
        { "1e1", -EINVAL, 0 },
        { "9223372036854775807", 0, INT64_MAX },
        { "9223372036854775808", -ERANGE, 0 },
        { "18446744073709551616", -ERANGE, 0 },
        { "18446744073709551617", -ERANGE, 0 },
    };

    check(parse_number, rows, ELEMENTS(rows));
}

static void bytes_are_shown_with_one_decimal_at_most(void **state)
{
    char b[QUANTITY_TEXT];

    assert_string_equal(format_bytes(0, b), "0 B");
    assert_string_equal(format_bytes(17, b), "17 B");
    assert_string_equal(format_bytes(1023, b), "1023 B");
    assert_string_equal(format_bytes(1024, b), "1 KiB");
    assert_string_equal(format_bytes(512 << 20, b), "512 MiB");
    assert_string_equal(format_bytes(UINT64_C(3) << 29, b), "1.5 GiB");
    assert_string_equal(format_bytes((1 << 20) - 1, b), "1 MiB");
    assert_string_equal(format_bytes((1 << 20) + (100 << 10), b), "1.1 MiB");
    assert_string_equal(format_bytes((UINT64_C(1500) << 20) + 4096, b), "1.5 GiB");
    assert_string_equal(format_bytes(UINT64_MAX, b), "16 EiB");
}

static void whole_mebibytes_are_not_rounded(void **state)
{
    char b[QUANTITY_TEXT];

    assert_string_equal(format_bytes(UINT64_C(1500) << 20, b), "1500 MiB");
    assert_string_equal(format_bytes(UINT64_C(1025) << 20, b), "1025 MiB");
    assert_string_equal(format_bytes(UINT64_C(2560) << 20, b), "2.5 GiB");
    assert_string_equal(format_bytes(UINT64_C(1048575) << 20, b), "1048575 MiB");
    assert_string_equal(format_bytes(UINT64_C(1025) << 30, b), "1025 GiB");
    assert_string_equal(format_bytes((UINT64_C(1) << 40) + (1 << 20), b), "1 TiB");
}

static void times_are_shown_in_two_units_at_most(void **state)
{
    char b[QUANTITY_TEXT];

    assert_string_equal(format_usec(0, b), "0 s");
    assert_string_equal(format_usec(300, b), "0.0003 s");
    assert_string_equal(format_usec(250000, b), "0.25 s");
    assert_string_equal(format_usec(1999999, b), "2 s");
    assert_string_equal(format_usec(1234567, b), "1.23 s");
    assert_string_equal(format_usec(60000000, b), "60 s");
    assert_string_equal(format_usec(90000000, b), "1 min 30 s");
    assert_string_equal(format_usec(120000000, b), "2 min");
    assert_string_equal(format_usec(UINT64_C(3661000000), b), "1 h 1 min");
    assert_string_equal(format_usec(UINT64_C(604800000000), b), "7 d");
    assert_non_null(format_usec(UINT64_MAX, b));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_take_suffixes_and_nothing_else),
        cmocka_unit_test(times_are_seconds_or_units_one_after_another),
        cmocka_unit_test(cpus_are_a_decimal_or_a_percentage),
        cmocka_unit_test(fault_43_odd_looking_numbers_are_refused),
        cmocka_unit_test(bytes_are_shown_with_one_decimal_at_most),
        cmocka_unit_test(whole_mebibytes_are_not_rounded),
        cmocka_unit_test(times_are_shown_in_two_units_at_most),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
