/* Admission, limits, language and command line of a run. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "broker/policy.h"

/* The tests fill structs that own their strings with literals that nobody frees. */
#ifdef __clang__
#pragma clang diagnostic ignored "-Wincompatible-pointer-types-discards-qualifiers"
#else
#pragma GCC diagnostic ignored "-Wdiscarded-qualifiers"
#endif

static char *python_shebangs[] = { "python", NULL };
static char *python_extensions[] = { ".py", ".pyw", NULL };

static struct config config;
static struct request request;
static char *no_strings[] = { NULL };

static void set_script(const char *text)
{
    close_fd(request.script);
    request.script = memfd_create("script", MFD_CLOEXEC);
    assert_int_equal(write(request.script, text, strlen(text)), strlen(text));
    request.script_bytes = strlen(text);
}

static int set_up(void **state)
{
    config = (struct config){
        .defaults = { .memory_bytes = 512 << 20, .cpu_percent = 100, .timeout_usec = 60000000 },
        .ceiling = { .network = true,
                     .memory_bytes = UINT64_C(2) << 30,
                     .cpu_percent = 200,
                     .timeout_usec = 300000000 },
        .workspace_bytes = 256 << 20,
        .script_bytes = 1 << 20,
        .input_bytes = 200 << 20,
        .inputs = 2,
        .engine = "systemd",
        .n_languages = 2,
    };
    config.languages[0] = (struct language){ .name = "python", .interpreter = "python3" };
    memcpy(config.languages[0].shebangs, python_shebangs, sizeof(python_shebangs));
    memcpy(config.languages[0].extensions, python_extensions, sizeof(python_extensions));
    config.languages[1] = (struct language){ .name = "shell", .interpreter = "sh" };
    config.languages[1].shebangs[0] = "sh";
    config.languages[1].options[0] = "-e";
    request = (struct request){
        .script_name = "job.py",
        .script = -1,
        .stdin_memfd = -1,
        .arguments = no_strings,
        .environment = no_strings,
        .memory_bytes = UINT64_MAX,
        .cpu_percent = UINT64_MAX,
        .timeout_usec = UINT64_MAX,
    };
    set_script("print(4)\n");
    return 0;
}

static int tear_down(void **state)
{
    request.script = close_fd(request.script);
    return 0;
}

static struct refusal refused(const char *field)
{
    struct refusal refusal;
    struct plan plan;

    assert_int_equal(policy_apply(&config, &request, &plan, &refusal), -EPERM);
    assert_string_equal(refusal.field, field);
    assert_true(refusal.reason[0] != '\0');
    return refusal;
}

static struct plan admitted(void)
{
    struct refusal refusal;
    struct plan plan;

    if (policy_apply(&config, &request, &plan, &refusal) != 0)
        fail_msg("refused: %s: %s", refusal.field, refusal.reason);
    return plan;
}

static void nothing_asked_for_gives_the_defaults_and_needs_only_run(void **state)
{
    struct plan plan = admitted();

    assert_int_equal(plan.limits.memory_bytes, 512 << 20);
    assert_false(plan.limits.network);
    assert_int_equal(plan.approvals, APPROVAL_RUN);
    assert_string_equal(plan.engine, "systemd");
    plan_release(&plan);
}

static void each_step_above_the_defaults_needs_its_approval(void **state)
{
    struct plan plan;

    request.memory_bytes = (512 << 20) + 1;
    plan = admitted();
    assert_int_equal(plan.approvals, APPROVAL_RUN | APPROVAL_RESOURCES);
    plan_release(&plan);
    request.memory_bytes = 64 << 20;
    request.network = true;
    plan = admitted();
    assert_int_equal(plan.approvals, APPROVAL_RUN | APPROVAL_NETWORK);
    plan_release(&plan);
    request.network = false;
    request.timeout_usec = 60000001;
    plan = admitted();
    assert_int_equal(plan.approvals, APPROVAL_RUN | APPROVAL_RESOURCES);
    plan_release(&plan);
}

static void above_the_ceiling_names_field_request_and_ceiling(void **state)
{
    struct refusal refusal;

    request.memory_bytes = UINT64_C(3) << 30;
    refusal = refused("memoryBytes");
    assert_int_equal(refusal.kind, REFUSAL_ABOVE_CEILING);
    assert_int_equal(refusal.requested, UINT64_C(3) << 30);
    assert_int_equal(refusal.ceiling, UINT64_C(2) << 30);
    assert_non_null(strstr(refusal.reason, "3 GiB"));
    request.memory_bytes = UINT64_MAX;
    request.cpu_percent = 201;
    refused("cpuPercent");
    request.cpu_percent = UINT64_MAX;
    request.timeout_usec = INT64_MAX;
    refused("timeoutUSec");
    request.timeout_usec = UINT64_MAX;
    config.ceiling.network = false;
    request.network = true;
    refused("network");
}

static void too_little_is_refused_as_well(void **state)
{
    request.memory_bytes = 1;
    refused("memoryBytes");
    request.memory_bytes = UINT64_MAX;
    request.timeout_usec = 1;
    refused("timeoutUSec");
}

static void sizes_and_numbers_of_files_are_admitted_before_anything_is_read(void **state)
{
    struct request_input inputs[3] = { { "a", -1, 150 << 20 },
                                       { "b", -1, 60 << 20 },
                                       { "c", -1, 1 } };

    request.script_bytes = (1 << 20) + 1;
    refused("script");
    request.script_bytes = 0;
    refused("script");
    request.script_bytes = 9;
    request.inputs = inputs;
    request.n_inputs = 3;
    refused("inputs");
    request.n_inputs = 2;
    refused("inputs");
    inputs[1].size = UINT64_MAX;
    refused("inputs");
    inputs[1].size = 50 << 20;
    config.workspace_bytes = 200 << 20;
    refused("inputs");
}

static void expect_language(const char *name, const char *text, const char *expected)
{
    request.script_name = (char *)name;
    set_script(text);
    if (!expected) {
        struct refusal refusal = refused("language");
        assert_non_null(strstr(refusal.hint, "python shell"));
        return;
    }
    struct plan plan = admitted();
    assert_string_equal(plan.language->name, expected);
    plan_release(&plan);
}

static void language_is_told_by_first_line_then_by_extension(void **state)
{
    expect_language("job.py", "print(4)", "python");
    expect_language("job", "#!/usr/bin/python3.11\n", "python");
    expect_language("job", "#!/usr/bin/env python3\n", "python");
    expect_language("job", "#! /usr/bin/env -S A=b python3 -u\r\n", "python");
    expect_language("job.py", "#!/bin/sh\n", "shell");
    expect_language("job", "#!sh", "shell");
    expect_language("job.py", "#!/usr/bin/awk -f\n", NULL);
    expect_language("job.py", "#!/usr/bin/env\n", "python");
    expect_language("job", "#!\n", NULL);
    expect_language("job", "print(4)", NULL);
    expect_language("py", "x", NULL);
    expect_language("job.PY", "x", NULL);
}

static void asked_for_language_wins_and_must_exist(void **state)
{
    request.language = "shell";
    struct plan plan = admitted();
    assert_string_equal(plan.argv[0], "sh");
    assert_string_equal(plan.argv[1], "-e");
    assert_string_equal(plan.argv[2], "/workspace/job.py");
    assert_null(plan.argv[3]);
    plan_release(&plan);
    request.language = "cobol";
    refused("language");
}

static const char *variable(const struct plan *plan, const char *name)
{
    const char *found = NULL;

    for (size_t i = 0; i < plan->n_environment; i++)
        if (strncmp(plan->environment[i], name, strlen(name)) == 0 &&
            plan->environment[i][strlen(name)] == '=') {
            assert_null(found); /* each name once */
            found = plan->environment[i] + strlen(name) + 1;
        }
    return found;
}

static void environment_is_ours_with_the_callers_on_top(void **state)
{
    char *mine[] = { "HOME=/tmp", "COLOUR=red", NULL };

    request.environment = mine;
    request.n_environment = 2;
    request.cpu_percent = 150;
    struct plan plan = admitted();
    assert_string_equal(variable(&plan, "HOME"), "/tmp");
    assert_string_equal(variable(&plan, "COLOUR"), "red");
    assert_string_equal(variable(&plan, "MPLBACKEND"), "Agg");
    assert_string_equal(variable(&plan, "OMP_NUM_THREADS"), "2");
    plan_release(&plan);
}

static void arguments_and_environment_are_limited_together(void **state)
{
    static char big[40000];
    char *arguments[] = { big, NULL };

    memset(big, 'x', sizeof(big) - 1);
    request.arguments = arguments;
    request.n_arguments = 1;
    assert_non_null(strstr(refused("arguments").hint, "--file"));
}

static void fault_31_arguments_that_look_like_options_stay_behind_the_script(void **state)
{
    char *arguments[] = { "--privileged", "-c", "", "--", NULL };

    request.arguments = arguments;
    request.n_arguments = 4;
    request.script_name = "-c.py";
    struct plan plan = admitted();
    assert_string_equal(plan.argv[0], "python3");
    assert_string_equal(plan.argv[1], "/workspace/-c.py");
    for (size_t i = 0; i < 4; i++)
        assert_string_equal(plan.argv[2 + i], arguments[i]);
    assert_null(plan.argv[6]);
    plan_release(&plan);
}

static void fault_65_engine_name_cannot_leave_its_directory(void **state)
{
    static const char *const bad[] = {
        "../../../dev/shm/e", "/tmp/e", ".", "..", "", "a/b", "A\n"
    };
    struct plan plan;
    struct refusal refusal;

    for (size_t i = 0; i < ELEMENTS(bad); i++) {
        request.engine = (char *)bad[i];
        assert_int_equal(policy_apply(&config, &request, &plan, &refusal), -EPERM);
        assert_string_equal(refusal.field, "engine");
    }
    request.engine = "docker-2";
    assert_int_equal(policy_apply(&config, &request, &plan, &refusal), 0);
    plan_release(&plan);
}

/* Put together here so that nobody's search for credentials finds it in this file. */
#define TOKEN \
    "ghp_"    \
    "aB3dE5gH7jK9mN1pQ3rStU5vW7xY9zA1bC3dE5fG"

static void credential_is_run_only_if_its_caller_insists(void **state)
{
    struct refusal refusal;
    struct plan plan;

    set_script("import x\nx.use('" TOKEN "')\n");
    refusal = refused("script");
    assert_int_equal(refusal.kind, REFUSAL_SECRETS);
    assert_int_equal(refusal.line, 2);
    assert_string_equal(refusal.reason,
                        "Line 2 of the script seems to hold a GitHub token, so nothing was run.");
    assert_non_null(strstr(refusal.hint, "--env NAME"));
    assert_non_null(strstr(refusal.hint, "--allow-secrets"));
    request.allow_secrets = true;
    plan = admitted();
    plan_release(&plan);
}

static void credential_among_the_arguments_is_found_and_never_repeated(void **state)
{
    char *arguments[] = { "--key", TOKEN, NULL };
    struct refusal refusal;

    request.arguments = arguments;
    request.n_arguments = 2;
    refusal = refused("arguments");
    assert_int_equal(refusal.kind, REFUSAL_SECRETS);
    assert_int_equal(refusal.line, 0);
    assert_string_equal(refusal.reason,
                        "Argument 2 seems to hold a GitHub token, so nothing was run.");
    assert_null(strstr(refusal.reason, "aB3dE5"));
    assert_null(strstr(refusal.hint, "aB3dE5"));
}

static void administrator_decides_what_becomes_of_credentials(void **state)
{
    struct refusal refusal;
    struct plan plan;

    set_script("x = '" TOKEN "'\n");
    config.secrets = SECRETS_REFUSE;
    request.allow_secrets = true;
    refusal = refused("script");
    assert_int_equal(refusal.kind, REFUSAL_REJECTED);
    assert_non_null(strstr(refusal.reason, "Secrets=refuse"));
    assert_null(strstr(refusal.hint, "--allow-secrets"));
    config.secrets = SECRETS_ALLOW;
    request.allow_secrets = false;
    plan = admitted();
    plan_release(&plan);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(fault_65_engine_name_cannot_leave_its_directory),
        TEST(nothing_asked_for_gives_the_defaults_and_needs_only_run),
        TEST(each_step_above_the_defaults_needs_its_approval),
        TEST(above_the_ceiling_names_field_request_and_ceiling),
        TEST(too_little_is_refused_as_well),
        TEST(sizes_and_numbers_of_files_are_admitted_before_anything_is_read),
        TEST(language_is_told_by_first_line_then_by_extension),
        TEST(asked_for_language_wins_and_must_exist),
        TEST(environment_is_ours_with_the_callers_on_top),
        TEST(arguments_and_environment_are_limited_together),
        TEST(fault_31_arguments_that_look_like_options_stay_behind_the_script),
        TEST(credential_is_run_only_if_its_caller_insists),
        TEST(credential_among_the_arguments_is_found_and_never_repeated),
        TEST(administrator_decides_what_becomes_of_credentials),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
