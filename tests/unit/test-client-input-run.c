/* --input-run: which of an earlier run's files become inputs, under which names, and that nothing
 * leads out of that run's directory. */
#include "client-script.h"

#define ID "0123456789abcdef"
#define POLICY "{\"parameters\":{\"inputBytesMax\":1000,\"inputsMax\":10}}"
#define FINISHED "{\"parameters\":{\"event\":\"finished\",\"result\":{\"id\":\"" ID "\"," OK "}}}"
#define OK "\"status\":\"succeeded\",\"reason\":\"it ended\""
#define DESCRIBED(fields) "{\"parameters\":{\"result\":{\"id\":\"" ID "\"," fields "}}}"

/* A run that made a.csv, sub/b.csv and a link to the outside. */
static int enter_run(void **state)
{
    int r = enter_scratch(state);

    assert_int_equal(mkdir("run", 0755) | mkdir("run/files", 0755), 0);
    assert_int_equal(mkdir("run/files/sub", 0755), 0);
    write_file("run/run.json", "{}");
    write_file("run/files/a.csv", "a");
    write_file("run/files/sub/b.csv", "bb");
    assert_int_equal(symlink("/etc", "run/files/sub/etc"), 0);
    return r;
}

/* Gives @wish to a run; what the names of its inputs must be, or NULL if there is to be no run. */
static void check(const char *wish, const char *inputs)
{
    const struct scripted_call calls[] = {
        { "GetPolicy", { POLICY } },
        { "Describe", { DESCRIBED(OK ",\"outputDirectory\":\"run\"") } },
        { inputs ? inputs : "", { FINISHED } },
    };
    struct scripted_helper helper;

    script_start(&helper, calls, inputs ? 3 : 2);
    int status = SBXCTL("run", "--input-run", wish, "-c", "1");
    script_end(&helper);
    assert_int_equal(status, inputs ? 0 : 125);
}

static void all_files_lie_as_they_did(void **state)
{
    check(ID, "\"inputs\":[{\"name\":\"a.csv\",\"fd\":1},{\"name\":\"sub/b.csv\",\"fd\":2}]");
    check(ID ":", "\"inputs\":[{\"name\":\"a.csv\",\"fd\":1},{\"name\":\"sub/b.csv\",\"fd\":2}]");
    assert_non_null(strstr(read_file(STDERR), "sub/etc: it is a link"));
}

static void one_file_has_its_last_name(void **state)
{
    check(ID ":a.csv", "\"inputs\":[{\"name\":\"a.csv\",\"fd\":1}]");
    check(ID ":sub/b.csv", "\"inputs\":[{\"name\":\"b.csv\",\"fd\":1}]");
}

static void directory_comes_with_what_is_in_it(void **state)
{
    check(ID ":sub", "\"inputs\":[{\"name\":\"sub/b.csv\",\"fd\":1}]");
    check(ID ":sub/", "\"inputs\":[{\"name\":\"sub/b.csv\",\"fd\":1}]");
}

static void nothing_leads_out_of_the_run(void **state)
{
    static const char *const paths[] = { ID ":..",      ID ":../run.json",    ID ":/etc/passwd",
                                         ID ":sub/etc", ID ":sub/etc/passwd", ID ":sub/../..",
                                         ID ":.",       ID ":missing" };

    for (size_t i = 0; i < ELEMENTS(paths); i++)
        check(paths[i], NULL);
    check(ID ":../run.json", NULL);
    assert_non_null(strstr(read_file(STDERR), "it does not lie among the run's files"));
    check(ID ":sub/etc", NULL);
    assert_non_null(strstr(read_file(STDERR), "there is a link in the way"));
    check(ID ":missing", NULL);
    assert_non_null(strstr(read_file(STDERR), "the run made no such file"));
}

static void link_in_place_of_the_files_is_not_followed(void **state)
{
    assert_int_equal(system("rm -r run/files"), 0);
    assert_int_equal(symlink("/etc", "run/files"), 0);
    check(ID, NULL);
    assert_non_null(strstr(read_file(STDERR), "cannot read the files of the run"));
}

static void limits_hold_for_all_together(void **state)
{
    static const struct scripted_call calls[] = {
        { "GetPolicy", { "{\"parameters\":{\"inputBytesMax\":3,\"inputsMax\":10}}" } },
        { "Describe", { DESCRIBED(OK ",\"outputDirectory\":\"run\"") } },
    };

    write_file("c", "c");
    assert_int_equal(SCRIPTED(calls, "run", "--input-run", ID, "--file", "c", "-c", "1"), 125);
    assert_non_null(strstr(read_file(STDERR), "at most 3 B is allowed"));
}

static void run_that_goes_on_has_no_files_yet(void **state)
{
    static const struct scripted_call calls[] = {
        { "GetPolicy", { POLICY } },
        { "Describe", { DESCRIBED("\"status\":\"running\",\"reason\":\"\"") } },
    };

    assert_int_equal(SCRIPTED(calls, "run", "--input-run", ID, "-c", "1"), 125);
    assert_non_null(strstr(read_file(STDERR), "has not ended yet"));
    assert_int_equal(SBXCTL("run", "--input-run", ":a", "-c", "1"), 64);
}

#define T(name) cmocka_unit_test_setup_teardown(name, enter_run, leave_scratch)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(all_files_lie_as_they_did),
        T(one_file_has_its_last_name),
        T(directory_comes_with_what_is_in_it),
        T(nothing_leads_out_of_the_run),
        T(link_in_place_of_the_files_is_not_followed),
        T(limits_hold_for_all_together),
        T(run_that_goes_on_has_no_files_yet),
    };

    if (!getenv("SBXCTL_PROGRAM")) {
        fprintf(stderr, "SBXCTL_PROGRAM is not set\n");
        return 1;
    }
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
