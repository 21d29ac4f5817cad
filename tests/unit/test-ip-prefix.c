/* Addresses, ranges of them, and IPv4 that hides in IPv6. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/ip-prefix.h"

static struct ip_address address(const char *text)
{
    struct ip_address a = { 0 };

    if (!ip_address_parse(text, &a))
        fail_msg("no address: %s", text);
    return a;
}

static void addresses_are_canonical_text(void **state)
{
    static const char *const bad[] = { "",          "1.2.3",     "1.2.3.4.5", "01.2.3.4",
                                       "0x1.2.3.4", "1.2.3.4 ",  "[::1]",     "::1%lo",
                                       "1:2",       "a.example", "256.1.1.1" };
    struct ip_address a;
    char text[INET6_ADDRSTRLEN];

    for (size_t i = 0; i < ELEMENTS(bad); i++)
        if (ip_address_parse(bad[i], &a))
            fail_msg("taken for an address: %s", bad[i]);
    a = address("2001:0DB8::0001");
    ip_address_format(&a, text);
    assert_string_equal(text, "2001:db8::1");
    a = address("192.0.2.7");
    assert_int_equal(a.family, AF_INET);
    ip_address_format(&a, text);
    assert_string_equal(text, "192.0.2.7");
}

static void socket_addresses_go_both_ways(void **state)
{
    static const char *const texts[] = { "192.0.2.7", "2001:db8::7" };
    struct sockaddr_storage storage;
    struct ip_address back;

    for (size_t i = 0; i < ELEMENTS(texts); i++) {
        struct ip_address a = address(texts[i]);

        ip_address_to_sockaddr(&a, 443, &storage);
        assert_true(ip_address_from_sockaddr((struct sockaddr *)&storage, &back));
        assert_true(ip_address_equal(&a, &back));
        assert_int_equal(((struct sockaddr_in *)&storage)->sin_port, htons(443));
    }
    storage.ss_family = AF_UNIX;
    assert_false(ip_address_from_sockaddr((struct sockaddr *)&storage, &back));
    struct ip_address four = address("1.2.3.4"), six = address("102:304::");
    assert_false(ip_address_equal(&four, &six));
}

static void ranges_hold_what_has_their_bits(void **state)
{
    static const struct {
        const char *prefix, *address;
        bool contains;
    } pairs[] = {
        { "10.0.0.0/8", "10.255.0.1", true },
        { "10.0.0.0/8", "11.0.0.1", false },
        { "172.16.0.0/12", "172.31.9.9", true },
        { "172.16.0.0/12", "172.32.0.0", false },
        { "0.0.0.0/0", "8.8.8.8", true },
        { "192.0.2.7", "192.0.2.7", true },
        { "192.0.2.7", "192.0.2.6", false },
        { "fc00::/7", "fd12::1", true },
        { "fc00::/7", "fe00::1", false },
        { "::/0", "2001:db8::1", true },
        { "::/0", "10.0.0.1", false },
        { "0.0.0.0/0", "::ffff:1.2.3.4", false },
        { "2001:db8::/33", "2001:db8:7fff::1", true },
        { "2001:db8::/33", "2001:db8:8000::1", false },
    };

    for (size_t i = 0; i < ELEMENTS(pairs); i++) {
        struct ip_address a = address(pairs[i].address);
        struct ip_prefix prefix;

        assert_true(ip_prefix_parse(pairs[i].prefix, &prefix));
        if (ip_prefix_contains(&prefix, &a) != pairs[i].contains)
            fail_msg("%s and %s", pairs[i].prefix, pairs[i].address);
    }
}

static void ranges_are_read_and_written_strictly(void **state)
{
    static const char *const bad[] = {
        "",
        "/8",
        "10.0.0.0/",
        "10.0.0.0/33",
        "10.0.0.0/-1",
        "10.0.0.0/08",
        "10.0.0.5/8",
        "10.0.0.0/8 ",
        "10.0.0.0/8/8",
        "::/129",
        "::1/127",
        "10.0.0/8",
        "a.example",
        "10.0.0.0/4294967304",
        "0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000/8",
    };
    static const char *const good[][2] = {
        { "10.0.0.0/8", "10.0.0.0/8" }, { "10.0.0.5", "10.0.0.5" }, { "10.0.0.5/32", "10.0.0.5" },
        { "FE80::/10", "fe80::/10" },   { "::1/128", "::1" },       { "0.0.0.0/0", "0.0.0.0/0" },
    };
    struct ip_prefix prefix;
    char text[IP_PREFIX_TEXT_MAX];

    for (size_t i = 0; i < ELEMENTS(bad); i++)
        if (ip_prefix_parse(bad[i], &prefix))
            fail_msg("taken for a range: %s", bad[i]);
    for (size_t i = 0; i < ELEMENTS(good); i++) {
        assert_true(ip_prefix_parse(good[i][0], &prefix));
        ip_prefix_format(&prefix, text);
        assert_string_equal(text, good[i][1]);
    }
}

static void hidden_ipv4_is_found(void **state)
{
    static const struct {
        const char *six, *four;
    } pairs[] = {
        { "::ffff:127.0.0.1", "127.0.0.1" },
        { "::10.0.0.5", "10.0.0.5" },
        { "::1", "0.0.0.1" },
        { "64:ff9b::169.254.169.254", "169.254.169.254" },
        { "2002:7f00:1::", "127.0.0.1" },
        { "2001:0:1:2:3:4:80ff:fffe", "127.0.0.1" },
        { "2001:db8::1", NULL },
        { "64:ff9b:1::a00:5", NULL },
        { "10.0.0.5", NULL },
    };

    for (size_t i = 0; i < ELEMENTS(pairs); i++) {
        struct ip_address six = address(pairs[i].six), hidden;
        bool found = ip_address_hidden(&six, &hidden);

        if (found != (pairs[i].four != NULL))
            fail_msg("%s", pairs[i].six);
        if (!found)
            continue;
        struct ip_address four = address(pairs[i].four);
        assert_true(ip_address_equal(&hidden, &four));
    }
}

static void lists_tell_the_range_that_holds(void **state)
{
    struct ip_prefix_list list = { 0 };
    struct ip_address inside = address("10.1.2.3"), outside = address("11.1.2.3");

    assert_null(ip_prefix_list_find(&list, &inside));
    assert_int_equal(ip_prefix_list_add(&list, "192.168.0.0/16"), 0);
    assert_int_equal(ip_prefix_list_add(&list, "10.0.0.1/8"), -EINVAL);
    assert_int_equal(ip_prefix_list_add(&list, "10.0.0.0/8"), 0);
    assert_int_equal(list.n, 2);
    assert_ptr_equal(ip_prefix_list_find(&list, &inside), &list.items[1]);
    assert_null(ip_prefix_list_find(&list, &outside));
    ip_prefix_list_release(&list);
    assert_int_equal(list.n, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_are_canonical_text),
        cmocka_unit_test(socket_addresses_go_both_ways),
        cmocka_unit_test(ranges_hold_what_has_their_bits),
        cmocka_unit_test(ranges_are_read_and_written_strictly),
        cmocka_unit_test(hidden_ipv4_is_found),
        cmocka_unit_test(lists_tell_the_range_that_holds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
