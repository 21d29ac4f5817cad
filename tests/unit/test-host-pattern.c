/* What is a host's name, what is an address, and which patterns stand for which. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/host-pattern.h"

static enum host_kind parse(const char *text, char ret[HOST_TEXT_MAX + 1])
{
    return host_parse(text, strlen(text), ret);
}

static void names_and_addresses_become_normal(void **state)
{
    static const struct {
        const char *text, *normal;
        enum host_kind kind;
    } hosts[] = {
        { "pypi.org", "pypi.org", HOST_NAME },
        { "PyPI.Org.", "pypi.org", HOST_NAME },
        { "db", "db", HOST_NAME },
        { "_dmarc.a-b.example", "_dmarc.a-b.example", HOST_NAME },
        { "1.2.3.com", "1.2.3.com", HOST_NAME },
        { "0x7f.1.example", "0x7f.1.example", HOST_NAME },
        { "localhost", "localhost", HOST_NAME },
        { "127.0.0.1", "127.0.0.1", HOST_ADDRESS },
        { "0.0.0.0", "0.0.0.0", HOST_ADDRESS },
        { "::1", "::1", HOST_ADDRESS },
        { "2001:DB8:0:0::1", "2001:db8::1", HOST_ADDRESS },
        { "::FFFF:7f00:1", "::ffff:127.0.0.1", HOST_ADDRESS },
    };

    for (size_t i = 0; i < ELEMENTS(hosts); i++) {
        char normal[HOST_TEXT_MAX + 1] = "";

        assert_int_equal(parse(hosts[i].text, normal), hosts[i].kind);
        assert_string_equal(normal, hosts[i].normal);
    }
}

static void what_is_no_name_is_malformed(void **state)
{
    static const char *const bad[] = {
        "",
        ".",
        "..",
        "a..b",
        ".a",
        "a..",
        "-a.example",
        "a-.example",
        "a b",
        "a\tb",
        "a\r\nb",
        "a/b",
        "a:80",
        "a@b",
        "a%00b",
        "\xc3\xa4.example",
        "*.a",
        "[::1]",
        "2130706433",
        "0x7f000001",
        "0X7F.0.0.1",
        "0177.0.0.1",
        "127.1",
        "127.0.0.01",
        "1.2.3.4.",
        "1.2.3.4.5",
        "a.example.7",
        "a.example.0x",
        "a.0xg.0xzz",
        "fe80::1%eth0",
        "::1.",
        "1.2.3.256",
        "::ffff:1.2.3.04",
    };
    char normal[HOST_TEXT_MAX + 1];

    for (size_t i = 0; i < ELEMENTS(bad); i++)
        if (parse(bad[i], normal) != HOST_MALFORMED)
            fail_msg("not malformed: %s", bad[i]);
    assert_int_equal(host_parse("a\0b", 3, normal), HOST_MALFORMED);
}

static void lengths_have_limits(void **state)
{
    char label[66] = "", name[300] = "", normal[HOST_TEXT_MAX + 1];

    memset(label, 'a', 63);
    assert_int_equal(parse(label, normal), HOST_NAME);
    label[63] = 'a';
    assert_int_equal(parse(label, normal), HOST_MALFORMED);

    for (size_t i = 0; i < 253; i++)
        name[i] = i % 2 ? '.' : 'a';
    assert_int_equal(parse(name, normal), HOST_NAME);
    name[253] = '.';
    assert_int_equal(parse(name, normal), HOST_NAME);
    name[254] = 'a';
    assert_int_equal(parse(name, normal), HOST_MALFORMED);
    memset(name, 'a', sizeof(name) - 1);
    assert_int_equal(parse(name, normal), HOST_MALFORMED);
}

static void patterns_become_normal_or_are_refused(void **state)
{
    static const char *const good[][2] = {
        { "*", "*" },
        { "*.PyPI.org.", "*.pypi.org" },
        { "Host", "host" },
        { "10.0.0.5", "10.0.0.5" },
        { "FE80::0:1", "fe80::1" },
    };
    static const char *const bad[] = {
        "",    "**",   "*a",         "*.",    "*.*",        "*.*.a",
        "a.*", "a*.b", "*.10.0.0.5", "*.::1", "10.0.0.0/8", "*.7",
    };
    char normal[HOST_TEXT_MAX + 1];

    for (size_t i = 0; i < ELEMENTS(good); i++) {
        assert_true(host_pattern_parse(good[i][0], normal));
        assert_string_equal(normal, good[i][1]);
    }
    for (size_t i = 0; i < ELEMENTS(bad); i++)
        if (host_pattern_parse(bad[i], normal))
            fail_msg("taken for a pattern: %s", bad[i]);
}

static void patterns_cover_what_they_stand_for(void **state)
{
    static const struct {
        const char *pattern, *other;
        bool covers;
    } pairs[] = {
        { "*", "pypi.org", true },
        { "*", "*.pypi.org", true },
        { "*", "*", true },
        { "*", "10.0.0.5", false },
        { "*", "::1", false },
        { "*.pypi.org", "a.pypi.org", true },
        { "*.pypi.org", "a.b.pypi.org", true },
        { "*.pypi.org", "*.b.pypi.org", true },
        { "*.pypi.org", "*.pypi.org", true },
        { "*.pypi.org", "pypi.org", false },
        { "*.pypi.org", "evilpypi.org", false },
        { "*.pypi.org", "*.org", false },
        { "*.pypi.org", "*", false },
        { "pypi.org", "pypi.org", true },
        { "pypi.org", "a.pypi.org", false },
        { "pypi.org", "*.pypi.org", false },
        { "10.0.0.5", "10.0.0.5", true },
        { "10.0.0.5", "10.0.0.50", false },
        { "::1", "::1", true },
    };

    for (size_t i = 0; i < ELEMENTS(pairs); i++)
        if (host_pattern_covers(pairs[i].pattern, pairs[i].other) != pairs[i].covers)
            fail_msg("%s and %s", pairs[i].pattern, pairs[i].other);
}

static void localhost_is_known_by_its_names(void **state)
{
    assert_true(host_is_localhost("localhost"));
    assert_true(host_is_localhost("db.localhost"));
    assert_false(host_is_localhost("notlocalhost"));
    assert_false(host_is_localhost("localhost.example"));
}

static void lists_tell_the_pattern_that_covers(void **state)
{
    struct host_list list = { 0 };

    assert_null(host_list_find(&list, "a"));
    assert_int_equal(host_list_add(&list, "*.Example."), 0);
    assert_int_equal(host_list_add(&list, "a..b"), -EINVAL);
    assert_int_equal(host_list_add(&list, "pypi.org"), 0);
    assert_int_equal(list.n, 2);
    assert_string_equal(host_list_find(&list, "www.example"), "*.example");
    assert_string_equal(host_list_find(&list, "pypi.org"), "pypi.org");
    assert_null(host_list_find(&list, "example"));
    host_list_release(&list);
    assert_int_equal(list.n, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_and_addresses_become_normal),
        cmocka_unit_test(what_is_no_name_is_malformed),
        cmocka_unit_test(lengths_have_limits),
        cmocka_unit_test(patterns_become_normal_or_are_refused),
        cmocka_unit_test(patterns_cover_what_they_stand_for),
        cmocka_unit_test(localhost_is_known_by_its_names),
        cmocka_unit_test(lists_tell_the_pattern_that_covers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
