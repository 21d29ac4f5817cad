/* The audit records of a run. Which fields go into which event is told here, and in sbxctl.catalog.
 */
#include "broker/policy-network.h"
#include "broker/policy-packages.h"
#include "broker/run-internal.h"
#include "broker/secret.h"

#include <stdio.h>
#include <string.h>

static void add_identity(struct audit_record *record, struct run *run)
{
    /* Six records and more ask for it, and each answer is read from files, or comes by a network.
     */
    if (!run->user)
        run->user = audit_user_name(run->uid);
    audit_add(record, "RUN_ID", run->id);
    audit_add_u64(record, "UID", run->uid);
    audit_add(record, "USER", run->user);
    audit_add_i64(record, "PID", run->pid);
    audit_add(record, "SESSION", run->session);
    audit_add(record, "UNIT", run->unit);
}

/* journald throws an entry away that has more than 1024 fields (ENTRY_FIELD_COUNT_MAX). */
#define RESOLVED_MAX 800

/* What was asked for, each a value of the field PACKAGES. All of them fit: PACKAGES_MAX times
 * PACKAGE_TEXT_MAX are 26 KiB. */
static void add_packages(struct audit_record *record, const struct run *run)
{
    for (size_t i = 0; i < run->plan.n_packages; i++)
        audit_add(record, "PACKAGES", run->plan.packages[i].text);
}

static void add_request(struct audit_record *record, const struct run *run)
{
    char hosts[POLICY_HOSTS_TEXT];

    audit_add(record, "ENGINE", run->plan.engine);
    audit_add(record, "LANGUAGE", run->plan.language->name);
    audit_add(record, "SCRIPT_NAME", run->request.script_name);
    audit_add(record, "SCRIPT_SHA256", run->request.script_sha256);
    audit_add(record, "REQUEST_SHA256", run->request.sha256);
    audit_add(record, "NETWORK", run->plan.limits.network ? "internet" : "none");
    if (run->plan.limits.network)
        audit_add(record, "HOSTS", policy_hosts_text(&run->plan, hosts));
    add_packages(record, run);
    audit_add_u64(record, "MEMORY", run->plan.limits.memory_bytes);
    audit_add_u64(record, "CPUS", run->plan.limits.cpu_percent);
    audit_add_u64(record, "TIMEOUT", run->plan.limits.timeout_usec);
}

/* The script's arguments, one field, escaped and capped, without what seems to be a credential; an
 * administrator can turn it off. */
static void add_arguments(struct audit_record *record, const struct run *run)
{
    char text[AUDIT_VALUE_MAX + 1] = "";
    size_t used = 0;

    if (!run->manager->config.audit_arguments || run->request.n_arguments == 0)
        return;
    for (size_t i = 0; i < run->request.n_arguments && used < sizeof(text); i++) {
        _cleanup_free_ char *shown = secret_mask(run->request.arguments[i]);
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s", i ? " " : "",
                                 shown ? shown : "?");
    }
    audit_add(record, "ARGV", text);
}

static int send_request(struct run *run)
{
    struct audit_record record;

    audit_record_init(&record, AUDIT_REQUEST);
    add_identity(&record, run);
    add_request(&record, run);
    add_arguments(&record, run);
    return audit_send(run->manager->audit, &record);
}

int run_audit_request(struct run *run)
{
    run->held_back = !audit_quota_take(run->manager->quota, run->uid);
    return run->held_back ? 0 : send_request(run);
}

/* One record for the whole decision; each action that it is about is a value of the field ACTION.
 */
static int send_decision(struct run *run, unsigned approvals, const char *action,
                         const char *decision)
{
    struct audit_record record;

    audit_record_init(&record, AUDIT_DECISION);
    add_identity(&record, run);
    add_request(&record, run);
    /* All were given without one when no action decided (approve.h). */
    if (strcmp(decision, "allowed") == 0)
        audit_add(&record, "APPROVAL", action ? "dialog" : "policy");
    while (approvals != 0) {
        const char *part = authorize_action(approval_take(&approvals));

        audit_add(&record, "ACTION", part);
        if (action && strcmp(action, part) == 0)
            action = NULL;
    }
    audit_add(&record, "ACTION", action);
    audit_add(&record, "DECISION", decision);
    return audit_send(run->manager->audit, &record);
}

int run_audit_decision(struct run *run, unsigned approvals, const char *action,
                       const char *decision)
{
    if (!run->held_back)
        return send_decision(run, approvals, action, decision);
    run->held_decision.approvals = approvals;
    run->held_decision.action = action;
    run->held_decision.decision = decision;
    return 0;
}

static int make_up_for_held_back(struct run *run)
{
    int r = send_request(run);

    return r < 0 || !run->held_decision.decision
               ? r
               : send_decision(run, run->held_decision.approvals, run->held_decision.action,
                               run->held_decision.decision);
}

int run_audit_start(struct run *run)
{
    struct audit_record record;
    bool held_back = run->held_back;
    int r;

    audit_quota_give_back(run->manager->quota, run->uid, held_back);
    run->held_back = false;
    r = held_back ? make_up_for_held_back(run) : 0;
    if (r < 0)
        return r;
    audit_record_init(&record, AUDIT_START);
    add_identity(&record, run);
    add_request(&record, run);
    audit_add(&record, "SANDBOX_ID", run->sandbox_id[0] ? run->sandbox_id : NULL);
    return audit_send(run->manager->audit, &record);
}

static void add_usage(struct audit_record *record, const struct run *run)
{
    const struct facts *facts = &run->facts;

    audit_add(record, "WARM", run->interpreter_warm ? "interpreter" : run->warm ? "sandbox" : "no");
    if (run->go_usec != 0)
        audit_add_u64(record, "WALL_USEC", run->end_usec - run->go_usec);
    if (facts_cpu_usec(facts) != UINT64_MAX)
        audit_add_u64(record, "CPU_USEC", facts_cpu_usec(facts));
    if (run_cloud_usec(run) != UINT64_MAX)
        audit_add_u64(record, "CLOUD_USEC", run_cloud_usec(run));
    if (facts->have_ended && facts->ended.memory_peak_bytes != UINT64_MAX)
        audit_add_u64(record, "MEMORY_PEAK", facts->ended.memory_peak_bytes);
    if (run->streams[0])
        audit_add_u64(record, "STDOUT_BYTES", stream_bytes(run->streams[0]));
    if (run->streams[1])
        audit_add_u64(record, "STDERR_BYTES", stream_bytes(run->streams[1]));
}

int run_audit_end(struct run *run)
{
    struct audit_record record;

    if (run->held_back)
        return 0;
    audit_record_init(&record, AUDIT_END);
    add_identity(&record, run);
    add_request(&record, run);
    audit_add(&record, "SANDBOX_ID", run->sandbox_id[0] ? run->sandbox_id : NULL);
    audit_add(&record, "IMAGE", run->image[0] ? run->image : NULL);
    audit_add(&record, "IMAGE_DIGEST", run->image_digest[0] ? run->image_digest : NULL);
    audit_add(&record, "RESULT", run_status_name(run->outcome.status));
    if (run->outcome.status != RUN_SUCCEEDED)
        audit_add(&record, "REASON", run->outcome.reason);
    if (run->outcome.have_exit_code)
        audit_add_i64(&record, "EXIT_CODE", run->outcome.exit_code);
    if (run->outcome.signal != 0)
        audit_add(&record, "SIGNAL", sigabbrev_np(run->outcome.signal));
    add_usage(&record, run);
    return audit_tell(run->manager->audit, &record);
}

int run_audit_connection(struct run *run, const struct egress_connection *connection)
{
    struct audit_record record;

    audit_record_init(&record, AUDIT_CONNECTION);
    add_identity(&record, run);
    audit_add(&record, "HOST", connection->name);
    audit_add(&record, "ADDRESS", connection->address[0] ? connection->address : NULL);
    audit_add_u64(&record, "PORT", connection->port);
    audit_add(&record, "PROTOCOL", egress_service_name(connection->service));
    audit_add(&record, "VERDICT", egress_verdict_name(connection->verdict));
    audit_add(&record, "RULE", connection->rule[0] ? connection->rule : NULL);
    audit_add_u64(&record, "BYTES_SENT", connection->bytes_sent);
    audit_add_u64(&record, "BYTES_RECEIVED", connection->bytes_received);
    audit_add_u64(&record, "DURATION_USEC", connection->duration_usec);
    return audit_tell(run->manager->audit, &record);
}

int run_audit_network(struct run *run, const char *verdict, const char *rule)
{
    struct audit_record record;
    uint64_t unrecorded = run->network.told.unrecorded + run->network.unrecorded;

    audit_record_init(&record, AUDIT_CONNECTION);
    add_identity(&record, run);
    audit_add(&record, "VERDICT", verdict);
    audit_add(&record, "RULE", rule);
    if (unrecorded > 0)
        audit_add_u64(&record, "CONNECTIONS", unrecorded);
    return audit_tell(run->manager->audit, &record);
}

int run_audit_saved(struct run *run, int error)
{
    struct audit_record record;
    json_object *files = NULL, *bytes = NULL;

    audit_record_init(&record, AUDIT_SAVED);
    add_identity(&record, run);
    audit_add(&record, "RESULT", error < 0 ? strerrordesc_np(-error) : "saved");
    if (run->collected) {
        if (json_object_object_get_ex(run->collected, "files", &files))
            audit_add_u64(&record, "FILES", json_object_array_length(files));
        if (json_object_object_get_ex(run->collected, "bytes", &bytes))
            audit_add_u64(&record, "FILE_BYTES", json_object_get_uint64(bytes));
    }
    return audit_tell(run->manager->audit, &record);
}

/* What came, each a value of the field PACKAGE; as many as fit. */
static void add_resolved(struct audit_record *record, json_object *resolved)
{
    size_t n = resolved ? json_object_array_length(resolved) : 0;
    char text[AUDIT_VALUE_MAX];

    for (size_t i = 0; i < n; i++) {
        json_object *package = json_object_array_get_idx(resolved, i);
        const char *hash = json_get_string(package, "hash");
        if (i == RESOLVED_MAX || record->size > AUDIT_RECORD_MAX - 4096) {
            audit_add_u64(record, "MORE_PACKAGES", n - i);
            return;
        }
        snprintf(text, sizeof(text), "%s==%s %s", json_get_string(package, "name"),
                 json_get_string(package, "version"), hash ? hash : "");
        audit_add(record, "PACKAGE", text);
    }
}

int run_audit_packages(struct run *run, const struct run_packages_record *packages)
{
    struct audit_record record;

    audit_record_init(&record, AUDIT_PACKAGES);
    add_identity(&record, run);
    audit_add(&record, "ENGINE", run->plan.engine);
    audit_add(&record, "LAYER", packages->key);
    audit_add(&record, "RESULT", packages->outcome);
    audit_add_u64(&record, "DURATION_USEC", packages->usec);
    if (packages->bytes > 0)
        audit_add_u64(&record, "LAYER_BYTES", packages->bytes);
    add_packages(&record, run);
    add_resolved(&record, packages->resolved);
    return audit_tell(run->manager->audit, &record);
}

void run_audit_begin_cleanup(struct run *run, struct audit_record *ret)
{
    audit_record_init(ret, AUDIT_CLEANUP);
    add_identity(ret, run);
    audit_add(ret, "ENGINE", run->plan.engine);
    audit_add(ret, "SANDBOX_ID", run->sandbox_id[0] ? run->sandbox_id : NULL);
}

int run_audit_end_cleanup(struct audit *audit, struct audit_record *record, bool cleaned)
{
    audit_add(record, "RESULT", cleaned ? "removed" : "not confirmed");
    return audit_tell(audit, record);
}

int run_audit_cleanup(struct run *run, bool cleaned)
{
    struct audit_record record;

    run_audit_begin_cleanup(run, &record);
    return run_audit_end_cleanup(run->manager->audit, &record, cleaned);
}
