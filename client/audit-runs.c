/* From records to runs, see audit-runs.h. */
#include "client/audit-runs.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "client/result.h"
#include "common/cleanup.h"
#include "common/clock.h"

/* Between a dialog's end and the helper's record of the decision. */
#define DIALOG_USEC (10 * USEC_PER_SEC)

struct audit_runs {
    json_object *list;  /* in order */
    json_object *by_id; /* the same objects */
};

struct audit_runs *audit_runs_new(void)
{
    struct audit_runs *runs = calloc(1, sizeof(*runs));

    if (!runs)
        return NULL;
    runs->list = json_object_new_array();
    runs->by_id = json_object_new_object();
    if (runs->list && runs->by_id)
        return runs;
    audit_runs_free(runs);
    return NULL;
}

void audit_runs_free(struct audit_runs *runs)
{
    if (!runs)
        return;
    json_object_put(runs->list);
    json_object_put(runs->by_id);
    free(runs);
}

json_object *audit_runs_list(struct audit_runs *runs)
{
    return runs->list;
}

/* The run's object, a new one if it is the first that is heard of it; NULL out of memory. */
static json_object *run_of(struct audit_runs *runs, const char *id)
{
    json_object *run = json_object_object_get(runs->by_id, id);

    if (run)
        return run;
    run = json_object_new_object();
    if (json_add_string(run, "id", id) < 0 || json_add(runs->by_id, id, run) < 0 ||
        json_append(runs->list, json_object_get(run)) < 0)
        return NULL;
    return run;
}

/* ---- Verdicts ---- */

static bool is_alive(int64_t pid)
{
    char path[64], name[32] = "";

    if (pid <= 0)
        return false;
    snprintf(path, sizeof(path), "/proc/%" PRId64 "/comm", pid);
    FILE *f = fopen(path, "re");
    if (!f)
        return false;
    bool is = fgets(name, sizeof(name), f) && strcmp(name, "sbxctl-helper\n") == 0;
    fclose(f);
    return is;
}

static const char *verdict_of_start(json_object *record)
{
    return is_alive(json_object_get_int64(json_object_object_get(record, "helperPid")))
               ? "running"
               : "unfinished";
}

static const char *verdict_of_decision(json_object *record)
{
    const char *decision = json_get_string(record, "decision");

    return decision && strcmp(decision, "allowed") == 0 ? "waiting" : "denied";
}

/* ---- Records ---- */

/* Members of a record that are about the record, or that mean another thing in each event. */
static bool is_own(const char *member)
{
    static const char *const names[] = { "timeUSec", "event", "runId", "result", "helperPid" };

    for (size_t i = 0; i < ELEMENTS(names); i++)
        if (strcmp(names[i], member) == 0)
            return true;
    return false;
}

/* Later records have the say, and say the same. */
static int take_members(json_object *run, json_object *record)
{
    int r = 0;

    json_object_object_foreach(record, member, value)
    {
        if (r >= 0 && !is_own(member))
            r = json_add(run, member, json_object_get(value));
    }
    return r;
}

static int set_time(json_object *run, const char *member, json_object *record)
{
    return json_add(run, member, json_object_get(json_object_object_get(record, "timeUSec")));
}

static int set_verdict(json_object *run, const char *verdict)
{
    return json_add_string(run, "verdict", verdict);
}

static int take_end(json_object *run, json_object *record)
{
    const char *result = json_get_string(record, "result");
    int r = take_members(run, record);

    r = r < 0 ? r : set_time(run, "endedUSec", record);
    return r < 0 || !result ? r : set_verdict(run, result);
}

/* Who it was, which the run tells already. */
static bool is_known(json_object *run, const char *member, json_object *value)
{
    json_object *known = json_object_object_get(run, member);

    return strcmp(member, "event") == 0 || strcmp(member, "runId") == 0 ||
           (known && json_object_equal(known, value) && strcmp(member, "timeUSec") != 0 &&
            strcmp(member, "verdict") != 0);
}

/* The rest of the record, as a member or in a list of the run. */
static int take_part(json_object *run, const char *member, json_object *record, bool is_list)
{
    _cleanup_json_ json_object *part = json_object_new_object();
    json_object *list = json_object_object_get(run, member);
    int r = part ? 0 : -ENOMEM;

    json_object_object_foreach(record, name, value)
    {
        if (r >= 0 && !is_known(run, name, value))
            r = json_add(part, name, json_object_get(value));
    }
    if (r < 0 || !is_list)
        return r < 0 ? r : json_add(run, member, TAKE_PTR(part));
    if (!list) {
        list = json_object_new_array();
        r = json_add(run, member, list);
    }
    return r < 0 ? r : json_append(list, TAKE_PTR(part));
}

static int take(json_object *run, const char *event, json_object *record)
{
    int r;

    if (strcmp(event, "request") == 0 || strcmp(event, "rejected") == 0) {
        r = take_members(run, record);
        r = r < 0 ? r : set_time(run, "requestedUSec", record);
        return r < 0 ? r : set_verdict(run, event[2] == 'q' ? "waiting" : "rejected");
    }
    if (strcmp(event, "decision") == 0) {
        r = take_members(run, record);
        r = r < 0 ? r : set_time(run, "decidedUSec", record);
        return r < 0 ? r : set_verdict(run, verdict_of_decision(record));
    }
    if (strcmp(event, "start") == 0) {
        r = take_members(run, record);
        r = r < 0 ? r : set_time(run, "startedUSec", record);
        return r < 0 ? r : set_verdict(run, verdict_of_start(record));
    }
    if (strcmp(event, "end") == 0)
        return take_end(run, record);
    if (strcmp(event, "marked") == 0)
        return json_add_string(run, "mark", json_get_string(record, "verdict"));
    if (strcmp(event, "connection") == 0)
        return take_part(run, "connections", record, true);
    if (strcmp(event, "packages") == 0)
        return take_part(run, "installation", record, false);
    return take_part(run, event, record, false);
}

int audit_runs_add(struct audit_runs *runs, json_object *record)
{
    const char *event = json_get_string(record, "event");
    const char *id = json_get_string(record, "runId");
    json_object *run;

    if (!event)
        return 0;
    if (id) {
        run = run_of(runs, id);
    } else if (strcmp(event, "rejected") == 0) {
        /* It never became a run, and has no id. */
        run = json_object_new_object();
        if (json_append(runs->list, run) < 0)
            return -ENOMEM;
    } else {
        return 0;
    }
    if (!run)
        return -ENOMEM;
    int r = 0;
    if (!json_object_object_get_ex(run, "timeUSec", NULL))
        r = set_time(run, "timeUSec", record);
    return r < 0 ? r : take(run, event, record);
}

/* ---- What the helper lists ---- */

static int copy(json_object *run, const char *to, json_object *object, const char *from)
{
    json_object *value = json_object_object_get(object, from);
    return value ? json_add(run, to, json_object_get(value)) : 0;
}

static int copy_all(json_object *run, json_object *object, const char *const (*names)[2], size_t n)
{
    int r = 0;

    for (size_t i = 0; r >= 0 && i < n; i++)
        r = copy(run, names[i][0], object, names[i][1]);
    return r;
}

static int copy_hosts(json_object *run, json_object *list, const char *verdict)
{
    size_t n = list ? json_object_array_length(list) : 0;
    int r = 0;

    for (size_t i = 0; r >= 0 && i < n; i++) {
        static const char *const names[][2] = {
            { "host", "name" },           { "port", "port" },
            { "rule", "rule" },           { "connections", "connections" },
            { "bytesSent", "bytesSent" }, { "bytesReceived", "bytesReceived" },
        };
        _cleanup_json_ json_object *host = json_object_new_object();
        r = json_add_string(host, "verdict", verdict);
        r = r < 0 ? r : copy(host, "timeUSec", run, "timeUSec");
        r = r < 0 ? r : copy_all(host, json_object_array_get_idx(list, i), names, ELEMENTS(names));
        json_object *all = json_object_object_get(run, "connections");
        if (r >= 0 && !all) {
            all = json_object_new_array();
            r = json_add(run, "connections", all);
        }
        r = r < 0 ? r : json_append(all, TAKE_PTR(host));
    }
    return r;
}

int audit_runs_add_result(struct audit_runs *runs, json_object *result, uint32_t uid,
                          const char *user)
{
    static const char *const members[][2] = {
        { "verdict", "status" },
        { "reason", "reason" },
        { "exitCode", "exitCode" },
        { "signal", "signal" },
        { "engine", "engine" },
        { "image", "image" },
        { "imageDigest", "imageDigest" },
        { "sandboxId", "sandboxId" },
        { "language", "language" },
        { "scriptName", "scriptName" },
        { "scriptSha256", "scriptSha256" },
        { "requestSha256", "requestSha256" },
        { "timeUSec", "startedUSec" },
        { "startedUSec", "startedUSec" },
        { "endedUSec", "endedUSec" },
        { "mark", "verdict" },
    };
    static const char *const limits[][2] = {
        { "network", "network" },       { "memoryBytes", "memoryBytes" },
        { "cpuPercent", "cpuPercent" }, { "timeoutUSec", "timeoutUSec" },
        { "hosts", "networkNames" },
    };
    static const char *const used[][2] = {
        { "wallUSec", "wallUSec" },
        { "cpuUSec", "cpuUSec" },
        { "cloudUSec", "cloudUSec" },
        { "memoryPeakBytes", "memoryPeakBytes" },
    };
    const char *id = json_get_string(result, "id");
    json_object *run = id ? run_of(runs, id) : NULL;
    json_object *use = json_object_object_get(result, "networkUse");

    if (!run)
        return id ? -ENOMEM : 0;
    int r = json_add_uint64(run, "uid", uid);
    r = r < 0 ? r : json_add_string(run, "user", user);
    r = r < 0 ? r : copy_all(run, result, members, ELEMENTS(members));
    r = r < 0 ? r
              : copy_all(run, json_object_object_get(result, "policy"), limits, ELEMENTS(limits));
    r = r < 0 ? r : copy_all(run, json_object_object_get(result, "usage"), used, ELEMENTS(used));
    r = r < 0 ? r : copy_hosts(run, json_object_object_get(use, "hosts"), "allowed");
    return r < 0 ? r : copy_hosts(run, json_object_object_get(use, "refusedHosts"), "refused");
}

/* ---- Who approved ---- */

/* The word after @words, which *@text has to begin with; it ends before one of @end. Returns a new
 * string and moves on, or NULL. */
static char *word_after(const char **text, const char *words, const char *end)
{
    if (strncmp(*text, words, strlen(words)) != 0)
        return NULL;
    const char *at = *text + strlen(words);
    size_t length = strcspn(at, end);
    *text = at + length;
    return strndup(at, length);
}

/* The run whose decision followed a dialog that ended at @at: what a process asks for besides is
 * decided soon after, too, and nobody was asked about that. NULL if there is none. */
static json_object *find_decided(struct audit_runs *runs, int64_t pid, uint64_t at)
{
    json_object *found = NULL;
    uint64_t nearest = at + DIALOG_USEC;

    for (size_t i = 0; i < json_object_array_length(runs->list); i++) {
        json_object *run = json_object_array_get_idx(runs->list, i);
        const char *approval = json_get_string(run, "approval");
        uint64_t decided = json_get_number(run, "decidedUSec");

        if (!approval || strcmp(approval, "dialog") != 0 || decided < at || decided >= nearest ||
            json_object_get_int64(json_object_object_get(run, "pid")) != pid)
            continue;
        found = run;
        nearest = decided;
    }
    return found;
}

/* "Operator of unix-session:1 successfully authenticated as unix-user:alice to gain ONE-SHOT
 * authorization for action io.sbxctl.run-resources for unix-process:213:4711 [...] (owned by
 * unix-user:alice)": polkit_backend_interactive_authority.c, the same from 0.105 to 126. It is read
 * from its beginning, word by word, since the command line in brackets is the caller's to choose.
 */
int audit_runs_add_dialog(struct audit_runs *runs, json_object *record)
{
    const char *message = json_get_string(record, "message");
    uint64_t at = json_object_get_uint64(json_object_object_get(record, "timeUSec"));

    if (!message)
        return 0;
    _cleanup_free_ char *operator= word_after(&message, "Operator of ", " ");
    _cleanup_free_ char *by =
        word_after(&message, " successfully authenticated as unix-user:", " ");
    _cleanup_free_ char *kind = word_after(&message, " to gain ", " ");
    _cleanup_free_ char *action = word_after(&message, " authorization for action ", " ");
    _cleanup_free_ char *process = word_after(&message, " for unix-process:", ": ");
    if (!operator|| !by || !kind || !action || !process || strncmp(action, "io.sbxctl.", 10) != 0)
        return 0;
    json_object *run = find_decided(runs, strtoll(process, NULL, 10), at);
    return run ? json_add_string(run, "approvedBy", by) : 0;
}
