/* Which connections are allowed, by which rule others are not, and what all of them come to. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "common/cleanup.h"
#include "egress/address.h"
#include "egress/tally.h"
#include "egress/verdict.h"

/* A policy of lists that are written with spaces. */
struct lists {
    const char *granted, *allowed, *denied, *addresses, *denied_addresses;
};

static void add_each(const char *words, void *list, int (*add)(void *list, const char *word))
{
    char copy[1024], *word, *rest = copy;

    snprintf(copy, sizeof(copy), "%s", words ? words : "");
    while ((word = strsep(&rest, " ")))
        if (*word)
            assert_int_equal(add(list, word), 0);
}

static int add_name(void *list, const char *word)
{
    return host_list_add(list, word);
}

static int add_prefix(void *list, const char *word)
{
    return ip_prefix_list_add(list, word);
}

static struct egress_message make_policy(const struct lists *lists)
{
    struct egress_message message = { .type = EGRESS_START,
                                      .start = { .ports = { .items = { 80, 443 }, .n = 2 } } };
    struct egress_start *start = &message.start;

    add_each(lists->granted, &start->granted, add_name);
    add_each(lists->allowed, &start->allowed_names, add_name);
    add_each(lists->denied, &start->denied_names, add_name);
    add_each(lists->addresses, &start->allowed_addresses, add_prefix);
    add_each(lists->denied_addresses, &start->denied_addresses, add_prefix);
    return message;
}

static void names_are_judged_in_order(void **state)
{
    static const struct {
        struct lists lists;
        const char *host;
        unsigned port;
        const char *rule; /* NULL: allowed */
    } cases[] = {
        { { .allowed = "*" }, "PyPI.org.", 443, NULL },
        { { .allowed = "*" }, "pypi.org", 22, "AllowedPorts=80 443" },
        { { .allowed = "*" }, "a..b", 22, "AllowedNames= (malformed name)" },
        { { .allowed = "*" }, "0177.0.0.1", 80, "AllowedNames= (malformed name)" },
        { { .allowed = "*", .denied = "pypi.org" }, "pypi.org", 22, "AllowedPorts=80 443" },
        { { .allowed = "*", .denied = "x.org *.pypi.org" },
          "a.pypi.org",
          80,
          "DeniedNames=*.pypi.org" },
        { { .allowed = "*", .denied = "*.pypi.org" }, "pypi.org", 80, NULL },
        { { .allowed = "pypi.org", .denied = "pypi.org" }, "pypi.org", 80, "DeniedNames=pypi.org" },
        { { .allowed = "pypi.org" }, "other.org", 80, "AllowedNames=" },
        { { .allowed = "" }, "pypi.org", 80, "AllowedNames=" },
        { { .allowed = "*", .granted = "a.org *.b.org" }, "c.org", 80, "--network=a.org,*.b.org" },
        { { .allowed = "*", .granted = "a.org *.b.org" }, "x.b.org", 80, NULL },
        { { .allowed = "*", .granted = "a.org", .denied = "c.org" },
          "c.org",
          80,
          "--network=a.org" },
        { { .allowed = "*", .granted = "a.org", .denied = "a.org" },
          "a.org",
          80,
          "DeniedNames=a.org" },
        { { .allowed = "b.org", .granted = "a.org" }, "a.org", 80, "AllowedNames=" },
        { { .allowed = "*" }, "8.8.8.8", 80, "AllowedNames= (addresses are allowed one by one)" },
        { { .allowed = "* 8.8.8.8" }, "8.8.8.8", 80, NULL },
        { { .allowed = "* 8.8.8.8", .granted = "*.org" }, "8.8.8.8", 80, "--network=*.org" },
        { { .allowed = "* 2001:4860::8" }, "2001:4860:0::8", 80, NULL },
    };

    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        struct egress_message policy = make_policy(&cases[i].lists);
        struct refusal refusal = { 0 };
        struct target target;

        bool allowed = verdict_on_name(&policy.start, cases[i].host, strlen(cases[i].host),
                                       (uint16_t)cases[i].port, &target, &refusal);
        if (allowed != !cases[i].rule)
            fail_msg("%s port %u: %s", cases[i].host, cases[i].port, refusal.rule);
        if (!allowed) {
            assert_string_equal(refusal.rule, cases[i].rule);
            assert_non_null(refusal.advice);
        }
        egress_message_release(&policy);
    }
}

static void a_target_is_normal(void **state)
{
    struct egress_message policy = make_policy(&(const struct lists){ .allowed = "* 8.8.8.8" });
    struct ip_address address;
    struct refusal refusal;
    struct target target;

    assert_true(verdict_on_name(&policy.start, "A.Example.", 10, 80, &target, &refusal));
    assert_string_equal(target.host, "a.example");
    assert_false(target.is_address);
    assert_int_equal(target.port, 80);
    assert_true(verdict_on_name(&policy.start, "8.8.8.8", 7, 443, &target, &refusal));
    assert_true(target.is_address && ip_address_parse("8.8.8.8", &address));
    assert_true(ip_address_equal(&target.address, &address));
    egress_message_release(&policy);
}

static void a_long_rule_is_cut(void **state)
{
    struct egress_message policy = make_policy(&(const struct lists){ .allowed = "*" });
    struct refusal refusal;
    struct target target;
    char name[64];

    for (size_t i = 0; i < 16; i++) {
        snprintf(name, sizeof(name), "a-name-that-is-not-short-%zu.example", i);
        assert_int_equal(host_list_add(&policy.start.granted, name), 0);
    }
    assert_false(verdict_on_name(&policy.start, "b.example", 9, 80, &target, &refusal));
    assert_int_equal(strlen(refusal.rule), EGRESS_RULE_MAX);
    assert_string_equal(refusal.rule + EGRESS_RULE_MAX - 3, "…");
    assert_memory_equal(refusal.rule, "--network=a-name", 16);
    egress_message_release(&policy);
}

static void addresses_are_judged(void **state)
{
    static const struct {
        struct lists lists;
        const char *address;
        bool own;
        const char *rule; /* NULL: allowed */
    } cases[] = {
        { { 0 }, "8.8.8.8", false, NULL },
        { { 0 }, "2001:4860::8", false, NULL },
        { { 0 }, "10.0.0.5", false, "AllowedAddresses= (10.0.0.5 is a private address)" },
        { { .addresses = "10.0.0.0/24" }, "10.0.0.5", false, NULL },
        { { .addresses = "10.0.0.0/24" },
          "10.0.1.5",
          false,
          "AllowedAddresses= (10.0.1.5 is a private address)" },
        { { .addresses = "10.0.0.0/24", .denied_addresses = "10.0.0.4/30" },
          "10.0.0.5",
          false,
          "DeniedAddresses=10.0.0.4/30" },
        { { .denied_addresses = "8.8.8.8" }, "8.8.8.8", false, "DeniedAddresses=8.8.8.8" },
        { { 0 }, "8.8.8.8", true, "AllowedAddresses= (8.8.8.8 is this machine's own address)" },
        { { .addresses = "8.8.8.8" }, "8.8.8.8", true, NULL },
        { { 0 }, "::ffff:8.8.8.8", false, NULL },
        { { 0 }, "64:ff9b::8.8.8.8", false, NULL },
        { { 0 },
          "::ffff:127.0.0.1",
          false,
          "AllowedAddresses= (::ffff:127.0.0.1 is a loopback address)" },
        { { 0 },
          "64:ff9b::10.0.0.5",
          false,
          "AllowedAddresses= (64:ff9b::a00:5 is a private address)" },
        { { .addresses = "10.0.0.5" }, "::ffff:10.0.0.5", false, NULL },
        { { .addresses = "10.0.0.5" },
          "2002:a00:5::",
          false,
          "AllowedAddresses= (2002:a00:5:: is a special address)" },
        { { .denied_addresses = "8.8.8.0/24" },
          "::ffff:8.8.8.8",
          false,
          "DeniedAddresses=8.8.8.0/24" },
        { { .denied_addresses = "8.8.8.0/24", .addresses = "2002::/16" },
          "2002:808:808::",
          false,
          "DeniedAddresses=8.8.8.0/24" },
        { { .addresses = "0.0.0.0/0" }, "169.254.169.254", false, NULL },
        { { .addresses = "0.0.0.0/0" },
          "fe80::1",
          false,
          "AllowedAddresses= (fe80::1 is a link-local address)" },
    };

    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        struct egress_message policy = make_policy(&cases[i].lists);
        struct refusal refusal = { 0 };
        struct ip_address address;

        assert_true(ip_address_parse(cases[i].address, &address));
        bool allowed = verdict_on_address(&policy.start, &address, cases[i].own, &refusal);
        if (allowed != !cases[i].rule)
            fail_msg("%s: %s", cases[i].address, refusal.rule);
        if (!allowed)
            assert_string_equal(refusal.rule, cases[i].rule);
        egress_message_release(&policy);
    }
}

static void special_addresses_are_known(void **state)
{
    static const char *const special[] = {
        "0.0.0.0",
        "0.1.2.3",
        "10.255.255.255",
        "100.64.0.1",
        "100.127.255.255",
        "127.0.0.1",
        "127.255.255.255",
        "169.254.1.1",
        "172.16.0.1",
        "172.31.255.255",
        "192.0.0.8",
        "192.0.2.1",
        "192.88.99.1",
        "192.168.255.255",
        "198.18.0.1",
        "198.19.255.255",
        "198.51.100.1",
        "203.0.113.255",
        "224.0.0.1",
        "239.255.255.255",
        "240.0.0.1",
        "255.255.255.255",
        "168.63.129.16",
        "169.254.169.254",
        "::",
        "::1",
        "::8.8.8.8",
        "::ffff:10.0.0.1",
        "64:ff9b::127.0.0.1",
        "64:ff9b:1::1",
        "64:ff9b:2::1",
        "100::1",
        "100:0:0:1::1",
        "::ffff:0:127.0.0.1",
        "::1:0:0:1",
        "1fff:ffff::1",
        "4000::1",
        "fbff::1",
        "fe00::1",
        "2001::1",
        "2001:1ff:ffff::",
        "2001:db8:ffff::",
        "2002::1",
        "3fff:fff::1",
        "5f00::1",
        "fc00::1",
        "fdff::1",
        "fe80::1",
        "febf::1",
        "fec0::1",
        "feff::1",
        "ff02::1",
        "fd00:ec2::254",
    };
    static const char *const plain[] = {
        "1.1.1.1",     "9.255.255.255",   "11.0.0.0",      "100.63.255.255", "100.128.0.0",
        "126.0.0.1",   "128.0.0.1",       "169.253.0.1",   "172.15.255.255", "172.32.0.0",
        "192.0.1.1",   "192.0.3.1",       "192.167.0.1",   "198.17.0.1",     "198.20.0.1",
        "203.0.114.0", "223.255.255.255", "168.63.129.17", "2001:200::1",    "2001:db9::1",
        "2003::1",     "2606:4700::1111", "3fff:1000::1",  "::ffff:1.1.1.1", "64:ff9b::1.1.1.1",
    };
    struct ip_address address;

    for (size_t i = 0; i < ELEMENTS(special); i++) {
        assert_true(ip_address_parse(special[i], &address));
        if (!address_special(&address))
            fail_msg("not special: %s", special[i]);
    }
    for (size_t i = 0; i < ELEMENTS(plain); i++) {
        assert_true(ip_address_parse(plain[i], &address));
        if (address_special(&address))
            fail_msg("%s: %s", plain[i], address_special(&address));
    }
    assert_true(ip_address_parse("169.254.169.254", &address));
    assert_string_equal(address_special(&address), "the address of a cloud's metadata");
}

static void the_machines_own_addresses_are_known(void **state)
{
    static const char *const own[] = { "127.0.0.1", "127.1.2.3", "::ffff:127.0.0.1",
                                       "2002:7f00:1::" };
    struct ip_address address;

    for (size_t i = 0; i < ELEMENTS(own); i++) {
        assert_true(ip_address_parse(own[i], &address));
        if (!address_is_own(&address))
            fail_msg("not our own: %s", own[i]);
    }
    assert_true(ip_address_parse("192.0.2.99", &address));
    assert_false(address_is_own(&address));
}

static struct egress_connection make_connection(const char *name, enum egress_verdict verdict)
{
    struct egress_connection connection = {
        .port = 443, .verdict = verdict, .bytes_sent = 1, .bytes_received = 10
    };

    snprintf(connection.name, sizeof(connection.name), "%s", name);
    if (verdict != EGRESS_ALLOWED)
        strcpy(connection.rule, "R");
    return connection;
}

static void connections_are_summed_up(void **state)
{
    static const struct {
        const char *name;
        enum egress_verdict verdict;
        bool recorded;
    } all[] = {
        { "a", EGRESS_ALLOWED, true },  { "b", EGRESS_REFUSED, true },
        { "a", EGRESS_ALLOWED, false }, { "c", EGRESS_ALLOWED, true },
        { "d", EGRESS_FAILED, true },   { "a", EGRESS_REFUSED, true },
    };
    static struct tally tally;

    for (size_t i = 0; i < ELEMENTS(all); i++) {
        struct egress_connection connection = make_connection(all[i].name, all[i].verdict);
        tally_add(&tally, &connection, all[i].recorded);
    }
    struct egress_message message = tally_message(&tally);
    const struct egress_finished *m = &message.finished;
    assert_int_equal(message.type, EGRESS_FINISHED);
    assert_int_equal(m->connections, 6);
    assert_int_equal(m->refused, 2);
    assert_int_equal(m->failed, 1);
    assert_int_equal(m->unrecorded, 1);
    assert_int_equal(m->bytes_sent, 6);
    assert_int_equal(m->bytes_received, 60);
    assert_int_equal(m->n_hosts, 2);
    assert_string_equal(m->hosts[0].name, "a");
    assert_int_equal(m->hosts[0].connections, 2);
    assert_int_equal(m->hosts[0].bytes_received, 20);
    assert_string_equal(m->hosts[0].rule, "");
    assert_int_equal(m->n_refused_hosts, 2);
    assert_string_equal(m->refused_hosts[0].name, "b");
    assert_string_equal(m->refused_hosts[0].rule, "R");
    assert_false(m->more_hosts);
}

static void a_port_of_its_own_is_a_host_of_its_own(void **state)
{
    static struct tally tally;
    struct egress_connection connection = make_connection("a", EGRESS_ALLOWED);

    tally_add(&tally, &connection, true);
    connection.port = 80;
    tally_add(&tally, &connection, true);
    assert_int_equal(tally_message(&tally).finished.n_hosts, 2);
}

static void more_hosts_than_fit_are_counted_and_told(void **state)
{
    static struct tally tally;
    char name[16];

    for (size_t i = 0; i <= EGRESS_HOSTS_MAX; i++) {
        assert_false(tally_message(&tally).finished.more_hosts);
        snprintf(name, sizeof(name), "host-%zu", i);
        struct egress_connection connection = make_connection(name, EGRESS_REFUSED);
        tally_add(&tally, &connection, true);
    }
    assert_true(tally_message(&tally).finished.more_hosts);
    assert_int_equal(tally_message(&tally).finished.n_refused_hosts, EGRESS_HOSTS_MAX);
    assert_int_equal(tally_message(&tally).finished.refused, EGRESS_HOSTS_MAX + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_judged_in_order),
        cmocka_unit_test(a_target_is_normal),
        cmocka_unit_test(a_long_rule_is_cut),
        cmocka_unit_test(addresses_are_judged),
        cmocka_unit_test(special_addresses_are_known),
        cmocka_unit_test(the_machines_own_addresses_are_known),
        cmocka_unit_test(connections_are_summed_up),
        cmocka_unit_test(a_port_of_its_own_is_a_host_of_its_own),
        cmocka_unit_test(more_hosts_than_fit_are_counted_and_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
