/* The authorization table, held against the interface text that is served. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "broker/authorize.h"
#include "broker/methods.h"

/* Reads the name behind the next "\nmethod " at @text; returns where to go on, or NULL. */
static const char *next_method(const char *text, char name[64])
{
    const char *at = strstr(text, "\nmethod ");

    return at && sscanf(at, "\nmethod %63[A-Za-z0-9]", name) == 1 ? at + 1 : NULL;
}

static void fault_19_every_method_of_the_interface_has_a_row(void **state)
{
    char name[64];
    size_t n = 0;

    for (const char *at = sandbox_interface.description; (at = next_method(at, name)); n++)
        if (authorize_method(name) == AUTHORIZE_REFUSE)
            fail_msg("method %s has no row", name);
    assert_true(n >= 8);
    assert_int_equal(n, sandbox_interface.n_methods);
    for (size_t i = 0; i < n; i++)
        assert_int_not_equal(authorize_method(sandbox_interface.methods[i].name), AUTHORIZE_REFUSE);
}

static void only_what_tells_nothing_about_runs_is_anybodys(void **state)
{
    char name[64];

    for (const char *at = sandbox_interface.description; (at = next_method(at, name));) {
        bool tells_nothing = strncmp(name, "Get", 3) == 0;
        assert_int_equal(authorize_method(name) == AUTHORIZE_ANYBODY, tells_nothing);
    }
    assert_int_equal(authorize_method("Run"), AUTHORIZE_BY_RISK);
}

static void fault_19_a_method_without_a_row_is_refused(void **state)
{
    const char *const names[] = {
        "", "run", "RUN", "Run ", "Runs", "Ru", "GetInfo", "io.sbxctl.Run"
    };

    for (size_t i = 0; i < ELEMENTS(names); i++)
        assert_int_equal(authorize_method(names[i]), AUTHORIZE_REFUSE);
}

static void every_approval_has_an_action_of_its_own(void **state)
{
    unsigned all = APPROVAL_ALL;

    for (unsigned a = all; a; a &= a - 1) {
        const char *action = authorize_action((enum approval)(a & -a));
        assert_string_not_equal(action, "io.sbxctl.unknown");
        for (unsigned b = a & (a - 1); b; b &= b - 1)
            assert_string_not_equal(action, authorize_action((enum approval)(b & -b)));
    }
}

static void what_is_no_approval_needs_an_administrator_and_no_action_allows_it(void **state)
{
    enum approval unknown = (enum approval)(1U << 30);

    assert_string_equal(authorize_action(unknown), "io.sbxctl.unknown");
    assert_true(authorize_needs_admin(unknown));
}

static void a_description_names_all_that_is_asked_for(void **state)
{
    const struct limits defaults = { .memory_bytes = 512 << 20,
                                     .cpu_percent = 100,
                                     .timeout_usec = 60000000 };
    struct plan plan = { .engine = "e2b", .limits = defaults };
    char text[400];

    plan.limits.memory_bytes = 1 << 30;
    plan.limits.cpu_percent = 150;
    plan.limits.timeout_usec = 120000000;
    authorize_describe(APPROVAL_NETWORK | APPROVAL_RESOURCES | APPROVAL_CLOUD, &plan, &defaults,
                       text, sizeof(text));
    assert_string_equal(text,
                        "network access, memory of 1 GiB (default: 512 MiB), 1.5 CPUs (default: "
                        "1), a time limit of 2 min (default: 60 s) and sending code and files "
                        "to the cloud (engine e2b)");
    char *hosts[] = { (char *)"a.example", (char *)"*.b.example" };
    plan.limits.network = true;
    plan.hosts = (struct host_list){ hosts, 2 };
    authorize_describe(APPROVAL_NETWORK, &plan, &defaults, text, sizeof(text));
    assert_string_equal(text, "network access to a.example *.b.example");
    authorize_describe(APPROVAL_RUN, &plan, &defaults, text, sizeof(text));
    assert_string_equal(text, "running code in a sandbox");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fault_19_every_method_of_the_interface_has_a_row),
        cmocka_unit_test(only_what_tells_nothing_about_runs_is_anybodys),
        cmocka_unit_test(fault_19_a_method_without_a_row_is_refused),
        cmocka_unit_test(every_approval_has_an_action_of_its_own),
        cmocka_unit_test(what_is_no_approval_needs_an_administrator_and_no_action_allows_it),
        cmocka_unit_test(a_description_names_all_that_is_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
