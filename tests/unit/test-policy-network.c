/* The network of a run: which hosts may be named, what they become in the plan, and that an
 * approval cannot be for something else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "broker/digest.h"
#include "broker/policy-environment.h"
#include "broker/policy-network.h"
#include "common/cleanup.h"

/* The tests fill structs that own their strings with literals that nobody frees. */
#ifdef __clang__
#pragma clang diagnostic ignored "-Wincompatible-pointer-types-discards-qualifiers"
#else
#pragma GCC diagnostic ignored "-Wdiscarded-qualifiers"
#endif

static struct config config;
static struct request request;
static struct plan plan;
static struct refusal refusal;
static char *no_strings[] = { NULL };

static int set_up(void **state)
{
    config = (struct config){ .network = { .connections = 1 } };
    request = (struct request){ .network = true,
                                .arguments = no_strings,
                                .environment = no_strings,
                                .stdin_memfd = -1,
                                .script = -1 };
    plan = (struct plan){ .limits.network = true, .engine = "systemd" };
    refusal = (struct refusal){ 0 };
    return config_network_complete(&config.network);
}

static int tear_down(void **state)
{
    config_network_release(&config.network);
    host_list_release(&request.hosts);
    plan.hosts = (struct host_list){ 0 };
    plan_release(&plan);
    return 0;
}

static void name_host(const char *host)
{
    assert_int_equal(host_list_add(&request.hosts, host), 0);
}

static void assert_admitted(void)
{
    if (policy_network(&config, &request, &plan, &refusal) != 0)
        fail_msg("refused: %s", refusal.reason);
}

static void assert_refused(const char *host, const char *reason)
{
    host_list_release(&request.hosts);
    name_host(host);
    assert_int_equal(policy_network(&config, &request, &plan, &refusal), -EPERM);
    assert_string_equal(refusal.field, "networkNames");
    assert_string_equal(refusal.reason, reason);
    assert_non_null(strstr(refusal.hint, "[Network]"));
}

static void any_host_may_be_named_where_nothing_is_configured_but_no_address(void **state)
{
    char text[POLICY_HOSTS_TEXT];

    name_host("pypi.example");
    name_host("*.files.example");
    assert_admitted();
    assert_true(plan.egress);
    assert_string_equal(policy_hosts_text(&plan, text), "pypi.example *.files.example");
    assert_refused("192.0.2.1", "'192.0.2.1' is not in AllowedNames=.");
}

static void denied_hosts_are_refused_by_the_rule_that_says_so(void **state)
{
    assert_int_equal(config_network_add_names(&config.network.denied_names, "*.bad.example"), 0);
    assert_refused("www.bad.example", "'www.bad.example' is refused by DeniedNames=*.bad.example.");
    assert_refused("*.bad.example", "'*.bad.example' is refused by DeniedNames=*.bad.example.");
}

static void hosts_that_are_not_allowed_are_refused(void **state)
{
    assert_int_equal(config_network_add_names(&config.network.allowed_names, ""), 0);
    assert_int_equal(
        config_network_add_names(&config.network.allowed_names, "*.good.example 192.0.2.7"), 0);
    assert_int_equal(config_network_add_addresses(&config.network.denied_addresses, "192.0.2.0/29"),
                     0);
    name_host("a.good.example");
    name_host("*.b.good.example");
    assert_admitted();
    assert_refused("good.example", "'good.example' is not in AllowedNames=.");
    assert_refused("*.example", "'*.example' is not in AllowedNames=.");
    assert_refused("192.0.2.7", "'192.0.2.7' is refused by DeniedAddresses=192.0.2.0/29.");
}

static void without_names_any_host_is_meant(void **state)
{
    char text[POLICY_HOSTS_TEXT];

    assert_admitted();
    assert_string_equal(policy_hosts_text(&plan, text), "any");
    plan.limits.network = false;
    assert_admitted();
    assert_false(plan.egress);
    assert_string_equal(policy_hosts_text(&plan, text), "none");
}

static void longest_names_are_told_whole(void **state)
{
    char name[32], text[POLICY_HOSTS_TEXT];

    for (int i = 0; i < REQUEST_HOSTS_MAX; i++) {
        snprintf(name, sizeof(name), "a%02d.this-one-is-long.example", i);
        name_host(name);
    }
    assert_admitted();
    policy_hosts_text(&plan, text);
    assert_non_null(strstr(text, "a00.this"));
    assert_string_equal(strrchr(text, ' '), " a15.this-one-is-long.example");
}

static const char *variable(const char *name)
{
    size_t length = strlen(name);

    for (size_t i = 0; i < plan.n_environment; i++)
        if (strncmp(plan.environment[i], name, length) == 0 && plan.environment[i][length] == '=')
            return plan.environment[i] + length + 1;
    return NULL;
}

static void programs_are_told_of_the_proxy_and_of_nothing_else_that_keeps_them_offline(void **state)
{
    static const char *const proxied[] = { "HTTP_PROXY",       "https_proxy", "ALL_PROXY",
                                           "npm_config_proxy", "http_proxy",  "HTTPS_PROXY" };
    char *own[] = { "HTTPS_PROXY=http://mine:1", NULL };

    assert_admitted();
    assert_int_equal(policy_environment(&request, &plan), 0);
    for (size_t i = 0; i < ELEMENTS(proxied); i++)
        assert_string_equal(variable(proxied[i]), "http://127.0.0.1:3128");
    assert_string_equal(variable("no_proxy"), "localhost,127.0.0.1,::1");
    assert_non_null(strstr(variable("JAVA_TOOL_OPTIONS"), "-Dhttps.proxyPort=3128"));
    assert_null(variable("PIP_RETRIES"));
    plan_release(&plan);

    request.environment = own;
    request.n_environment = 1;
    plan.limits.network = plan.egress = true;
    assert_int_equal(policy_environment(&request, &plan), 0);
    assert_string_equal(variable("HTTPS_PROXY"), "http://mine:1");
    assert_string_equal(variable("https_proxy"), "http://127.0.0.1:3128");
}

static void without_an_egress_process_there_is_no_proxy(void **state)
{
    plan.cloud = true;
    assert_admitted();
    assert_false(plan.egress);
    assert_int_equal(policy_environment(&request, &plan), 0);
    assert_null(variable("HTTPS_PROXY"));
    assert_null(variable("PIP_RETRIES"));
    plan_release(&plan);

    assert_int_equal(policy_environment(&request, &plan), 0);
    assert_null(variable("HTTPS_PROXY"));
    assert_string_equal(variable("PIP_RETRIES"), "0");
}

static void lists_hold_in_a_cloud_as_names_that_are_allowed_or_nothing_runs_there(void **state)
{
    char text[POLICY_HOSTS_TEXT];

    plan.cloud = true;
    assert_int_equal(config_network_add_names(&config.network.allowed_names, ""), 0);
    assert_int_equal(policy_network(&config, &request, &plan, &refusal), -EPERM);
    assert_string_equal(refusal.reason, "AllowedNames= allows no host.");
    assert_int_equal(config_network_add_names(&config.network.allowed_names, "a.example b.example"),
                     0);
    assert_admitted();
    assert_string_equal(policy_hosts_text(&plan, text), "a.example b.example");
    assert_int_equal(config_network_add_names(&config.network.denied_names, "b.example"), 0);
    assert_int_equal(policy_network(&config, &request, &plan, &refusal), -EPERM);
    assert_string_equal(refusal.reason, "'b.example' is refused by DeniedNames=b.example.");
}

static const char *digest(const char *host, const char *second)
{
    plan.argv = no_strings;
    plan.environment = no_strings;
    host_list_release(&request.hosts);
    if (host)
        name_host(host);
    if (second)
        name_host(second);
    assert_admitted();
    assert_int_equal(request_digest(&request, &plan), 0);
    plan.argv = plan.environment = NULL;
    return strdup(request.sha256);
}

static void hosts_are_in_the_hash_of_the_request(void **state)
{
    const char *all[] = { digest(NULL, NULL), digest("a", NULL), digest("a", "b"),
                          digest("ab", NULL), digest("b", "a"),  digest("*.a", NULL) };

    for (size_t i = 0; i < ELEMENTS(all); i++)
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(all[i], all[j]);
    const char *again = digest("a", "b");
    assert_string_equal(again, all[2]);
    free((char *)again);
    for (size_t i = 0; i < ELEMENTS(all); i++)
        free((char *)all[i]);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(any_host_may_be_named_where_nothing_is_configured_but_no_address),
        TEST(lists_hold_in_a_cloud_as_names_that_are_allowed_or_nothing_runs_there),
        TEST(denied_hosts_are_refused_by_the_rule_that_says_so),
        TEST(hosts_that_are_not_allowed_are_refused),
        TEST(without_names_any_host_is_meant),
        TEST(longest_names_are_told_whole),
        TEST(programs_are_told_of_the_proxy_and_of_nothing_else_that_keeps_them_offline),
        TEST(without_an_egress_process_there_is_no_proxy),
        TEST(hosts_are_in_the_hash_of_the_request),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
