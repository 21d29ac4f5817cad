/* What a caller does with its runs, see methods-runs.h: the methods that wait for nobody. */
#include "broker/methods-runs.h"
#include "broker/audit.h"
#include "broker/keeper.h"
#include "broker/result.h"
#include "broker/run.h"

#include <string.h>

struct parameters {
    const char *id, *verdict;
    bool kill;
};

#define AT(member) offsetof(struct parameters, member)
static const struct json_field describe_fields[] = {
    { "id", JSON_FIELD_STRING, AT(id), true, 0, 64 },
};

static const struct json_field cancel_fields[] = {
    { "id", JSON_FIELD_STRING, AT(id), true, 0, 64 },
    { "kill", JSON_FIELD_BOOL, AT(kill), false, 0, 0 },
};

static const struct json_field mark_fields[] = {
    { "id", JSON_FIELD_STRING, AT(id), true, 0, 64 },
    { "verdict", JSON_FIELD_STRING, AT(verdict), true, 0, 16 },
};
#undef AT

int methods_answer_id(struct varlink_call *call, const char *error, const char *id)
{
    json_object *fields = json_object_new_object();

    (void)json_add_string(fields, "id", id);
    return varlink_error(call, error, fields);
}

int methods_find_run(struct varlink_call *call, struct manager *manager, const char *id,
                     const struct index_entry **ret_entry, struct run **ret_run)
{
    uid_t uid = varlink_call_peer(call)->uid;

    *ret_run = run_find(manager, id, uid);
    *ret_entry = index_get_owned(manager->index, id, uid);
    if (!*ret_run && !*ret_entry)
        return methods_answer_id(call, "io.sbxctl.Sandbox.NoSuchRun", id);
    return 1;
}

/* The same by the parameters of @call. */
static int find_run(struct varlink_call *call, struct manager *manager,
                    const struct json_field *fields, size_t n_fields, struct parameters *parameters,
                    const struct index_entry **ret_entry, struct run **ret_run)
{
    const char *bad;

    if (json_dispatch(varlink_call_parameters(call), fields, n_fields, false, parameters, &bad) < 0)
        return varlink_error_invalid_parameter(call, bad);
    return methods_find_run(call, manager, parameters->id, ret_entry, ret_run);
}

int method_describe(struct varlink_call *call, struct manager *manager)
{
    struct parameters parameters = { 0 };
    _cleanup_json_ json_object *result = NULL;
    const struct index_entry *entry;
    json_object *reply;
    struct run *run;
    int r = find_run(call, manager, describe_fields, ELEMENTS(describe_fields), &parameters, &entry,
                     &run);

    if (r <= 0)
        return r;
    result = run ? run_live_result(run) : index_read_result(manager->index, entry->id);
    if (!result)
        return -EIO;
    reply = json_object_new_object();
    r = keeper_add_expiry(manager, result);
    if (r >= 0)
        r = json_add(reply, "result", json_object_get(result));
    if (r < 0) {
        json_object_put(reply);
        return r;
    }
    return varlink_reply(call, reply);
}

int method_cancel(struct varlink_call *call, struct manager *manager)
{
    struct parameters parameters = { 0 };
    const struct index_entry *entry;
    struct run *run;
    int r =
        find_run(call, manager, cancel_fields, ELEMENTS(cancel_fields), &parameters, &entry, &run);

    if (r <= 0)
        return r;
    r = varlink_reply(call, NULL);
    if (run)
        run_cancel(run, parameters.kill);
    return r;
}

static int audit_mark(struct varlink_call *call, struct manager *manager,
                      const struct index_entry *entry, const char *verdict)
{
    const struct peer *peer = varlink_call_peer(call);
    struct audit_record record;

    audit_record_init(&record, AUDIT_MARKED);
    audit_add(&record, "RUN_ID", entry->id);
    audit_add_user(&record, peer->uid);
    audit_add_i64(&record, "PID", peer->pid);
    audit_add(&record, "VERDICT", verdict);
    return audit_send(manager->audit, &record);
}

/* The caller's run.json stays as it was written: it is the caller's, and may be anything now. */
int method_mark(struct varlink_call *call, struct manager *manager)
{
    struct parameters parameters = { 0 };
    _cleanup_json_ json_object *result = NULL;
    const struct index_entry *entry;
    const char *earlier;
    struct run *run;
    int r = find_run(call, manager, mark_fields, ELEMENTS(mark_fields), &parameters, &entry, &run);

    if (r <= 0)
        return r;
    if (strcmp(parameters.verdict, "accepted") != 0 && strcmp(parameters.verdict, "rejected") != 0)
        return varlink_error_invalid_parameter(call, "verdict");
    if (run)
        return methods_answer_id(call, "io.sbxctl.Sandbox.RunActive", parameters.id);
    result = index_read_result(manager->index, entry->id);
    if (!result)
        return -EIO;
    earlier = json_get_string(result, "verdict");
    if (earlier && strcmp(earlier, parameters.verdict) == 0)
        return varlink_reply(call, NULL);
    if (audit_mark(call, manager, entry, parameters.verdict) < 0 &&
        manager->config.audit_required) {
        json_object *fields = json_object_new_object();
        (void)json_add_string(fields, "reason",
                              "The journal took no record of the verdict, so it was not noted.");
        return varlink_error(call, "io.sbxctl.Sandbox.AuditUnavailable", fields);
    }
    r = json_add_string(result, "verdict", parameters.verdict);
    if (r >= 0)
        r = index_put(manager->index, entry->id, entry->uid, entry->created_usec, true, result);
    if (r >= 0)
        r = index_sync(manager->index);
    return r < 0 ? r : varlink_reply(call, NULL);
}
