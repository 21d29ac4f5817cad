/* The claim of a layer. It goes through: the digest of its image, its key, a look whether there is
 * such a layer, and if there is none a build, which it may share. Nothing is built before the store
 * has told what there is. Called by run-packages.c, and by layers.c and layer-*.c when something is
 * over that claims waited for. */
#include "broker/layers-internal.h"
#include "broker/prepare.h"
#include "common/clock.h"

#include <stdio.h>
#include <string.h>

bool layer_is_claimed(const struct layers *layers, uid_t uid, const char *key,
                      const struct layer_claim *except)
{
    for (const struct layer_claim *claim = layers->claims; claim; claim = claim->next)
        if (claim != except && layer_is(uid, key, claim->request.uid, claim->key))
            return true;
    return false;
}

void layer_claim_settle(struct layer_claim *claim, const struct layer_result *result)
{
    claim->state = CLAIM_SETTLED;
    claim->build = NULL;
    claim->callbacks.done(result, claim->callbacks.userdata);
}

static void settle_failed(struct layer_claim *claim, bool engine_failed, const char *hint,
                          const char *reason)
{
    struct install_failure failure;
    const struct layer_result result = { .failure = &failure, .engine_failed = engine_failed };

    install_fail(&failure, "other", hint, "%s", reason);
    layer_claim_settle(claim, &result);
}

static void settle_error(struct layer_claim *claim, int error)
{
    char reason[160];

    snprintf(reason, sizeof(reason), "The packages could not be made ready: %s.", strerror(-error));
    settle_failed(claim, false, "Try again; if it lasts, tell the administrator.", reason);
}

static void need_build(struct layer_claim *claim)
{
    struct layers *layers = claim->layers;
    struct layer_build *build = layer_build_find(layers, claim->request.uid, claim->key);
    int r = 0;

    if (build)
        layer_claim_join(claim, build);
    else if (!layers_may_build(layers, claim->request.uid))
        claim->state = CLAIM_STALLED;
    else
        r = layer_build_begin(claim);
    if (r < 0)
        settle_error(claim, r);
}

/* One from the future, too: how old it is, nobody knows. */
static bool is_stale(const struct layers *layers, json_object *facts)
{
    uint64_t created = json_get_number(facts, "createdUSec");

    return created > clock_usec(CLOCK_REALTIME) || layers_is_too_old(layers, created);
}

/* Denied= may have grown since it was installed. */
static bool is_denied(const struct layer_claim *claim, json_object *facts,
                      struct install_failure *ret)
{
    json_object *resolved = json_object_object_get(facts, "resolved");

    return json_object_is_type(resolved, json_type_array) &&
           !install_is_allowed(claim->request.ecosystem,
                               claim->layers->manager->config.packages.denied, resolved, ret);
}

/* One that cannot be used any more, by nobody. */
static void replace(struct layer_claim *claim)
{
    int r = claim->has_replaced
                ? -EBUSY
                : layer_removal_begin(claim->layers, claim->request.uid, claim->key, NULL, NULL);

    claim->state = CLAIM_STALLED;
    claim->has_replaced = true;
    if (r < 0)
        settle_error(claim, r);
}

static void looked(struct layer_claim *claim, int error, json_object *facts)
{
    struct layers *layers = claim->layers;
    uid_t uid = claim->request.uid;
    struct install_failure failure;
    bool denied = error == 0 && is_denied(claim, facts, &failure);

    if (error == -ENOENT) {
        need_build(claim);
    } else if (error < 0 && error != -EBADMSG) {
        settle_error(claim, error);
    } else if ((error == -EBADMSG || denied || is_stale(layers, facts)) &&
               !layer_is_claimed(layers, uid, claim->key, claim)) {
        replace(claim);
    } else if (error == -EBADMSG) {
        settle_error(claim, error);
    } else if (denied) {
        layer_claim_settle(claim, &(const struct layer_result){
                                      .failure = &failure,
                                      .key = claim->key,
                                      .resolved = json_object_object_get(facts, "resolved"),
                                  });
    } else {
        known_note_used(&layers->known, uid, claim->key, facts);
        layer_claim_settle(claim, &(const struct layer_result){
                                      .key = claim->key,
                                      .image_digest = claim->system,
                                      .facts = facts,
                                      .resolved = json_object_object_get(facts, "resolved"),
                                  });
    }
}

/* The broker looks itself: what lies there is ours, and a job of the store's would take as long as
 * all the rest that a layer adds to a run. */
static int on_deferred(sd_event_source *source, void *userdata)
{
    struct layer_claim *claim = userdata;
    _cleanup_json_ json_object *facts = NULL;

    claim->deferred = sd_event_source_disable_unref(claim->deferred);
    int r = layer_use(claim->layers->state, claim->request.uid, claim->key, &facts);
    looked(claim, r, facts);
    return 0;
}

/* Asks for the layer; now, or when nothing is in the way any more. Settles nothing. Returns 0 or a
 * negative errno. */
static int look(struct layer_claim *claim)
{
    struct layers *layers = claim->layers;
    struct layer_build *build = layer_build_find(layers, claim->request.uid, claim->key);

    if (layer_removal_find(layers, claim->request.uid, claim->key)) {
        claim->state = CLAIM_STALLED;
        return 0;
    }
    if (build) {
        layer_claim_join(claim, build);
        return 0;
    }
    claim->state = CLAIM_LOOKING;
    return sd_event_add_defer(layers->manager->event, &claim->deferred, on_deferred, claim);
}

static void look_again(struct layer_claim *claim)
{
    int r = look(claim);

    if (r < 0)
        settle_error(claim, r);
}

static bool is_resumable(const struct layers *layers, const struct layer_claim *claim)
{
    uid_t uid = claim->request.uid;

    return !layer_removal_find(layers, uid, claim->key) &&
           (layer_build_find(layers, uid, claim->key) || layers_may_build(layers, uid));
}

static struct layer_claim *find_resumable(const struct layers *layers)
{
    for (struct layer_claim *claim = layers->claims; claim; claim = claim->next)
        if (claim->state == CLAIM_STALLED && is_resumable(layers, claim))
            return claim;
    return NULL;
}

/* Each leaves its state, and may be given up, and others with it. */
void layers_resume_claims(struct layers *layers)
{
    struct layer_claim *claim;

    while ((claim = find_resumable(layers)))
        look_again(claim);
}

static int make_key(struct layer_claim *claim)
{
    const struct config_packages *packages = &claim->layers->manager->config.packages;
    const struct install_request *request = &claim->request;
    const struct layer_parts parts = {
        .ecosystem = request->ecosystem,
        .engine = request->engine,
        .system = claim->system,
        .index = config_packages_index(packages, request->ecosystem)->text,
        .only_binary = packages->only_binary,
        .require_hashes = request->require_hashes,
        .packages = request->packages,
        .n_packages = request->n_packages,
    };

    return layer_key_make(&parts, claim->key);
}

static void on_prepare(const struct prepare_event *event, void *userdata)
{
    struct layer_claim *claim = userdata;
    struct install_progress progress = { 0 };
    char reason[160];
    int r;

    switch (event->type) {
    case PREPARE_PROGRESS:
        snprintf(progress.phase, sizeof(progress.phase), "%.16s", event->progress->phase);
        progress.current = event->progress->current;
        progress.total = event->progress->total;
        claim->callbacks.progress(&progress, claim->callbacks.userdata);
        return;
    case PREPARE_DONE:
        claim->prepare = prepare_free(claim->prepare);
        claim->system = strdup(event->prepared->image_digest);
        r = claim->system ? make_key(claim) : -ENOMEM;
        if (r < 0)
            settle_error(claim, r);
        else
            look_again(claim);
        return;
    case PREPARE_REFUSED:
        settle_failed(claim, true, "", event->refused->message);
        return;
    case PREPARE_SILENT:
    default:
        snprintf(reason, sizeof(reason), "The engine '%.60s' %s.", claim->request.engine,
                 event->error == -ETIMEDOUT ? "does not answer" : "hung up");
        settle_failed(claim, true, "The administrator can look at it with: sbxctl engines", reason);
        return;
    }
}

static int find_system(struct layer_claim *claim)
{
    struct manager *manager = claim->layers->manager;
    const struct install_request *request = &claim->request;

    if (request->image)
        return prepare_begin(manager->event, request->engine, request->image, true,
                             manager->config.start_timeout_usec, on_prepare, claim,
                             &claim->prepare);
    int r = layer_interpreter("", request->interpreter, &claim->system);
    /* The installation will tell better that it is not there. */
    if (r == -ENOENT)
        claim->system = strdup("");
    if (!claim->system)
        return r < 0 && r != -ENOENT ? r : -ENOMEM;
    r = make_key(claim);
    return r < 0 ? r : look(claim);
}

int layers_claim(struct layers *layers, const struct install_request *request,
                 const struct layer_callbacks *callbacks, struct layer_claim **ret)
{
    struct layer_claim *claim = calloc(1, sizeof(*claim));

    if (!claim)
        return -ENOMEM;
    claim->layers = layers;
    claim->callbacks = *callbacks;
    claim->next = layers->claims;
    layers->claims = claim;
    int r = install_request_copy(&claim->request, request);
    if (r == 0) {
        *ret = claim;
        r = find_system(claim);
    }
    if (r < 0) {
        *ret = NULL;
        layer_claim_free(claim);
    }
    return r < 0 ? r : 0;
}

struct layer_claim *layer_claim_free(struct layer_claim *claim)
{
    if (!claim)
        return NULL;
    struct layer_build *build = claim->build;
    REMOVE_FROM(claim->layers->claims, claim);
    prepare_free(claim->prepare);
    sd_event_source_disable_unref(claim->deferred);
    if (build)
        layer_build_leave(build);
    install_request_release(&claim->request);
    free(claim->system);
    free(claim);
    return NULL;
}
