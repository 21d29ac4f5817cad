/* How sbxctl understands its command line, and with which status it ends. */
#include <getopt.h>

#include "client-fixture.h"

#include "client/exit-status.h"
#include "client/result.h"
#include "client/run-options.h"
#include "client/verb.h"

/* The arguments of `sbxctl run`, ended by NULL; parsed into @options. */
#define ARGUMENTS_MAX 16
struct command_line {
    char *argv[ARGUMENTS_MAX + 1];
    struct run_options options;
    int status;
};

static bool parse(struct command_line *line, const char *const *arguments)
{
    int argc = 0;

    *line = (struct command_line){};
    line->argv[argc++] = strdup("sbxctl run");
    for (; *arguments; arguments++)
        line->argv[argc++] = strdup(*arguments);
    optind = 0; /* getopt starts anew */
    return run_options_parse(verb_find("run"), argc, line->argv, &line->options, &line->status);
}

static void forget(struct command_line *line)
{
    run_options_release(&line->options);
    for (size_t i = 0; i < ARGUMENTS_MAX; i++)
        free(line->argv[i]);
}
#define _cleanup_line_ _cleanup_(forget)
#define PARSE(line, ...) parse(line, (const char *const[]){ __VA_ARGS__, NULL })

static void sizes_times_and_cpus_are_understood(void **state)
{
    _cleanup_line_ struct command_line line;

    assert_true(PARSE(&line, "--memory", "800M", "--cpus=1.5", "-t", "2min", "x.py"));
    assert_int_equal(line.options.memory_bytes, 800ULL << 20);
    assert_int_equal(line.options.cpu_percent, 150);
    assert_int_equal(line.options.timeout_usec, 120 * 1000000ULL);
    assert_true(run_options_exceed_defaults(&line.options));
}

static void bad_quantities_are_usage_errors(void **state)
{
    static const char *const bad[][2] = {
        { "--memory", "" },
        { "--memory", "-1" },
        { "--memory", "1X" },
        { "--memory", "0" },
        { "--memory", "9999999999G" },
        { "--memory", "1 G" },
        { "--cpus", "0" },
        { "--cpus", "zwei" },
        { "--timeout", "0" },
        { "--timeout", "1y" },
        { "--timeout", "-5" },
        { "--env", "" },
        { "--env", "=x" },
        { "--file", "" },
        { "--file", ":name" },
        { "--output", "" },
        { "--colour", "red" },
        { "--no-such-option", "x" },
    };

    for (size_t i = 0; i < ELEMENTS(bad); i++) {
        _cleanup_line_ struct command_line line;
        assert_false(PARSE(&line, bad[i][0], bad[i][1], "x.py"));
        assert_int_equal(line.status, EXIT_USAGE);
    }
}

static void options_end_at_the_script(void **state)
{
    _cleanup_line_ struct command_line line;

    assert_true(PARSE(&line, "--quiet", "x.py", "--json", "-c", "--", "--help"));
    assert_string_equal(line.options.script, "x.py");
    assert_true(line.options.quiet);
    assert_false(line.options.json);
    assert_null(line.options.code);
    assert_int_equal(line.options.n_arguments, 4);
    assert_string_equal(line.options.arguments[0], "--json");
    assert_string_equal(line.options.arguments[2], "--");
}

static void fault_67_two_dashes_end_the_options(void **state)
{
    _cleanup_line_ struct command_line line;

    assert_true(PARSE(&line, "--json", "--", "--network", "--", "--memory"));
    assert_true(line.options.json);
    assert_false(line.options.network);
    assert_string_equal(line.options.script, "--network");
    assert_int_equal(line.options.n_arguments, 2);
    assert_string_equal(line.options.arguments[0], "--");
    assert_string_equal(line.options.arguments[1], "--memory");
}

static void options_of_code_end_at_the_first_argument(void **state)
{
    _cleanup_line_ struct command_line line;

    assert_true(PARSE(&line, "-c", "print(1)", "one", "--json"));
    assert_string_equal(line.options.code, "print(1)");
    assert_null(line.options.script);
    assert_int_equal(line.options.n_arguments, 2);
    assert_false(line.options.json);
}

static void standard_input_is_a_script_called_dash(void **state)
{
    _cleanup_line_ struct command_line line;

    assert_true(PARSE(&line, "-q", "-", "x"));
    assert_string_equal(line.options.script, "-");
    assert_int_equal(line.options.n_arguments, 1);
}

static void missing_script_is_a_usage_error(void **state)
{
    _cleanup_line_ struct command_line none, empty;

    assert_false(parse(&none, (const char *const[]){ "--json", NULL }));
    assert_int_equal(none.status, EXIT_USAGE);
    assert_false(PARSE(&empty, ""));
    assert_int_equal(empty.status, EXIT_USAGE);
}

static void options_that_repeat_are_all_kept(void **state)
{
    _cleanup_line_ struct command_line line;

    assert_true(PARSE(&line, "-f", "a", "--file=b:c", "-e", "A", "--env", "B=", "x.py"));
    assert_int_equal(line.options.n_files, 2);
    assert_string_equal(line.options.files[1], "b:c");
    assert_int_equal(line.options.n_environment, 2);
    assert_string_equal(line.options.environment[1], "B=");
    assert_false(run_options_exceed_defaults(&line.options));
}

static void network_may_name_hosts(void **state)
{
    _cleanup_line_ struct command_line any, some;
    static const char *const bad[] = { "--network=", "--network=a,", "--network=,a",
                                       "--network=a,,b" };

    assert_true(PARSE(&any, "--network", "x.py"));
    assert_true(any.options.network);
    assert_int_equal(any.options.n_hosts, 0);
    assert_string_equal(any.options.script, "x.py");
    assert_true(PARSE(&some, "--network=a.example,b.example", "--network=*.c.example", "x.py"));
    assert_true(some.options.network);
    assert_int_equal(some.options.n_hosts, 2);
    assert_string_equal(some.options.hosts[0], "a.example,b.example");
    for (size_t i = 0; i < ELEMENTS(bad); i++) {
        _cleanup_line_ struct command_line line;
        assert_false(PARSE(&line, bad[i], "x.py"));
        assert_int_equal(line.status, EXIT_USAGE);
    }
}

static void every_way_to_end_has_its_status(void **state)
{
    static const struct {
        struct result result;
        int status;
    } table[] = {
        { { .status = STATUS_SUCCEEDED, .exit_code = 0 }, 0 },
        { { .status = STATUS_FAILED, .exit_code = 1 }, 1 },
        { { .status = STATUS_FAILED, .exit_code = 127 }, 127 },
        { { .status = STATUS_FAILED, .exit_code = 255 }, 255 },
        { { .status = STATUS_FAILED, .exit_code = 0 }, EXIT_OURS },
        { { .status = STATUS_FAILED, .exit_code = 70000 }, EXIT_OURS },
        { { .status = STATUS_FAILED, .exit_code = -1, .signal = "SIGSEGV" }, 139 },
        { { .status = STATUS_TIMED_OUT, .exit_code = -1, .signal = "SIGKILL" }, 124 },
        { { .status = STATUS_OUT_OF_MEMORY, .exit_code = -1, .signal = "SIGKILL" }, 137 },
        { { .status = STATUS_OUT_OF_MEMORY, .exit_code = 1 }, 137 },
        { { .status = STATUS_KILLED, .exit_code = -1, .signal = "SIGKILL" }, 137 },
        { { .status = STATUS_KILLED, .exit_code = -1, .signal = "TERM" }, 143 },
        { { .status = STATUS_KILLED, .exit_code = -1, .signal = "SIGNOSUCH" }, 137 },
        { { .status = STATUS_KILLED, .exit_code = -1 }, 137 },
        { { .status = STATUS_CANCELLED, .exit_code = -1 }, 130 },
        { { .status = STATUS_LOST, .exit_code = -1 }, 125 },
        { { .status = STATUS_DENIED, .exit_code = -1 }, 126 },
        { { .status = STATUS_REJECTED, .exit_code = -1 }, 125 },
        { { .status = STATUS_RUNNING, .exit_code = -1 }, 125 },
    };

    for (size_t i = 0; i < ELEMENTS(table); i++)
        assert_int_equal(exit_status_of_result(&table[i].result), table[i].status);
}

static void denials_are_told_apart_from_failures(void **state)
{
    assert_int_equal(exit_status_of_error("io.sbxctl.Sandbox.Denied"), 126);
    assert_int_equal(exit_status_of_error("io.sbxctl.Sandbox.ApprovalRequired"), 126);
    assert_int_equal(exit_status_of_error("org.varlink.service.PermissionDenied"), 126);
    assert_int_equal(exit_status_of_error("io.sbxctl.Sandbox.QueueFull"), 125);
    assert_int_equal(exit_status_of_error("io.sbxctl.Sandbox.Rejected"), 125);
    assert_int_equal(exit_status_of_error("com.example.Denied"), 125);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_times_and_cpus_are_understood),
        cmocka_unit_test(bad_quantities_are_usage_errors),
        cmocka_unit_test(options_end_at_the_script),
        cmocka_unit_test(fault_67_two_dashes_end_the_options),
        cmocka_unit_test(options_of_code_end_at_the_first_argument),
        cmocka_unit_test(standard_input_is_a_script_called_dash),
        cmocka_unit_test(missing_script_is_a_usage_error),
        cmocka_unit_test(options_that_repeat_are_all_kept),
        cmocka_unit_test(network_may_name_hosts),
        cmocka_unit_test(every_way_to_end_has_its_status),
        cmocka_unit_test(denials_are_told_apart_from_failures),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
