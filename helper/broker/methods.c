/* The methods of io.sbxctl.Sandbox, see methods.h and the interface text. */
#include "broker/methods.h"
#include "broker/authorize.h"
#include "broker/digest.h"
#include "broker/egress.h"
#include "broker/engines-reply.h"
#include "broker/engines.h"
#include "broker/layers-reply.h"
#include "broker/plan-reply.h"
#include "broker/policy-reply.h"
#include "broker/pull.h"
#include "broker/result.h"
#include "broker/run.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "io.sbxctl.Sandbox.h"

#define LIST_MAX 100
#define READ_MAX (512 * 1024)
/* A list waits for its caller above this, far from what the connection bears. */
#define LIST_PENDING_MAX (256 * 1024)

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
    audit_add_u64(&record, "UID", peer->uid);
    audit_add_i64(&record, "PID", peer->pid);
    audit_add(&record, "FIELD", field);
    audit_add(&record, "REASON", reason);
    (void)audit_send(manager->audit, &record);
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
static int admit_engine(const struct plan *plan, struct refusal *refusal)
{
    _cleanup_free_ char *others = NULL;

    if (engine_exists(plan->engine))
        return 0;
    others = engines_text(plan->engine);
    *refusal = (struct refusal){ .kind = REFUSAL_REJECTED, .field = "engine" };
    snprintf(refusal->reason, sizeof(refusal->reason), "There is no engine '%s' on this machine.",
             plan->engine);
    if (others && *others)
        snprintf(refusal->hint, sizeof(refusal->hint), "Use --engine with one of: %s.", others);
    else
        snprintf(refusal->hint, sizeof(refusal->hint),
                 "Have the administrator enable one: systemctl enable --now "
                 "sbxctl-engine-systemd.socket");
    return -EPERM;
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
    *refusal = (struct refusal){
        .kind = REFUSAL_REJECTED,
        .field = "network",
        .reason = "This machine has no network for sandboxes.",
        .hint = "Have the administrator enable it: systemctl enable --now sbxctl-egress.socket",
    };
    return -EPERM;
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
        r = admit_engine(&plan, &refusal);
        if (r >= 0)
            r = admit_network(&plan, &refusal);
        if (r >= 0)
            r = admit_packages(&manager->config, &plan, &refusal);
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

/* ---- Runs of the caller ---- */

struct id_parameters {
    const char *id, *name;
    uint64_t offset, length;
};

static const struct json_field id_fields[] = {
    { "id", JSON_FIELD_STRING, offsetof(struct id_parameters, id), true, 0, 64 },
};

static const struct json_field read_fields[] = {
    { "id", JSON_FIELD_STRING, offsetof(struct id_parameters, id), true, 0, 64 },
    { "name", JSON_FIELD_STRING, offsetof(struct id_parameters, name), true, 0, 64 * 1024 },
    { "offset", JSON_FIELD_UINT64, offsetof(struct id_parameters, offset), false, 0, INT64_MAX },
    { "length", JSON_FIELD_UINT64, offsetof(struct id_parameters, length), false, 1, READ_MAX },
};

static int answer_id(struct varlink_call *call, const char *error, const char *id)
{
    json_object *fields = json_object_new_object();

    (void)json_add_string(fields, "id", id);
    return varlink_error(call, error, fields);
}

/* Finds the caller's run by the parameter "id". Returns 1 with @ret_entry or @ret_run (or both)
 * set, or what answering with an error returned (0 or negative). */
static int find_run(struct varlink_call *call, struct manager *manager,
                    const struct json_field *fields, size_t n_fields,
                    struct id_parameters *parameters, const struct index_entry **ret_entry,
                    struct run **ret_run)
{
    uid_t uid = varlink_call_peer(call)->uid;
    const char *bad;

    if (json_dispatch(varlink_call_parameters(call), fields, n_fields, false, parameters, &bad) < 0)
        return varlink_error_invalid_parameter(call, bad);
    *ret_run = run_find(manager, parameters->id, uid);
    *ret_entry = index_get_owned(manager->index, parameters->id, uid);
    if (!*ret_run && !*ret_entry)
        return answer_id(call, "io.sbxctl.Sandbox.NoSuchRun", parameters->id);
    return 1;
}

struct lister {
    struct varlink_call *call;
    struct manager *manager;
    uid_t uid;
    json_object *runs;
};

static bool list_one(const struct index_entry *entry, void *userdata)
{
    struct lister *lister = userdata;
    struct run *run;
    _cleanup_json_ json_object *result = NULL;

    if (entry->uid != lister->uid)
        return true;
    run = run_find(lister->manager, entry->id, entry->uid);
    result = run ? run_live_result(run) : json_object_get(entry->result);
    if (result)
        json_object_array_add(lister->runs, result_without_output(result));
    return varlink_call_wants_more(lister->call) ||
           json_object_array_length(lister->runs) < LIST_MAX;
}

/* A list that goes out run by run, as fast as its caller reads. */
struct listing {
    struct varlink_call *call;
    json_object *runs;
    size_t next;
};

static void listing_free(struct listing *listing)
{
    varlink_call_on_gone(listing->call, NULL, NULL);
    varlink_call_on_drained(listing->call, NULL, NULL);
    varlink_call_unref(listing->call);
    json_object_put(listing->runs);
    free(listing);
}

/* Frees the listing with the last answer, or when its caller is gone. */
static void listing_send(struct listing *listing)
{
    size_t n = json_object_array_length(listing->runs);
    int r = 0;

    while (r >= 0 && listing->next < n &&
           varlink_call_pending_output(listing->call) < LIST_PENDING_MAX) {
        json_object *reply = json_object_new_object();

        (void)json_add(reply, "run",
                       json_object_get(json_object_array_get_idx(listing->runs, listing->next)));
        r = ++listing->next < n ? varlink_notify(listing->call, reply, NULL, 0)
                                : varlink_reply(listing->call, reply);
    }
    if (r < 0 || listing->next == n)
        listing_free(listing);
}

static void on_lister_drained(struct varlink_call *call, void *userdata)
{
    listing_send(userdata);
}

static void on_lister_gone(struct varlink_call *call, void *userdata)
{
    listing_free(userdata);
}

static int listing_start(struct varlink_call *call, json_object *runs)
{
    struct listing *listing = calloc(1, sizeof(*listing));

    if (!listing)
        return -ENOMEM;
    listing->call = varlink_call_ref(call);
    listing->runs = json_object_get(runs);
    varlink_call_on_gone(call, on_lister_gone, listing);
    varlink_call_on_drained(call, on_lister_drained, listing);
    listing_send(listing);
    return 0;
}

static int method_list(struct varlink_call *call, struct manager *manager)
{
    struct lister lister = { .call = call,
                             .manager = manager,
                             .uid = varlink_call_peer(call)->uid,
                             .runs = json_object_new_array() };
    _cleanup_json_ json_object *runs = lister.runs;
    json_object *reply = NULL;
    const char *bad;

    if (json_dispatch(varlink_call_parameters(call), NULL, 0, false, NULL, &bad) < 0)
        return varlink_error_invalid_parameter(call, bad);
    if (!runs)
        return -ENOMEM;
    index_foreach(manager->index, list_one, &lister);
    if (!varlink_call_wants_more(call)) {
        reply = json_object_new_object();
        (void)json_add(reply, "runs", json_object_get(runs));
        return varlink_reply(call, reply);
    }
    return json_object_array_length(runs) == 0 ? varlink_reply(call, NULL)
                                               : listing_start(call, runs);
}

static int method_describe(struct varlink_call *call, struct manager *manager)
{
    struct id_parameters parameters = { 0 };
    const struct index_entry *entry;
    json_object *reply;
    struct run *run;
    int r = find_run(call, manager, id_fields, ELEMENTS(id_fields), &parameters, &entry, &run);

    if (r <= 0)
        return r;
    reply = json_object_new_object();
    r = json_add(reply, "result",
                 run ? run_live_result(run) : index_read_result(manager->index, entry->id));
    if (r < 0) {
        json_object_put(reply);
        return r;
    }
    return varlink_reply(call, reply);
}

static int method_cancel(struct varlink_call *call, struct manager *manager)
{
    struct id_parameters parameters = { 0 };
    const struct index_entry *entry;
    struct run *run;
    int r = find_run(call, manager, id_fields, ELEMENTS(id_fields), &parameters, &entry, &run);

    if (r <= 0)
        return r;
    r = varlink_reply(call, NULL);
    if (run)
        run_cancel(run);
    return r;
}

/* A call that waits for the store. */
struct store_call {
    struct manager *manager;
    struct varlink_call *call;
    struct store_job *job;
    char *id, *name;
    uint64_t offset, length;
};

static void store_call_free(struct store_call *wait)
{
    varlink_call_on_gone(wait->call, NULL, NULL);
    varlink_call_unref(wait->call);
    store_job_free(wait->job);
    free(wait->id);
    free(wait->name);
    free(wait);
}

static void on_store_caller_gone(struct varlink_call *call, void *userdata)
{
    store_call_free(userdata);
}

static struct store_call *store_call_new(struct manager *manager, struct varlink_call *call,
                                         const struct id_parameters *parameters)
{
    struct store_call *wait = calloc(1, sizeof(*wait));

    if (!wait)
        return NULL;
    wait->manager = manager;
    wait->call = varlink_call_ref(call);
    wait->offset = parameters->offset;
    wait->length = parameters->length;
    wait->id = strdup(parameters->id);
    wait->name = parameters->name ? strdup(parameters->name) : NULL;
    if (!wait->id || (parameters->name && !wait->name)) {
        store_call_free(wait);
        return NULL;
    }
    return wait;
}

static void on_removed(int error, json_object *result, int fd, void *userdata)
{
    struct store_call *wait = userdata;

    close_fd(fd);
    /* The caller may have removed the directory already. */
    if (error < 0 && error != -ENOENT) {
        result_answer_failed(wait->call, strerrordesc_np(-error));
    } else {
        (void)index_remove(wait->manager->index, wait->id);
        (void)varlink_reply(wait->call, NULL);
    }
    store_call_free(wait);
}

static int method_remove(struct varlink_call *call, struct manager *manager)
{
    struct id_parameters parameters = { 0 };
    const struct index_entry *entry;
    struct store_call *wait;
    struct run *run;
    int r = find_run(call, manager, id_fields, ELEMENTS(id_fields), &parameters, &entry, &run);

    if (r <= 0)
        return r;
    if (run)
        return answer_id(call, "io.sbxctl.Sandbox.RunActive", parameters.id);
    wait = store_call_new(manager, call, &parameters);
    if (!wait)
        return -ENOMEM;
    r = store_remove(manager->store, entry->uid, entry->id, on_removed, wait, &wait->job);
    if (r < 0)
        store_call_free(wait);
    /* A removal goes on when its caller hangs up: half a directory helps nobody. */
    return r;
}

static int read_part(int fd, uint64_t offset, uint64_t length, json_object **ret)
{
    _cleanup_free_ unsigned char *bytes = malloc(length);
    _cleanup_free_ unsigned char *text = malloc(length / 3 * 4 + 8);
    _cleanup_json_ json_object *reply = json_object_new_object();
    struct stat st;
    ssize_t n;

    if (!bytes || !text || !reply)
        return -ENOMEM;
    if (fstat(fd, &st) < 0)
        return -errno;
    n = pread(fd, bytes, length, (off_t)offset);
    if (n < 0)
        return -errno;
    EVP_EncodeBlock(text, bytes, (int)n);
    if (json_add_string(reply, "data", (char *)text) < 0 ||
        json_add_uint64(reply, "bytes", (uint64_t)st.st_size) < 0)
        return -ENOMEM;
    *ret = TAKE_PTR(reply);
    return 0;
}

static void on_opened(int error, json_object *result, int fd, void *userdata)
{
    struct store_call *wait = userdata;
    json_object *reply = NULL;

    if (error >= 0)
        error = read_part(fd, wait->offset, wait->length, &reply);
    close_fd(fd);
    if (error == -ENOENT || error == -EPERM || error == -EINVAL) {
        json_object *fields = json_object_new_object();
        (void)json_add_string(fields, "name", wait->name);
        (void)varlink_error(wait->call, "io.sbxctl.Sandbox.NoSuchFile", fields);
    } else if (error < 0) {
        result_answer_failed(wait->call, strerrordesc_np(-error));
    } else {
        (void)varlink_reply(wait->call, reply);
    }
    store_call_free(wait);
}

static int method_read(struct varlink_call *call, struct manager *manager)
{
    struct id_parameters parameters = { .length = READ_MAX };
    _cleanup_free_ char *path = NULL;
    const struct index_entry *entry;
    struct store_call *wait;
    struct run *run;
    bool stream;
    int r = find_run(call, manager, read_fields, ELEMENTS(read_fields), &parameters, &entry, &run);

    if (r <= 0)
        return r;
    if (run)
        return answer_id(call, "io.sbxctl.Sandbox.RunActive", parameters.id);
    stream = strcmp(parameters.name, "stdout") == 0 || strcmp(parameters.name, "stderr") == 0 ||
             strcmp(parameters.name, "script") == 0;
    if (asprintf(&path, "%s%s", stream ? "" : "files/", parameters.name) < 0)
        return -ENOMEM;
    wait = store_call_new(manager, call, &parameters);
    if (!wait)
        return -ENOMEM;
    r = store_open(manager->store, entry->uid, entry->id, path, on_opened, wait, &wait->job);
    if (r < 0)
        store_call_free(wait);
    else
        varlink_call_on_gone(call, on_store_caller_gone, wait);
    return r;
}

/* ---- What this machine offers ---- */

static int method_get_policy(struct varlink_call *call, struct manager *manager)
{
    const char *bad;

    if (json_dispatch(varlink_call_parameters(call), NULL, 0, false, NULL, &bad) < 0)
        return varlink_error_invalid_parameter(call, bad);
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
METHOD(list, "List")
METHOD(describe, "Describe")
METHOD(cancel, "Cancel")
METHOD(remove, "Remove")
METHOD(read, "Read")
METHOD(get_policy, "GetPolicy")
METHOD(get_engines, "GetEngines")
METHOD(pull_image, "PullImage")
METHOD(list_layers, "ListLayers")
METHOD(remove_layer, "RemoveLayer")

static const struct varlink_method methods[] = {
    { "Run", vl_run, VARLINK_METHOD_TAKES_FDS },
    { "List", vl_list, 0 },
    { "Describe", vl_describe, 0 },
    { "Cancel", vl_cancel, 0 },
    { "Remove", vl_remove, 0 },
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
