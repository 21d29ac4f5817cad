/* sbxctl audit: what was recorded about runs, from the journal for those who may read it; for
 * others about their own, from the helper. */
#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "client/audit-journal.h"
#include "client/audit-options.h"
#include "client/audit-runs.h"
#include "client/audit-usage.h"
#include "client/exit-status.h"
#include "client/helper.h"
#include "client/runs.h"
#include "client/say.h"

static inline void audit_journal_closep(struct audit_journal **journal)
{
    audit_journal_close(*journal);
}

static inline void audit_runs_freep(struct audit_runs **runs)
{
    audit_runs_free(*runs);
}
#define _cleanup_journal_ _cleanup_(audit_journal_closep)
#define _cleanup_runs_ _cleanup_(audit_runs_freep)

static int fail_journal(int r)
{
    if (r == -EACCES)
        return say_failure(EXIT_DENIED, "MayNotRead",
                           "try it as root, or in the group systemd-journal",
                           "you may not read the journal, which alone tells that");
    if (r == -ESRCH)
        return say_failure(EXIT_OURS, "Failed", "as root, try: systemd-sysusers",
                           "this machine has no user sbxctl, whose records are to be read");
    return say_failure_errno(r, "cannot read the journal");
}

static struct audit_selection selection_of(const struct audit_options *options)
{
    return (struct audit_selection){ .since_usec = options->since_usec,
                                     .until_usec = options->until_usec };
}

/* ---- Records ---- */

static int print_line(json_object *record, const struct audit_options *options)
{
    if (options->json)
        return print_json(record);
    audit_show_line(record);
    return print_end();
}

static int follow(const struct audit_options *options)
{
    struct audit_selection selection = selection_of(options);
    _cleanup_journal_ struct audit_journal *journal = NULL;

    selection.events = options->events[0] ? options->events : NULL;
    int r = audit_journal_open(&selection, &journal);
    if (r >= 0 && options->since_usec == 0)
        r = audit_journal_seek_end(journal);
    while (r >= 0) {
        _cleanup_json_ json_object *record = NULL;
        r = audit_journal_next(journal, &record);
        if (r == 0)
            r = audit_journal_wait(journal);
        else if (r > 0 && audit_filter_takes_record(&options->filter, record) &&
                 print_line(record, options) != 0)
            return EXIT_OURS;
    }
    return fail_journal(r);
}

/* All records of a sender that the filter takes, as an array. */
static int read_records(const struct audit_options *options, enum audit_sender sender,
                        json_object **ret)
{
    struct audit_selection selection = selection_of(options);
    _cleanup_journal_ struct audit_journal *journal = NULL;
    _cleanup_json_ json_object *list = json_object_new_array();

    selection.sender = sender;
    selection.events = options->events[0] ? options->events : NULL;
    int r = list ? audit_journal_open(&selection, &journal) : -ENOMEM;
    while (r >= 0) {
        _cleanup_json_ json_object *record = NULL;
        r = audit_journal_next(journal, &record);
        if (r == 0) {
            *ret = TAKE_PTR(list);
            return 0;
        }
        if (r > 0 && audit_filter_takes_record(&options->filter, record))
            r = json_append(list, json_object_get(record));
    }
    return r;
}

/* ---- Runs ---- */

static int read_from(enum audit_sender sender, const struct audit_options *options,
                     struct audit_runs *runs)
{
    struct audit_selection selection = { .sender = sender, .since_usec = options->since_usec };
    _cleanup_journal_ struct audit_journal *journal = NULL;
    int r = audit_journal_open(&selection, &journal);

    while (r >= 0) {
        _cleanup_json_ json_object *record = NULL;
        r = audit_journal_next(journal, &record);
        if (r == 0)
            return 0;
        if (r > 0)
            r = sender == AUDIT_FROM_POLKIT ? audit_runs_add_dialog(runs, record)
                                            : audit_runs_add(runs, record);
    }
    return r;
}

/* Only those of the caller. */
static int read_own_runs(struct audit_runs *runs)
{
    _cleanup_client_ struct varlink_client *client = NULL;
    _cleanup_json_ json_object *list = NULL;
    const struct passwd *user = getpwuid(getuid());
    int r = helper_connect(&client);

    r = r != 0 ? r : runs_list(client, false, RUNS_ALL, NULL, &list, NULL);
    if (r != 0)
        return r;
    for (size_t i = json_object_array_length(list); r >= 0 && i > 0; i--)
        r = audit_runs_add_result(runs, json_object_array_get_idx(list, i - 1), getuid(),
                                  user ? user->pw_name : NULL);
    return r < 0 ? say_failure_errno(r, "cannot list the runs") : 0;
}

/* Which of a table's rows are of interest. */
static bool belongs(enum audit_view view, json_object *run)
{
    const char *verdict = json_get_string(run, "verdict");

    if (!verdict)
        return view == AUDIT_RUNS || view == AUDIT_HOSTS;
    switch (view) {
    case AUDIT_APPROVALS:
        return json_get_string(run, "decision") != NULL;
    case AUDIT_FAILURES:
        return strcmp(verdict, "succeeded") != 0 && strcmp(verdict, "running") != 0 &&
               strcmp(verdict, "waiting") != 0;
    case AUDIT_UNFINISHED:
        return strcmp(verdict, "unfinished") == 0 || strcmp(verdict, "running") == 0;
    case AUDIT_INSTALLED:
        return json_object_object_get_ex(run, "installation", NULL);
    case AUDIT_RIGHTS:
        return json_object_object_get_ex(run, "memoryBytes", NULL);
    case AUDIT_RUNS:
    case AUDIT_HOSTS:
    case AUDIT_EVENTS:
    case AUDIT_FORGED:
        break;
    }
    return true;
}

static bool is_in_time(const struct audit_options *options, json_object *run)
{
    uint64_t at = json_object_get_uint64(json_object_object_get(run, "timeUSec"));

    return at >= options->since_usec && (options->until_usec == 0 || at <= options->until_usec);
}

/* A row of its own, with what it takes to know whose it is. */
static int add_connections(json_object *rows, json_object *run, const struct audit_filter *filter)
{
    json_object *list = json_object_object_get(run, "connections");
    int r = 0;

    for (size_t i = 0; r >= 0 && list && i < json_object_array_length(list); i++) {
        static const char *const members[] = { "id", "uid", "user", "engine" };
        json_object *connection = json_object_array_get_idx(list, i);
        if (!audit_filter_takes_connection(filter, connection))
            continue;
        json_object *row = json_object_new_object();
        r = json_append(rows, row);
        for (size_t k = 0; r >= 0 && k < ELEMENTS(members); k++) {
            json_object *value = json_object_object_get(run, members[k]);
            r = value ? json_add(row, members[k], json_object_get(value)) : 0;
        }
        json_object_object_foreach(connection, name, value)
        {
            r = r < 0 ? r : json_add(row, name, json_object_get(value));
        }
    }
    return r;
}

static int select_rows(const struct audit_options *options, json_object *list, json_object **ret)
{
    _cleanup_json_ json_object *rows = json_object_new_array();
    int r = rows ? 0 : -ENOMEM;

    for (size_t i = 0; r >= 0 && i < json_object_array_length(list); i++) {
        json_object *run = json_object_array_get_idx(list, i);
        if (!is_in_time(options, run) || !audit_filter_takes_run(&options->filter, run) ||
            !belongs(options->view, run))
            continue;
        r = options->view == AUDIT_HOSTS ? add_connections(rows, run, &options->filter)
                                         : json_append(rows, json_object_get(run));
    }
    if (r >= 0)
        *ret = TAKE_PTR(rows);
    return r;
}

/* ---- Showing ---- */

static int show(const struct audit_options *options, json_object *rows)
{
    _cleanup_json_ json_object *object = NULL;

    if (!options->json && json_object_array_length(rows) == 0) {
        say("there is nothing like that on record");
        return 0;
    }
    if (!options->json)
        return audit_show_table(options->view, rows);
    object = json_object_new_object();
    if (json_add(object,
                 options->view == AUDIT_HOSTS    ? "connections"
                 : options->view >= AUDIT_EVENTS ? "records"
                                                 : "runs",
                 json_object_get(rows)) < 0)
        return say_failure_errno(-ENOMEM, "cannot show the records");
    return print_json(object);
}

static int show_records(const struct audit_options *options)
{
    _cleanup_json_ json_object *rows = NULL;
    int r = read_records(
        options, options->view == AUDIT_FORGED ? AUDIT_FROM_OTHERS : AUDIT_FROM_HELPER, &rows);

    return r < 0 ? fail_journal(r) : show(options, rows);
}

/* Whether a user's own runs, as the helper knows them, can answer that. */
static bool is_told_by_helper(const struct audit_options *options)
{
    return options->view != AUDIT_APPROVALS && options->view != AUDIT_INSTALLED;
}

/* Everything about runs, from where the caller may have it. Returns 0, or an exit status. */
static int collect(const struct audit_options *options, struct audit_runs *runs)
{
    int r = read_from(AUDIT_FROM_HELPER, options, runs);

    if (r >= 0)
        r = read_from(AUDIT_FROM_POLKIT, options, runs);
    if (r != -EACCES || !is_told_by_helper(options))
        return r < 0 ? fail_journal(r) : 0;
    r = read_own_runs(runs);
    if (r == 0)
        say_warning("these are your own runs, as far as they are kept; to read the journal takes "
                    "root or the group systemd-journal");
    return r;
}

static int show_runs(const struct audit_options *options)
{
    _cleanup_runs_ struct audit_runs *runs = audit_runs_new();
    _cleanup_json_ json_object *rows = NULL;

    if (!runs)
        return say_failure_errno(-ENOMEM, "cannot read the journal");
    int r = collect(options, runs);
    if (r != 0)
        return r;
    r = select_rows(options, audit_runs_list(runs), &rows);
    return r < 0 ? say_failure_errno(r, "cannot show the records") : show(options, rows);
}

/* ---- Sums ---- */

static bool ended_in_time(const struct audit_options *options, json_object *run)
{
    json_object *ended = json_object_object_get(run, "endedUSec");
    uint64_t at = json_object_get_uint64(ended);

    return ended && at >= options->since_usec &&
           (options->until_usec == 0 || at <= options->until_usec);
}

static int add_usage(struct audit_usage *usage, json_object *run)
{
    const char *mark = json_get_string(run, "mark"), *id = json_get_string(run, "id");
    json_object *uid = json_object_object_get(run, "uid");
    int r = audit_usage_add(usage, run);

    if (r < 0 || !mark || !id || !uid)
        return r;
    return audit_usage_mark(usage, id, (uint32_t)json_object_get_int64(uid), mark);
}

static int show_usage(const struct audit_options *options)
{
    _cleanup_(audit_usage_release) struct audit_usage usage = {};
    _cleanup_runs_ struct audit_runs *runs = audit_runs_new();
    int r = runs ? collect(options, runs) : say_failure_errno(-ENOMEM, "cannot read the journal");

    if (r != 0)
        return r;
    json_object *list = audit_runs_list(runs);
    for (size_t i = 0; r >= 0 && i < json_object_array_length(list); i++) {
        json_object *run = json_object_array_get_idx(list, i);
        if (ended_in_time(options, run) && audit_filter_takes_run(&options->filter, run))
            r = add_usage(&usage, run);
    }
    r = r < 0 ? r : audit_usage_finish(&usage);
    if (r < 0)
        return say_failure_errno(r, "cannot sum up the records");
    return options->json ? audit_usage_print_json(&usage) : audit_usage_print_table(&usage);
}

int verb_audit(const struct verb *verb, int argc, char **argv)
{
    struct audit_options options;
    int r;

    if (!audit_options_read(verb, argc, argv, &options, &r))
        return r;
    say_mode.json = options.json;
    if (options.follow)
        return follow(&options);
    if (options.usage)
        return show_usage(&options);
    return options.view >= AUDIT_EVENTS ? show_records(&options) : show_runs(&options);
}
