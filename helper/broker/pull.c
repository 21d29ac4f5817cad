/* Getting an image, see pull.h: policy, approval, engine, with progress to a caller who wants it.
 */
#include "broker/pull.h"
#include "broker/approve.h"
#include "broker/audit-quota.h"
#include "broker/engines.h"
#include "broker/policy-image.h"
#include "broker/pool.h"
#include "broker/prepare.h"
#include "broker/result.h"
#include "broker/verdict-words.h"
#include "common/cleanup.h"

#include <stdio.h>
#include <string.h>

/* Progress that a caller has not read yet does not pile up. */
#define PENDING_MAX (64 * 1024)

struct pull {
    struct pull *next; /* in the manager's list */
    struct manager *manager;
    struct varlink_call *call;
    struct plan plan; /* holds nothing but engine, image, limits and approvals */
    char *engine, *image;
    bool interactive;
    struct approving *approving;
    struct prepare *prepare;
};

static void pull_free(struct pull *pull)
{
    struct pull **at = &pull->manager->pulls;

    while (*at && *at != pull)
        at = &(*at)->next;
    if (*at)
        *at = pull->next;
    varlink_call_on_gone(pull->call, NULL, NULL);
    varlink_call_unref(pull->call);
    approving_free(pull->approving);
    prepare_free(pull->prepare);
    free(pull->engine);
    free(pull->image);
    free(pull);
}

static void on_gone(struct varlink_call *call, void *userdata)
{
    pull_free(userdata);
}

/* ---- Answers ---- */

static void audit(const struct pull *pull, const char *result, const char *digest)
{
    const struct peer *peer = varlink_call_peer(pull->call);
    struct audit_record record;

    /* Nothing runs by it, so it is one of those that are limited. */
    if (!audit_quota_take(pull->manager->quota, peer->uid))
        return;
    audit_record_init(&record, AUDIT_PULL);
    audit_add_user(&record, peer->uid);
    audit_add_i64(&record, "PID", peer->pid);
    audit_add(&record, "ENGINE", pull->engine);
    audit_add(&record, "IMAGE", pull->image);
    audit_add(&record, "IMAGE_DIGEST", digest && *digest ? digest : NULL);
    audit_add(&record, "RESULT", result);
    (void)audit_tell(pull->manager->audit, &record);
}

static void fail(struct pull *pull, const char *error, json_object *fields, const char *reason)
{
    audit(pull, reason, NULL);
    (void)json_add_string(fields, "reason", reason);
    (void)varlink_error(pull->call, error, fields);
    pull_free(pull);
}

static void fail_engine(struct pull *pull, const char *reason)
{
    json_object *fields = json_object_new_object();

    (void)json_add_string(fields, "engine", pull->engine);
    fail(pull, "io.sbxctl.Sandbox.EngineUnavailable", fields, reason);
}

static void notify(struct pull *pull, const char *event, json_object *fields)
{
    if (!varlink_call_wants_more(pull->call) ||
        varlink_call_pending_output(pull->call) > PENDING_MAX) {
        json_object_put(fields);
        return;
    }
    (void)json_add_string(fields, "event", event);
    (void)varlink_notify(pull->call, fields, NULL, 0);
}

/* ---- The engine ---- */

static void progress(struct pull *pull, const struct engine_progress *message)
{
    json_object *fields = json_object_new_object();

    (void)json_add_string(fields, "phase", message->phase);
    (void)json_add_uint64(fields, "current", message->current);
    (void)json_add_uint64(fields, "total", message->total);
    notify(pull, "progress", fields);
}

static void finish(struct pull *pull, const struct engine_prepared *prepared)
{
    json_object *reply = json_object_new_object();

    audit(pull, "pulled", prepared->image_digest);
    /* What waits may be of an older state. */
    pool_empty(pull->manager->pool, pull->engine);
    (void)json_add_string(reply, "event", "finished");
    (void)json_add_string(reply, "image", pull->image);
    (void)json_add_string(reply, "imageDigest", prepared->image_digest);
    (void)varlink_reply(pull->call, reply);
    pull_free(pull);
}

static void on_prepare(const struct prepare_event *event, void *userdata)
{
    struct pull *pull = userdata;
    char reason[128];

    switch (event->type) {
    case PREPARE_PROGRESS:
        progress(pull, event->progress);
        break;
    case PREPARE_DONE:
        finish(pull, event->prepared);
        break;
    case PREPARE_REFUSED:
        fail_engine(pull, event->refused->message);
        break;
    case PREPARE_SILENT:
    default:
        snprintf(reason, sizeof(reason), "The engine '%.60s' %s.", pull->engine,
                 event->error == -ETIMEDOUT ? "does not answer" : "hung up");
        fail_engine(pull, reason);
        break;
    }
}

static void ask_engine(struct pull *pull)
{
    int r =
        prepare_begin(pull->manager->event, pull->engine, pull->image, false,
                      pull->manager->config.start_timeout_usec, on_prepare, pull, &pull->prepare);

    if (r < 0)
        fail_engine(pull, "The engine does not answer: its socket is not active.");
}

/* ---- Approval ---- */

static void refuse(struct pull *pull, const struct approval_verdict *verdict)
{
    struct verdict_answer answer;

    verdict_answer(verdict, &pull->plan, &pull->manager->config.defaults, &answer);
    fail(pull, answer.error, answer.fields, answer.reason);
}

static void on_verdict(const struct approval_verdict *verdict, void *userdata)
{
    struct pull *pull = userdata;

    if (verdict->verdict != VERDICT_ALLOWED) {
        refuse(pull, verdict);
        return;
    }
    pull->approving = approving_free(pull->approving);
    ask_engine(pull);
}

static void on_asking(unsigned approvals, const char *action, void *userdata)
{
    struct pull *pull = userdata;
    const struct limits *defaults = &pull->manager->config.defaults;

    notify(pull, "approval", verdict_awaited(approvals, action, &pull->plan, defaults));
}

/* What is on the list is for anybody. */
static void approve(struct pull *pull)
{
    const struct approving_callbacks callbacks = { on_asking, on_verdict, pull };

    if (pull->plan.approvals == 0)
        ask_engine(pull);
    else if (approving_begin(pull->manager, varlink_call_peer(pull->call), NULL, &pull->plan,
                             pull->interactive, &callbacks, &pull->approving) < 0)
        on_verdict(&(struct approval_verdict){ VERDICT_UNAVAILABLE, pull->plan.approvals,
                                               authorize_action(APPROVAL_IMAGE) },
                   pull);
}

/* ---- The call ---- */

struct parameters {
    const char *image, *engine;
    bool interactive;
};

static int reject(struct varlink_call *call, const char *field, const char *reason,
                  const char *hint)
{
    json_object *fields = json_object_new_object();

    (void)json_add_string(fields, "field", field);
    (void)json_add_string(fields, "reason", reason);
    (void)json_add_string(fields, "hint", hint);
    return varlink_error(call, "io.sbxctl.Sandbox.Rejected", fields);
}

static bool has_too_many(const struct manager *manager, uid_t uid)
{
    uint64_t n = 0;

    for (const struct pull *pull = manager->pulls; pull; pull = pull->next)
        n += varlink_call_peer(pull->call)->uid == uid;
    return n >= manager->config.queue.runs_per_user;
}

/* The engine that was asked for, or the first that runs images, the default before others. */
static const char *choose_engine(const struct config *config, const char *wanted)
{
    if (wanted)
        return wanted;
    if (policy_engine_has_images(config, config->engine))
        return config->engine;
    return config->image_engines[0] ? config->image_engines[0] : config->engine;
}

static int start(struct manager *manager, struct varlink_call *call, const struct plan *plan,
                 bool interactive)
{
    struct pull *pull = calloc(1, sizeof(*pull));

    if (!pull)
        return -ENOMEM;
    *pull = (struct pull){
        .next = manager->pulls,
        .manager = manager,
        .call = varlink_call_ref(call),
        .plan = *plan,
        .engine = strdup(plan->engine),
        .image = strdup(plan->image),
        .interactive = interactive,
    };
    manager->pulls = pull;
    varlink_call_on_gone(call, on_gone, pull);
    if (!pull->engine || !pull->image) {
        pull_free(pull);
        return -ENOMEM;
    }
    /* The parameters end with this call, the plan does not. */
    pull->plan.engine = pull->engine;
    pull->plan.image = pull->image;
    approve(pull);
    return 0;
}

int pull_begin(struct manager *manager, struct varlink_call *call)
{
    static const struct json_field fields[] = {
        { "image", JSON_FIELD_STRING, offsetof(struct parameters, image), true, 0, 0 },
        { "engine", JSON_FIELD_STRING, offsetof(struct parameters, engine), false, 0, 64 },
        { "allowInteractiveAuthentication", JSON_FIELD_BOOL,
          offsetof(struct parameters, interactive), false, 0, 0 },
    };
    struct parameters parameters = { 0 };
    struct refusal refusal = { 0 };
    const char *bad;

    if (json_dispatch(varlink_call_parameters(call), fields, ELEMENTS(fields), false, &parameters,
                      &bad) < 0)
        return varlink_error_invalid_parameter(call, bad);
    struct plan plan = { .limits = manager->config.defaults,
                         .engine = choose_engine(&manager->config, parameters.engine) };
    if (policy_image(&manager->config, parameters.image, &plan, &refusal) < 0)
        return reject(call, refusal.field, refusal.reason, refusal.hint);
    if (!engine_exists(plan.engine))
        return reject(call, "engine", "There is no engine of that name that runs images.",
                      "'sbxctl engines' lists those there are.");
    if (has_too_many(manager, varlink_call_peer(call)->uid))
        return reject(call, "image", "Other images are being pulled for you already.",
                      "Wait for them.");
    return start(manager, call, &plan, parameters.interactive);
}
