/* The verbs about runs that go on without us, against a helper that follows a script: what they
 * call, what they pass on, and how they end. */
#include "client-script.h"

#define ID "0123456789abcdef"
#define OTHER "fedcba9876543210"
#define THIRD "3333333333333333"

#define FINISHED(id, fields) \
    "{\"parameters\":{\"event\":\"finished\",\"result\":" RESULT(id, fields) "}}"
#define RESULT(id, fields) "{\"id\":\"" id "\",\"reason\":\"it ended\"," fields "}"
#define DESCRIBED(id, fields) "{\"parameters\":{\"result\":" RESULT(id, fields) "}}"
#define OUTPUT(stream, offset, data)                                                            \
    "{\"parameters\":{\"event\":\"output\",\"stream\":\"" stream "\",\"offset\":" #offset ",\"" \
    "data\":\"" data "\"},\"continues\":true}"
#define NOTHING "{\"parameters\":{}}"
#define SUCCEEDED "\"status\":\"succeeded\",\"exitCode\":0"

/* ---- logs ---- */

static void logs_pass_each_stream_to_its_own(void **state)
{
    static const struct scripted_call calls[] = {
        { "Describe", { DESCRIBED(ID, SUCCEEDED) } },
        { "\"method\":\"io.sbxctl.Sandbox.Attach\",\"parameters\":{\"id\":\"" ID
          "\",\"output\":true,"
          "\"stdoutOffset\":0,\"stderrOffset\":0},\"more\":true",
          { OUTPUT("stdout", 0, "b25lCg=="), OUTPUT("stderr", 0, "b29wcwo="),
            OUTPUT("stdout", 4, "dHdvCg=="), FINISHED(ID, SUCCEEDED) } },
    };

    assert_int_equal(SCRIPTED(calls, "logs", ID), 0);
    assert_string_equal(read_file(STDOUT), "one\ntwo\n");
    assert_string_equal(read_file(STDERR), "oops\n");
}

static void logs_go_on_where_they_were_when_the_helper_comes_back(void **state)
{
    static const struct scripted_call calls[] = {
        { "Describe", { DESCRIBED(ID, "\"status\":\"running\"") } },
        { "\"stdoutOffset\":0,\"stderrOffset\":0", { OUTPUT("stdout", 0, "b25lCg==") }, true },
        { "\"stdoutOffset\":4,\"stderrOffset\":0", {}, true },
        /* What a helper says twice is not shown twice. */
        { "\"stdoutOffset\":4,\"stderrOffset\":0",
          { OUTPUT("stdout", 2, "ZQp0d28K"), FINISHED(ID, SUCCEEDED) } },
    };

    assert_int_equal(SCRIPTED(calls, "logs", "-f", ID), 0);
    assert_string_equal(read_file(STDOUT), "one\ntwo\n");
}

static void gap_in_the_logs_is_told(void **state)
{
    static const struct scripted_call calls[] = {
        { "Describe", { DESCRIBED(ID, "\"status\":\"running\"") } },
        { "Attach",
          { OUTPUT("stdout", 0, "b25lCg=="), OUTPUT("stdout", 1028, "dHdvCg=="),
            FINISHED(ID, SUCCEEDED
                     ",\"stdout\":{\"bytes\":2056,\"keptBytes\":4,\"truncated\":true}") } },
    };

    assert_int_equal(SCRIPTED(calls, "logs", "--follow", ID), 0);
    assert_string_equal(read_file(STDOUT), "one\ntwo\n");
    assert_string_equal(read_file(STDERR),
                        "sbxctl: 1 KiB of stdout are missing here: they were not kept\n"
                        "sbxctl: 1 KiB of stdout are missing here: they were not kept\n");
}

static void logs_without_follow_end_with_what_is_there(void **state)
{
    static const struct scripted_call calls[] = {
        { "Describe",
          { DESCRIBED(ID, "\"status\":\"running\",\"stdout\":{\"bytes\":4,\"keptBytes\":4},"
                          "\"stderr\":{\"bytes\":0,\"keptBytes\":0}") } },
        { "Attach", { OUTPUT("stdout", 0, "b25lCg==") } }, /* and no more for now */
    };
    static const struct scripted_call silent[] = {
        { "Describe", { DESCRIBED(ID, "\"status\":\"queued\"") } },
    };

    assert_int_equal(SCRIPTED(calls, "logs", ID), 0);
    assert_string_equal(read_file(STDOUT), "one\n");
    assert_int_equal(SCRIPTED(silent, "logs", ID), 0);
    assert_string_equal(read_file(STDOUT), "");
}

static void logs_as_json_have_a_line_for_each_piece(void **state)
{
    static const struct scripted_call calls[] = {
        { "Describe", { DESCRIBED(ID, SUCCEEDED) } },
        { "Attach", { OUTPUT("stderr", 7, "AP8="), FINISHED(ID, SUCCEEDED) } },
    };

    assert_int_equal(SCRIPTED(calls, "logs", "--json", ID), 0);
    assert_string_equal(read_file(STDOUT),
                        "{\"stream\":\"stderr\",\"offset\":7,\"data\":\"AP8=\"}\n");
}

/* ---- wait ---- */

static void wait_ends_as_run_would_have(void **state)
{
    static const struct scripted_call calls[] = {
        { "Describe", { DESCRIBED(ID, "\"status\":\"running\"") } },
        { "Attach\",\"parameters\":{\"id\":\"" ID "\",\"output\":false}",
          { FINISHED(ID, "\"status\":\"failed\",\"exitCode\":3") } },
    };

    assert_int_equal(SCRIPTED(calls, "wait", ID), 3);
    assert_string_equal(read_file(STDERR), "sbxctl: it ended\n");
    assert_int_equal(SCRIPTED(calls, "wait", "--json", ID), 3);
    _cleanup_json_ json_object *object = printed_object();
    assert_string_equal(member(object, "status"), "failed");
}

static void wait_for_several_ends_as_the_first_that_went_wrong(void **state)
{
    static const struct scripted_call calls[] = {
        { "Describe", { DESCRIBED(ID, SUCCEEDED) } },
        { "Describe", { DESCRIBED(OTHER, "\"status\":\"running\"") } },
        { "Describe", { DESCRIBED(THIRD, "\"status\":\"running\"") } },
        { "Attach", { FINISHED(ID, SUCCEEDED) } },
        { OTHER, { FINISHED(OTHER, "\"status\":\"timed_out\"") } },
        { THIRD, { FINISHED(THIRD, "\"status\":\"failed\",\"exitCode\":3") } },
    };

    assert_int_equal(SCRIPTED(calls, "wait", ID, OTHER, THIRD), 124);
    assert_string_equal(read_file(STDERR), "sbxctl: " ID " succeeded\n"
                                           "sbxctl: " OTHER " timed out: it ended\n"
                                           "sbxctl: " THIRD " failed: it ended\n");
}

static void wait_gives_up_on_a_helper_that_stays_away(void **state)
{
    static const struct scripted_call calls[] = {
        { "Describe", { DESCRIBED(ID, "\"status\":\"running\"") } },
        { "Attach", {}, true },
        { "Attach", {}, true },
        { "Attach", {}, true },
        { "Attach", {}, true },
        { "Attach", {}, true },
        { "Attach", {}, true },
        { "Attach", {}, true },
        { "Attach", {}, true },
        { "Attach", {}, true },
        { "Attach", {}, true },
        { "Attach", {}, true },
    };

    assert_int_equal(SCRIPTED(calls, "wait", ID), 69);
    assert_non_null(strstr(read_file(STDERR), "what became of the run is not known yet"));
}

/* ---- stop, mark, rm ---- */

static void stop_cancels_all_and_waits_for_them(void **state)
{
    static const struct scripted_call calls[] = {
        { "Describe", { DESCRIBED(ID, "\"status\":\"running\"") } },
        { "Describe", { DESCRIBED(OTHER, "\"status\":\"running\"") } },
        { "Cancel\",\"parameters\":{\"id\":\"" ID "\"}", { NOTHING } },
        { "Cancel\",\"parameters\":{\"id\":\"" OTHER "\"}", { NOTHING } },
        { "Attach", { FINISHED(ID, "\"status\":\"cancelled\"") } },
        { "Attach", { FINISHED(OTHER, SUCCEEDED) } },
    };

    assert_int_equal(SCRIPTED(calls, "stop", ID, OTHER), 0);
    assert_string_equal(read_file(STDERR), "sbxctl: " OTHER " has ended before: succeeded\n");
}

static void stop_can_kill(void **state)
{
    static const struct scripted_call calls[] = {
        { "Describe", { DESCRIBED(ID, "\"status\":\"running\"") } },
        { "Cancel\",\"parameters\":{\"id\":\"" ID "\",\"kill\":true}", { NOTHING } },
        { "Attach", { FINISHED(ID, "\"status\":\"cancelled\"") } },
    };

    assert_int_equal(SCRIPTED(calls, "stop", "--kill", ID), 0);
}

static void mark_is_either_accepted_or_rejected(void **state)
{
    static const struct scripted_call calls[] = {
        { "Mark\",\"parameters\":{\"id\":\"" ID "\",\"verdict\":\"rejected\"}", { NOTHING } },
    };

    assert_int_equal(SCRIPTED(calls, "mark", ID, "rejected"), 0);
    assert_int_equal(SBXCTL("mark", ID, "good"), 64);
    assert_int_equal(SBXCTL("mark", ID), 64);
}

static void all_that_ended_can_be_removed_at_once(void **state)
{
    static const struct scripted_call calls[] = {
        { "RemoveAll", { "{\"parameters\":{\"removed\":12}}" } },
    };

    assert_int_equal(SCRIPTED(calls, "rm", "--all", "--json"), 0);
    assert_string_equal(read_file(STDOUT), "{\"count\":12}\n");
    static const struct scripted_call some[] = {
        { "RemoveAll", { "{\"parameters\":{\"removed\":1,\"failed\":2,\"reason\":\"no disk\"}}" } },
    };
    assert_int_equal(SCRIPTED(some, "rm", "-a"), 125);
    assert_string_equal(read_file(STDERR), "sbxctl: removed 1 run\n"
                                           "sbxctl: 2 could not be removed: no disk\n");
    assert_int_equal(SBXCTL("rm"), 64);
    assert_int_equal(SBXCTL("rm", "--all", ID), 64);
}

/* ---- ids ---- */

#define RUN(id) RESULT(id, SUCCEEDED ",\"scriptName\":\"a.py\"")

static void beginning_of_an_id_is_looked_for_on_all_pages(void **state)
{
    static const struct scripted_call calls[] = {
        { "List\",\"parameters\":{\"limit\":250}",
          { "{\"parameters\":{\"runs\":[" RUN(OTHER) "],\"next\":\"" OTHER "\"}}" } },
        { "List\",\"parameters\":{\"limit\":250,\"after\":\"" OTHER "\"}",
          { "{\"parameters\":{\"runs\":[" RUN(ID) "]}}" } },
        { "Mark\",\"parameters\":{\"id\":\"" ID "\"", { NOTHING } },
    };

    assert_int_equal(SCRIPTED(calls, "mark", "0123", "accepted"), 0);
}

static void beginning_of_several_ids_lists_them(void **state)
{
    static const struct scripted_call calls[] = {
        { "List", { "{\"parameters\":{\"runs\":[" RUN(ID) "," RUN("01aaaaaaaaaaaaaa") "]}}" } },
    };

    assert_int_equal(SCRIPTED(calls, "mark", "01", "accepted"), 125);
    assert_string_equal(read_file(STDERR),
                        "sbxctl: more than one of your runs has an id that begins with 01\n"
                        "sbxctl: give more of the id; it may be one of\n"
                        "sbxctl:   " ID "  succeeded      a.py\n"
                        "sbxctl:   01aaaaaaaaaaaaaa  succeeded      a.py\n");
}

static void ps_tells_where_the_next_page_begins(void **state)
{
    static const struct scripted_call calls[] = {
        { "List\",\"parameters\":{\"limit\":1}",
          { "{\"parameters\":{\"runs\":[" RUN(ID) "],\"next\":\"" ID "\"}}" } },
    };
    static const struct scripted_call next[] = {
        { "List\",\"parameters\":{\"limit\":100,\"active\":true,\"after\":\"" ID "\"}",
          { "{\"parameters\":{\"runs\":[]}}" } },
    };

    assert_int_equal(SCRIPTED(calls, "ps", "-a", "-n", "1"), 0);
    assert_non_null(strstr(read_file(STDERR), "sbxctl ps -a --after " ID ", or --limit all"));
    assert_int_equal(SCRIPTED(next, "ps", "--after", ID), 0);
    assert_int_equal(SBXCTL("ps", "--limit", "0"), 64);
    assert_int_equal(SBXCTL("ps", "--limit", "x"), 64);
}

/* ---- run ---- */

static void detached_run_prints_its_id_alone(void **state)
{
    static const struct scripted_call calls[] = {
        { "\"detach\":true",
          { "{\"parameters\":{\"event\":\"queued\",\"id\":\"" ID "\",\"position\":0},"
            "\"continues\":true}",
            "{\"parameters\":{\"event\":\"detached\",\"id\":\"" ID
            "\",\"result\":" RESULT(ID, "\"status\":\"queued\"") "}}" } },
    };

    assert_int_equal(SCRIPTED(calls, "run", "--detach", "-c", "1"), 0);
    assert_string_equal(read_file(STDOUT), ID "\n");
    assert_string_equal(read_file(STDERR), "");
    assert_int_equal(SCRIPTED(calls, "run", "-d", "--json", "-c", "1"), 0);
    _cleanup_json_ json_object *object = printed_object();
    assert_string_equal(member(object, "status"), "queued");
    assert_int_equal(SBXCTL("run", "--detach", "-o", "d", "-c", "1"), 64);
}

static void who_is_at_the_quota_is_told_what_to_remove(void **state)
{
    static const struct scripted_call calls[] = {
        { "Run",
          { "{\"error\":\"io.sbxctl.Sandbox.QuotaExceeded\",\"parameters\":{\"reason\":\"your runs "
            "take 10 GiB, and that is all you may have\",\"hint\":\"sbxctl rm " ID "\",\"what\":"
            "\"bytes\",\"used\":10,\"limit\":10}}" } },
    };

    assert_int_equal(SCRIPTED(calls, "run", "-c", "1"), 125);
    assert_string_equal(read_file(STDERR),
                        "sbxctl: your runs take 10 GiB, and that is all you may have\n"
                        "sbxctl: sbxctl rm " ID "\n");
}

#define LIMITS "{\"network\":\"none\",\"memoryBytes\":1,\"cpuPercent\":1,\"timeoutUSec\":1}"

static void policy_tells_what_is_kept_and_how_long(void **state)
{
    static const struct scripted_call calls[] = {
        { "GetPolicy",
          { "{\"parameters\":{\"defaults\":" LIMITS ",\"ceiling\":" LIMITS
            ",\"engine\":\"systemd\","
            "\"results\":{\"maxAgeUSec\":2592000000000,\"runsMax\":1000,\"bytesMax\":10737418240,"
            "\"filesMax\":100000,\"removesOldest\":false,\"runs\":12,\"bytes\":1048576,"
            "\"files\":40}}}" } },
    };

    assert_int_equal(SCRIPTED(calls, "policy"), 0);
    assert_non_null(strstr(read_file(STDOUT), "results that are kept\n"
                                              "runs         12 of 1000\n"
                                              "size         1 MiB of 10 GiB\n"
                                              "files        40 of 100000\n"
                                              "removed      30 d after their end\n"
                                              "when full    the next run is refused\n"));
}

static void run_of_which_nothing_is_kept_cannot_be_copied(void **state)
{
    static const struct scripted_call calls[] = {
        { "Run",
          { FINISHED(ID, SUCCEEDED ",\"hint\":\"Its outputs could not be saved: no disk\"") } },
    };

    assert_int_equal(SCRIPTED(calls, "run", "-o", "d", "-c", "1"), 125);
    assert_string_equal(read_file(STDERR),
                        "sbxctl: Its outputs could not be saved: no disk\n"
                        "sbxctl: nothing of the run was kept, so nothing was copied\n");
}

#define T(name) cmocka_unit_test_setup_teardown(name, enter_scratch, leave_scratch)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(logs_pass_each_stream_to_its_own),
        T(logs_go_on_where_they_were_when_the_helper_comes_back),
        T(gap_in_the_logs_is_told),
        T(logs_without_follow_end_with_what_is_there),
        T(logs_as_json_have_a_line_for_each_piece),
        T(wait_ends_as_run_would_have),
        T(wait_for_several_ends_as_the_first_that_went_wrong),
        T(wait_gives_up_on_a_helper_that_stays_away),
        T(stop_cancels_all_and_waits_for_them),
        T(stop_can_kill),
        T(mark_is_either_accepted_or_rejected),
        T(all_that_ended_can_be_removed_at_once),
        T(beginning_of_an_id_is_looked_for_on_all_pages),
        T(beginning_of_several_ids_lists_them),
        T(ps_tells_where_the_next_page_begins),
        T(detached_run_prints_its_id_alone),
        T(who_is_at_the_quota_is_told_what_to_remove),
        T(policy_tells_what_is_kept_and_how_long),
        T(run_of_which_nothing_is_kept_cannot_be_copied),
    };

    if (!getenv("SBXCTL_PROGRAM")) {
        fprintf(stderr, "SBXCTL_PROGRAM is not set\n");
        return 1;
    }
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
