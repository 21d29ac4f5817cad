/* What sbxctl audit makes of records: runs, sums, who approved. The journal itself is the
 * functional tests' (tests/functional/test_audit_command.py). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "client/audit-filter.h"
#include "client/audit-journal.h"
#include "client/audit-runs.h"
#include "client/audit-usage.h"
#include "client/audit-words.h"
#include "common/json.h"

static json_object *parse(const char *text)
{
    json_object *object = NULL;

    assert_int_equal(json_parse_guarded(text, strlen(text), &object), 0);
    return object;
}

static void add(struct audit_runs *runs, const char *text)
{
    _cleanup_json_ json_object *record = parse(text);
    assert_int_equal(audit_runs_add(runs, record), 0);
}

static void add_dialog(struct audit_runs *runs, const char *message)
{
    _cleanup_json_ json_object *record = parse("{\"timeUSec\":100}");

    assert_int_equal(json_add_string(record, "message", message), 0);
    assert_int_equal(audit_runs_add_dialog(runs, record), 0);
}

static int setup(void **state)
{
    *state = audit_runs_new();
    return *state ? 0 : -1;
}

static int teardown(void **state)
{
    audit_runs_free(*state);
    return 0;
}

static json_object *run_at(struct audit_runs *runs, size_t i)
{
    return json_object_array_get_idx(audit_runs_list(runs), i);
}

static const char *verdict(struct audit_runs *runs, size_t i)
{
    return json_get_string(run_at(runs, i), "verdict");
}

static void verdict_follows_the_records_of_a_run(void **state)
{
    struct audit_runs *runs = *state;

    add(runs, "{\"event\":\"request\",\"runId\":\"a\",\"timeUSec\":1,\"user\":\"alice\"}");
    assert_string_equal(verdict(runs, 0), "waiting");
    add(runs, "{\"event\":\"decision\",\"runId\":\"a\",\"timeUSec\":2,\"decision\":\"denied\"}");
    assert_string_equal(verdict(runs, 0), "denied");
    add(runs, "{\"event\":\"request\",\"runId\":\"b\",\"timeUSec\":3}");
    add(runs, "{\"event\":\"decision\",\"runId\":\"b\",\"timeUSec\":4,\"decision\":\"allowed\"}");
    assert_string_equal(verdict(runs, 1), "waiting");
    add(runs, "{\"event\":\"start\",\"runId\":\"b\",\"timeUSec\":5,\"helperPid\":0}");
    assert_string_equal(verdict(runs, 1), "unfinished");
    add(runs,
        "{\"event\":\"saved\",\"runId\":\"b\",\"timeUSec\":6,\"result\":\"saved\",\"files\":2}");
    assert_string_equal(verdict(runs, 1), "unfinished");
    add(runs, "{\"event\":\"end\",\"runId\":\"b\",\"timeUSec\":7,\"result\":\"timed-out\"}");
    assert_string_equal(verdict(runs, 1), "timed-out");
    add(runs, "{\"event\":\"marked\",\"runId\":\"b\",\"timeUSec\":8,\"verdict\":\"accepted\"}");
    assert_string_equal(verdict(runs, 1), "timed-out");
    assert_string_equal(json_get_string(run_at(runs, 1), "mark"), "accepted");
    assert_int_equal(json_object_array_length(audit_runs_list(runs)), 2);
}

static void process_of_another_name_does_not_make_a_run_run(void **state)
{
    add(*state, "{\"event\":\"start\",\"runId\":\"a\",\"timeUSec\":1,\"helperPid\":1}");
    assert_string_equal(verdict(*state, 0), "unfinished");
}

static void connections_keep_their_own_verdict(void **state)
{
    add(*state, "{\"event\":\"start\",\"runId\":\"a\",\"timeUSec\":1,\"user\":\"alice\"}");
    add(*state, "{\"event\":\"connection\",\"runId\":\"a\",\"timeUSec\":2,\"user\":\"alice\","
                "\"verdict\":\"allowed\",\"host\":\"pypi.org\",\"port\":443}");
    add(*state, "{\"event\":\"connection\",\"runId\":\"a\",\"timeUSec\":3,\"verdict\":\"refused\","
                "\"host\":\"bad.example\",\"port\":80,\"rule\":\"DeniedNames=bad.example\"}");
    json_object *list = json_object_object_get(run_at(*state, 0), "connections");
    assert_int_equal(json_object_array_length(list), 2);
    json_object *second = json_object_array_get_idx(list, 1);
    assert_string_equal(json_get_string(second, "verdict"), "refused");
    assert_null(json_object_object_get(json_object_array_get_idx(list, 0), "user"));
    _cleanup_free_ char *host = audit_words_host(second);
    assert_string_equal(host, "bad.example:80 (DeniedNames=bad.example)");
    struct audit_filter filter = { .host = "*.pypi.org" };
    assert_false(audit_filter_takes_run(&filter, run_at(*state, 0)));
    filter.host = "PYPI.*";
    assert_true(audit_filter_takes_run(&filter, run_at(*state, 0)));
}

#define DIALOG(pid)                                                                        \
    "Operator of unix-session:1 successfully authenticated as unix-user:carol to gain "    \
    "ONE-SHOT authorization for action io.sbxctl.run-network for unix-process:" pid ":47 " \
    "[sbxctl run x] (owned by unix-user:alice)"

static void add_decision(struct audit_runs *runs, const char *id, unsigned usec, int pid,
                         const char *approval)
{
    char text[256];

    snprintf(text, sizeof(text),
             "{\"event\":\"decision\",\"runId\":\"%s\",\"timeUSec\":%u,\"pid\":%d,"
             "\"decision\":\"%s\",\"approval\":\"%s\"}",
             id, usec, pid, *approval ? "allowed" : "denied", approval);
    add(runs, text);
}

static void polkit_names_who_approved(void **state)
{
    add_decision(*state, "a", 90, 12, "dialog"); /* before the dialog */
    add_decision(*state, "b", 110, 12, "dialog");
    add_decision(*state, "c", 120, 13, "dialog");
    add_dialog(*state, DIALOG("12"));
    assert_null(json_get_string(run_at(*state, 0), "approvedBy"));
    assert_string_equal(json_get_string(run_at(*state, 1), "approvedBy"), "carol");
    assert_null(json_get_string(run_at(*state, 2), "approvedBy"));
}

static void what_else_a_process_asked_for_was_not_approved_by_anybody(void **state)
{
    add_decision(*state, "a", 105, 12, "policy");
    add_decision(*state, "b", 106, 12, "");
    add_decision(*state, "c", 110, 12, "dialog");
    add_decision(*state, "d", 120, 12, "dialog"); /* by a later one */
    add_decision(*state, "e", 130, 12, "policy");
    add_dialog(*state, DIALOG("12"));
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(json_get_string(run_at(*state, i), "approvedBy") != NULL, i == 2);
}

/* The caller chooses its command line, which polkit repeats. */
static void command_line_in_polkits_words_names_nobody(void **state)
{
    add_decision(*state, "a", 110, 12, "dialog");
    add_dialog(*state,
               "Operator of unix-session:1 FAILED to authenticate to gain authorization for "
               "action io.sbxctl.run-network for unix-process:12:47 [sbxctl run x "
               "successfully authenticated as unix-user:root ] (owned by "
               "unix-user:alice)");
    add_dialog(*state, "x " DIALOG("12"));
    assert_null(json_get_string(run_at(*state, 0), "approvedBy"));
}

static void cost_of_an_accepted_task_holds_all_attempts(void **state)
{
    struct audit_usage usage = {};
    _cleanup_json_ json_object *one = parse("{\"uid\":7,\"user\":\"eve\",\"wallUSec\":10,"
                                            "\"cpuUSec\":4,\"cloudUSec\":100}");
    _cleanup_json_ json_object *never_ran = parse("{\"uid\":7,\"cpuUSec\":1000}");

    for (int i = 0; i < 4; i++)
        assert_int_equal(audit_usage_add(&usage, one), 0);
    assert_int_equal(audit_usage_add(&usage, never_ran), 0);
    assert_int_equal(audit_usage_mark(&usage, "a", 7, "rejected"), 0);
    assert_int_equal(audit_usage_mark(&usage, "a", 7, "accepted"), 0);
    assert_int_equal(audit_usage_mark(&usage, "b", 7, "accepted"), 0);
    assert_int_equal(audit_usage_mark(&usage, "c", 7, "rejected"), 0);
    assert_int_equal(audit_usage_finish(&usage), 0);
    assert_int_equal(usage.n, 1);
    assert_int_equal(usage.users[0].runs, 4);
    assert_int_equal(usage.users[0].cpu_usec, 16);
    assert_int_equal(usage.users[0].cloud_usec, 400);
    assert_int_equal(usage.users[0].accepted, 2);
    assert_int_equal(usage.users[0].rejected, 1);
    audit_usage_release(&usage);
}

static void words_of_odd_records_are_no_crash(void **state)
{
    static const char *const records[] = {
        "{}",
        "{\"event\":\"end\"}",
        "{\"event\":\"held-back\",\"heldBack\":\"x\"}",
        "{\"event\":\"connection\",\"port\":[],\"verdict\":1}",
        "{\"event\":\"decision\",\"actions\":[]}",
        "{\"event\":\"decision\",\"actions\":\"x\"}",
        "{\"event\":\"packages\",\"packages\":[1,null]}",
        "{\"sender\":5}",
    };
    for (size_t i = 0; i < ELEMENTS(records); i++) {
        _cleanup_json_ json_object *record = parse(records[i]);
        _cleanup_free_ char *text = audit_words_record(record), *who = audit_words_sender(record);
        _cleanup_free_ char *claim = audit_words_claim(record);
        assert_non_null(text);
        assert_string_equal(who, "somebody");
        assert_non_null(claim);
    }
}

/* Anybody can write fields that begin with SBXCTL_. */
static void field_of_a_forger_changes_no_members_meaning(void **state)
{
    static const char *const fields[] = {
        "SBXCTL_ACTIONS=x",    "SBXCTL_ACTION=io.sbxctl.run",
        "SBXCTL_TIME_USEC=9",  "SBXCTL_RESOLVED=x",
        "SBXCTL_PACKAGE=a 1",  "SBXCTL_EVENT=end",
        "SBXCTL_SENDER=root",  "SBXCTL_MESSAGE=x",
        "SBXCTL_HELPER_PID=1", "SBXCTL_SCRIPT_NAME=s.py",
    };
    _cleanup_json_ json_object *record = parse("{\"timeUSec\":5,\"event\":\"decision\"}");

    for (size_t i = 0; i < ELEMENTS(fields); i++)
        assert_int_equal(audit_journal_add_datum(record, fields[i], strlen(fields[i])), 0);
    assert_string_equal(json_text(record, NULL),
                        "{\"timeUSec\":5,\"event\":\"decision\",\"actions\":[\"io.sbxctl.run\"],"
                        "\"resolved\":[\"a 1\"],\"scriptName\":\"s.py\"}");
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(verdict_follows_the_records_of_a_run),
        T(process_of_another_name_does_not_make_a_run_run),
        T(connections_keep_their_own_verdict),
        T(polkit_names_who_approved),
        T(what_else_a_process_asked_for_was_not_approved_by_anybody),
        T(command_line_in_polkits_words_names_nobody),
        T(cost_of_an_accepted_task_holds_all_attempts),
        T(words_of_odd_records_are_no_crash),
        T(field_of_a_forger_changes_no_members_meaning),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
