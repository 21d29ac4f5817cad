/* Builds of layers: an installation, and the store that makes a layer of its workspace. All claims
 * of the same layer wait for one build. Called by layer-claim.c. */
#include "broker/layers-internal.h"
#include "broker/package-installer.h"
#include "common/clock.h"

#include <stdio.h>
#include <string.h>

#define REQUESTED_MAX 2000 /* bytes of what was asked for, in a layer's facts */

struct layer_build {
    struct layers *layers;
    struct layer_build *next;
    uid_t uid;
    char key[LAYER_KEY_LENGTH + 1];
    struct install *install;
    struct store_job *job;
    json_object *facts, *resolved;
    uint64_t began_usec;
};

struct layer_build *layer_build_find(const struct layers *layers, uid_t uid, const char *key)
{
    for (struct layer_build *build = layers->builds; build; build = build->next)
        if (layer_is(uid, key, build->uid, build->key))
            return build;
    return NULL;
}

static size_t count_builds(const struct layers *layers, uid_t uid)
{
    size_t n = 0;

    for (const struct layer_build *build = layers->builds; build; build = build->next)
        n += build->uid == uid;
    return n;
}

/* Each holds a workspace. One that nobody waits for any more, since it is about to be kept, is no
 * run's and counted by nothing else. */
bool layers_may_build(const struct layers *layers, uid_t uid)
{
    return !layers->loading &&
           count_builds(layers, uid) < layers->manager->config.queue.runs_per_user;
}

void layer_build_free(struct layer_build *build)
{
    REMOVE_FROM(build->layers->builds, build);
    install_free(build->install);
    store_job_free(build->job);
    json_object_put(build->facts);
    json_object_put(build->resolved);
    free(build);
}

static struct layer_claim *find_waiting(const struct layer_build *build)
{
    for (struct layer_claim *claim = build->layers->claims; claim; claim = claim->next)
        if (claim->build == build)
            return claim;
    return NULL;
}

/* The build is over; all that wait for it are told. */
static void conclude(struct layer_build *build, struct layer_result *result)
{
    struct layers *layers = build->layers;
    struct layer_claim *claim;
    uid_t uid = build->uid;

    /* Who comes from here on begins anew. */
    REMOVE_FROM(layers->builds, build);
    result->key = build->key;
    result->resolved = build->resolved;
    result->installed = true;
    result->usec = clock_now() - build->began_usec;
    while ((claim = find_waiting(build))) {
        result->image_digest = claim->system;
        layer_claim_settle(claim, result);
    }
    layer_build_free(build);
    layers_evict(layers, uid);
    layers_resume_claims(layers);
}

static void conclude_failed(struct layer_build *build, const struct install_failure *failure,
                            bool engine_failed)
{
    struct layer_result result = { .failure = failure, .engine_failed = engine_failed };

    conclude(build, &result);
}

static void on_progress(const struct install_progress *progress, void *userdata)
{
    const struct layer_build *build = userdata;

    for (struct layer_claim *claim = build->layers->claims; claim; claim = claim->next)
        if (claim->build == build)
            claim->callbacks.progress(progress, claim->callbacks.userdata);
}

static void fail_installed(struct layer_build *build, int error, json_object *result)
{
    const char *reason = error == -EFBIG && result ? json_get_string(result, "reason") : NULL;
    struct install_failure failure;

    if (reason)
        install_fail(&failure, "too-large",
                     "Ask for fewer or smaller packages; the administrator sets LayerSize= and "
                     "LayerFiles= in [Packages].",
                     "The packages are more than is allowed here: %s", reason);
    else
        install_fail(&failure, "other", "Try again; if it lasts, tell the administrator.",
                     "The packages could not be kept: %s.", strerror(-error));
    conclude_failed(build, &failure, false);
}

static void on_stored(int error, json_object *result, int fd, void *userdata)
{
    struct layer_build *build = userdata;
    struct layer_result told = { .facts = build->facts };

    close_fd(fd);
    build->job = store_job_free(build->job);
    build->install = install_free(build->install);
    if (error < 0) {
        fail_installed(build, error, result);
        return;
    }
    known_add(&build->layers->known, build->uid, build->key, result);
    (void)json_add(build->facts, "bytes", json_object_get(json_object_object_get(result, "bytes")));
    conclude(build, &told);
}

static json_object *requested_array(const struct install_request *request)
{
    _cleanup_json_ json_object *array = json_object_new_array();
    size_t used = 0;

    for (size_t i = 0; array && i < request->n_packages; i++) {
        used += strlen(request->packages[i].text);
        if (used > REQUESTED_MAX)
            break;
        if (json_append(array, json_object_new_string(request->packages[i].text)) < 0)
            return NULL;
    }
    return TAKE_PTR(array);
}

static json_object *make_facts(const struct layer_claim *claim, json_object *resolved)
{
    const struct install_request *request = &claim->request;
    _cleanup_json_ json_object *facts = json_object_new_object();

    if (!facts ||
        json_add_string(facts, "language",
                        request->ecosystem == ECOSYSTEM_NODE ? "node" : "python") < 0 ||
        json_add_string(facts, "engine", request->engine) < 0 ||
        json_add_string(facts, "image", request->image) < 0 ||
        json_add_string(facts, request->image ? "imageDigest" : "interpreter", claim->system) < 0 ||
        json_add(facts, "requested", requested_array(request)) < 0 ||
        json_add(facts, "resolved", json_object_get(resolved)) < 0)
        return NULL;
    return TAKE_PTR(facts);
}

static int store_result(struct layer_build *build, const struct install_result *result)
{
    const struct config_packages *packages = &build->layers->manager->config.packages;
    struct store_layer layer = {
        .uid = build->uid,
        .key = build->key,
        .workspace = result->workspace,
        .files_max = packages->layer_files,
        .bytes_max = packages->layer_bytes,
    };

    /* Without one, the build would have been ended. */
    const struct layer_claim *claim = find_waiting(build);
    if (!claim)
        return -ECANCELED;
    layer.folder = package_installer(claim->request.ecosystem)->folder;
    build->facts = make_facts(claim, result->resolved);
    if (!build->facts)
        return -ENOMEM;
    layer.facts = build->facts;
    return store_layer_install(build->layers->manager->store, &layer, on_stored, build,
                               &build->job);
}

static void on_installed(const struct install_result *result, void *userdata)
{
    struct layer_build *build = userdata;

    build->resolved = json_object_get(result->resolved);
    if (result->failure) {
        conclude_failed(build, result->failure, result->engine_failed);
        return;
    }
    int r = store_result(build, result);
    if (r < 0)
        fail_installed(build, r, NULL);
}

void layer_claim_join(struct layer_claim *claim, struct layer_build *build)
{
    claim->build = build;
    claim->state = CLAIM_BUILDING;
}

int layer_build_begin(struct layer_claim *claim)
{
    struct layers *layers = claim->layers;
    struct layer_build *build = calloc(1, sizeof(*build));
    const struct install_callbacks callbacks = { on_progress, on_installed, build };
    struct install_request request = claim->request;

    if (!build)
        return -ENOMEM;
    request.image_digest = request.image ? claim->system : NULL;
    build->layers = layers;
    build->uid = claim->request.uid;
    memcpy(build->key, claim->key, sizeof(build->key));
    build->began_usec = clock_now();
    build->next = layers->builds;
    layers->builds = build;
    int r = install_begin(layers->manager, &request, &callbacks, &build->install);
    if (r < 0) {
        layer_build_free(build);
        return r;
    }
    layer_claim_join(claim, build);
    return 0;
}

void layer_build_leave(struct layer_build *build)
{
    struct layers *layers = build->layers;

    /* What the store is about to keep is kept, for the next one. */
    if (find_waiting(build) || build->job)
        return;
    layer_build_free(build);
    layers_resume_claims(layers);
}
