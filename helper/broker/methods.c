/* The methods of io.sbxctl.Sandbox, see methods.h and the interface text. */
#include "broker/methods.h"
#include "broker/attach.h"
#include "broker/authorize.h"
#include "broker/digest.h"
#include "broker/egress.h"
#include "broker/engines-reply.h"
#include "broker/engines.h"
#include "broker/layers-reply.h"
#include "broker/methods-runs.h"
#include "broker/plan-reply.h"
#include "broker/policy-reply.h"
#include "broker/pull.h"
#include "broker/result.h"
#include "broker/run-cloud.h"
#include "broker/run-queue.h"
#include "broker/run.h"

#include <stdio.h>

#include "io.sbxctl.Sandbox.h"

/* ---- Run ---- */

/* A request that policy does not even put to polkit is recorded, too, within limits. */
static void audit_rejected(struct varlink_call *call, struct manager *manager, const char *field,
                           const char *reason)
{
    const struct peer *peer = varlink_call_peer(call);
    struct audit_record record;

    if (!audit_quota_take(manager->quota, peer->uid))
        return;
    audit_record_init(&record, AUDIT_REJECTED);
    audit_add_user(&record, peer->uid);
    audit_add_i64(&record, "PID", peer->pid);
    audit_add(&record, "FIELD", field);
    audit_add(&record, "REASON", reason);
    (void)audit_tell(manager->audit, &record);
}

static int refuse_by_policy(struct varlink_call *call, struct manager *manager,
                            const struct refusal *refusal)
{
    json_object *fields = json_object_new_object();

    audit_rejected(call, manager, refusal->field, refusal->reason);
    (void)json_add_string(fields, "field", refusal->field);
    (void)json_add_string(fields, "reason", refusal->reason);
    if (refusal->kind == REFUSAL_ABOVE_CEILING) {
        (void)json_add_uint64(fields, "requested", refusal->requested);
        (void)json_add_uint64(fields, "ceiling", refusal->ceiling);
        return varlink_error(call, "io.sbxctl.Sandbox.AboveCeiling", fields);
    }
    if (refusal->hint[0])
        (void)json_add_string(fields, "hint", refusal->hint);
    if (refusal->line > 0)
        (void)json_add_uint64(fields, "line", refusal->line);
    if (refusal->kind == REFUSAL_SECRETS)
        return varlink_error(call, "io.sbxctl.Sandbox.SecretsFound", fields);
    return varlink_error(call, "io.sbxctl.Sandbox.Rejected", fields);
}

static int refuse_by_form(struct varlink_call *call, struct manager *manager,
                          const struct request_error *error)
{
    json_object *fields;

    audit_rejected(call, manager, error->field, error->reason);
    if (error->reason[0] == '\0')
        return varlink_error_invalid_parameter(call, error->field);
    fields = json_object_new_object();
    (void)json_add_string(fields, "field", error->field);
    (void)json_add_string(fields, "reason", error->reason);
    return varlink_error(call, "io.sbxctl.Sandbox.Rejected", fields);
}

/* Policy knows what a name looks like, not which there are. */
static int admit_engine(const struct config *config, const struct plan *plan,
                        struct refusal *refusal)
{
    char hint[sizeof(refusal->hint)] =
        "Have the administrator enable one: systemctl enable --now sbxctl-engine-systemd.socket";

    if (engine_exists(plan->engine))
        return 0;
    _cleanup_free_ char *others = engines_text(plan->engine, config->cloud_engines);
    if (others && *others)
        snprintf(hint, sizeof(hint), "Use --engine with one of: %s.", others);
    return refusal_reject(refusal, "engine", hint, "There is no engine '%s' on this machine.",
                          plan->engine);
}

/* The same for the way to an index of packages. */
static int admit_packages(const struct config *config, const struct plan *plan,
                          struct refusal *refusal)
{
    if (plan->n_packages == 0 || egress_exists() ||
        config_packages_index(&config->packages, plan->ecosystem)->is_directory)
        return 0;
    *refusal = (struct refusal){
        .kind = REFUSAL_REJECTED,
        .field = "packages",
        .reason = "This machine has no way for sandboxes to an index of packages.",
        .hint = "Have the administrator enable it: systemctl enable --now sbxctl-egress.socket",
    };
    return -EPERM;
}

static int admit_network(const struct plan *plan, struct refusal *refusal)
{
    if (!plan->egress || egress_exists())
        return 0;
    return refusal_reject(
        refusal, "network",
        "Have the administrator enable it: systemctl enable --now sbxctl-egress.socket",
        "This machine has no network for sandboxes.");
}

static int method_run(struct varlink_call *call, struct manager *manager)
{
    struct request request;
    struct request_error error;
    struct refusal refusal;
    struct plan plan;
    int r;

    if (manager->stopping) {
        result_answer_failed(call, "The helper is being stopped.");
        return 0;
    }
    r = request_parse(call, &request, &error);
    if (r == -EINVAL)
        return refuse_by_form(call, manager, &error);
    if (r < 0)
        return r;
    r = policy_apply(&manager->config, &request, &plan, &refusal);
    if (r >= 0) {
        r = admit_engine(&manager->config, &plan, &refusal);
        if (r >= 0)
            r = admit_network(&plan, &refusal);
        if (r >= 0)
            r = admit_packages(&manager->config, &plan, &refusal);
        if (r >= 0)
            r = run_queue_admit(&manager->config, &plan, &refusal);
        if (r >= 0)
            r = run_cloud_admit(manager, varlink_call_peer(call)->uid, &plan, &refusal);
        if (r >= 0)
            r = request_digest(&request, &plan);
        if (r < 0)
            plan_release(&plan);
    }
    if (r < 0) {
        request_release(&request);
        return r == -EPERM ? refuse_by_policy(call, manager, &refusal) : r;
    }
    if (request.dry_run)
        plan_reply(manager, call, &request, &plan);
    else
        run_begin(manager, call, &request, &plan);
    return 0;
}

/* ---- What this machine offers ---- */

static int method_get_policy(struct varlink_call *call, struct manager *manager)
{
    return policy_reply(manager, call);
}

static int method_get_engines(struct varlink_call *call, struct manager *manager)
{
    return engines_reply(manager, call);
}

static int method_pull_image(struct varlink_call *call, struct manager *manager)
{
    return pull_begin(manager, call);
}

static int method_list_layers(struct varlink_call *call, struct manager *manager)
{
    return layers_reply_list(manager, call);
}

static int method_remove_layer(struct varlink_call *call, struct manager *manager)
{
    return layers_reply_remove(manager, call);
}

/* ---- Dispatch ---- */

#define METHOD(function, method_name)                                          \
    static int vl_##function(struct varlink_call *call, void *userdata)        \
    {                                                                          \
        /* A method that nobody wrote into the table stays closed. */          \
        if (authorize_method(method_name) == AUTHORIZE_REFUSE)                 \
            return varlink_error(call, VARLINK_ERROR_PERMISSION_DENIED, NULL); \
        return method_##function(call, userdata);                              \
    }
METHOD(run, "Run")
METHOD(attach, "Attach")
METHOD(list, "List")
METHOD(describe, "Describe")
METHOD(cancel, "Cancel")
METHOD(remove, "Remove")
METHOD(remove_all, "RemoveAll")
METHOD(mark, "Mark")
METHOD(read, "Read")
METHOD(get_policy, "GetPolicy")
METHOD(get_engines, "GetEngines")
METHOD(pull_image, "PullImage")
METHOD(list_layers, "ListLayers")
METHOD(remove_layer, "RemoveLayer")

static const struct varlink_method methods[] = {
    { "Run", vl_run, VARLINK_METHOD_TAKES_FDS },
    { "Attach", vl_attach, 0 },
    { "List", vl_list, 0 },
    { "Describe", vl_describe, 0 },
    { "Cancel", vl_cancel, 0 },
    { "Remove", vl_remove, 0 },
    { "RemoveAll", vl_remove_all, 0 },
    { "Mark", vl_mark, 0 },
    { "Read", vl_read, 0 },
    { "GetPolicy", vl_get_policy, 0 },
    { "GetEngines", vl_get_engines, 0 },
    { "PullImage", vl_pull_image, 0 },
    { "ListLayers", vl_list_layers, 0 },
    { "RemoveLayer", vl_remove_layer, 0 },
};

const struct varlink_interface sandbox_interface = {
    .name = "io.sbxctl.Sandbox",
    .description = sandbox_interface_text,
    .methods = methods,
    .n_methods = ELEMENTS(methods),
};
