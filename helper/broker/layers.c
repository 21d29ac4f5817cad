/* Claims, builds and removals of layers, see layers.h. A claim goes through: the digest of its
 * image, its key, a look whether there is such a layer, and if there is none a build, which it may
 * share. Nothing is built before the store has told what there is. */
#include "broker/layers.h"
#include "broker/layer-list.h"
#include "broker/package-installer.h"
#include "broker/prepare.h"
#include "broker/run.h"
#include "broker/store-layer.h"
#include "common/clock.h"
#include "common/directory.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <systemd/sd-daemon.h>

#define USER_LAYERS_MAX 256
#define USER_REMOVALS_MAX 8 /* at once */
#define REQUESTED_MAX 2000  /* bytes of what was asked for, in a layer's facts */

struct build {
    struct layers *layers;
    struct build *next;
    uid_t uid;
    char key[LAYER_KEY_LENGTH + 1];
    struct install *install;
    struct store_job *job;
    json_object *facts, *resolved;
    uint64_t began_usec;
};

struct removal {
    struct layers *layers;
    struct removal *next;
    uid_t uid;
    char key[LAYER_KEY_LENGTH + 1];
    struct store_job *job;
    void (*done)(int error, void *userdata);
    void *userdata;
};

enum claim_state {
    CLAIM_PREPARING, /* what its image is */
    CLAIM_LOOKING,   /* whether there is such a layer */
    CLAIM_STALLED,   /* until the store has told of all, or a removal or a build is over */
    CLAIM_BUILDING,
    CLAIM_SETTLED,
};

struct layer_claim {
    struct layers *layers;
    struct layer_claim *next;
    enum claim_state state;
    struct layer_callbacks callbacks;
    struct install_request request; /* all of it ours */
    char key[LAYER_KEY_LENGTH + 1];
    char *system; /* digest of the image, or the interpreter */
    struct prepare *prepare;
    sd_event_source *deferred;
    struct build *build;
    bool has_replaced; /* what was there, with what is to be built */
};

struct layers {
    struct manager *manager;
    int state; /* directory fd */
    struct known *known;
    struct known
        *stale; /* of .known: who from here on is to be looked at, see remove_next_stale() */
    struct build *builds;
    struct removal *removals;
    struct layer_claim *claims;
    struct store_job *loading; /* NULL: all are known */
};

#define REMOVE_FROM(list, item)            \
    do {                                   \
        __typeof__(&(list)) at_ = &(list); \
        while (*at_ && *at_ != (item))     \
            at_ = &(*at_)->next;           \
        if (*at_)                          \
            *at_ = (item)->next;           \
    } while (0)

static bool is_of(uid_t uid, const char *key, uid_t other_uid, const char *other_key)
{
    return uid == other_uid && strcmp(key, other_key) == 0;
}

/* ---- those that are there */

static void forget_known(struct layers *layers, struct known *known)
{
    if (known && layers->stale == known)
        layers->stale = known->next;
    known_remove(&layers->known, known);
}

static struct removal *find_removal(const struct layers *layers, uid_t uid, const char *key)
{
    for (struct removal *removal = layers->removals; removal; removal = removal->next)
        if (is_of(uid, key, removal->uid, removal->key))
            return removal;
    return NULL;
}

static struct build *find_build(const struct layers *layers, uid_t uid, const char *key)
{
    for (struct build *build = layers->builds; build; build = build->next)
        if (is_of(uid, key, build->uid, build->key))
            return build;
    return NULL;
}

static size_t count_builds(const struct layers *layers, uid_t uid)
{
    size_t n = 0;

    for (const struct build *build = layers->builds; build; build = build->next)
        n += build->uid == uid;
    return n;
}

/* Each holds a workspace. One that nobody waits for any more, since it is about to be kept, is no
 * run's and counted by nothing else. */
static bool may_build(const struct layers *layers, uid_t uid)
{
    return !layers->loading &&
           count_builds(layers, uid) < layers->manager->config.queue.runs_per_user;
}

static bool is_claimed(const struct layers *layers, uid_t uid, const char *key,
                       const struct layer_claim *except)
{
    for (const struct layer_claim *claim = layers->claims; claim; claim = claim->next)
        if (claim != except && is_of(uid, key, claim->request.uid, claim->key))
            return true;
    return false;
}

bool layers_in_use(const struct layers *layers, uid_t uid, const char *key)
{
    return is_claimed(layers, uid, key, NULL) || run_has_layer(layers->manager, uid, key);
}

/* ---- removal */

static void look_again(struct layer_claim *claim);

static bool is_resumable(const struct layers *layers, const struct layer_claim *claim)
{
    uid_t uid = claim->request.uid;

    return !find_removal(layers, uid, claim->key) &&
           (find_build(layers, uid, claim->key) || may_build(layers, uid));
}

static struct layer_claim *find_resumable(const struct layers *layers)
{
    for (struct layer_claim *claim = layers->claims; claim; claim = claim->next)
        if (claim->state == CLAIM_STALLED && is_resumable(layers, claim))
            return claim;
    return NULL;
}

/* Those that waited for something to be over. Each leaves its state, and may be given up, and
 * others with it. */
static void resume_claims(struct layers *layers)
{
    struct layer_claim *claim;

    while ((claim = find_resumable(layers)))
        look_again(claim);
}

static void removal_free(struct removal *removal)
{
    REMOVE_FROM(removal->layers->removals, removal);
    store_job_free(removal->job);
    free(removal);
}

static void remove_next_stale(struct layers *layers);

static void on_removed(int error, json_object *result, int fd, void *userdata)
{
    struct removal *removal = userdata;
    struct layers *layers = removal->layers;

    close_fd(fd);
    if (error == 0 || error == -ENOENT)
        forget_known(layers, known_find(layers->known, removal->uid, removal->key));
    else
        fprintf(stderr, SD_WARNING "a layer of uid %u is not removed: %s\n", (unsigned)removal->uid,
                strerror(-error));
    if (removal->done)
        removal->done(error, removal->userdata);
    removal_free(removal);
    resume_claims(layers);
    remove_next_stale(layers);
}

static int start_removal(struct layers *layers, uid_t uid, const char *key,
                         void (*done)(int error, void *userdata), void *userdata)
{
    struct removal *removal = calloc(1, sizeof(*removal));

    if (!removal)
        return -ENOMEM;
    *removal = (struct removal){
        .layers = layers, .next = layers->removals, .uid = uid, .done = done, .userdata = userdata
    };
    snprintf(removal->key, sizeof(removal->key), "%s", key);
    layers->removals = removal;
    int r = store_layer_remove(layers->manager->store, uid, removal->key, on_removed, removal,
                               &removal->job);
    if (r < 0)
        removal_free(removal);
    return r;
}

static size_t count_removals(const struct layers *layers, uid_t uid)
{
    size_t n = 0;

    for (const struct removal *removal = layers->removals; removal; removal = removal->next)
        n += removal->uid == uid;
    return n;
}

int layers_remove(struct layers *layers, uid_t uid, const char *key,
                  void (*done)(int error, void *userdata), void *userdata)
{
    if (layers_in_use(layers, uid, key) || find_removal(layers, uid, key))
        return -EBUSY;
    /* The store has one queue for all users. */
    if (count_removals(layers, uid) >= USER_REMOVALS_MAX)
        return -EAGAIN;
    return start_removal(layers, uid, key, done, userdata);
}

static bool is_too_old(const struct layers *layers, uint64_t created_usec)
{
    uint64_t now = clock_usec(CLOCK_REALTIME);

    return now > created_usec && now - created_usec > layers->manager->config.packages.max_age_usec;
}

/* What was too old when we began and nobody uses goes one by one, since all share the store. */
static void remove_next_stale(struct layers *layers)
{
    while (layers->stale) {
        struct known *known = layers->stale;
        layers->stale = known->next;
        if (is_too_old(layers, known->created_usec) &&
            !layers_in_use(layers, known->uid, known->key) &&
            !find_removal(layers, known->uid, known->key) &&
            start_removal(layers, known->uid, known->key, NULL, NULL) == 0)
            return;
    }
}

/* The least recently used one that nobody uses, if the user has more than may be. */
static struct known *find_surplus(const struct layers *layers, uid_t uid)
{
    uint64_t bytes = 0, n = 0;
    struct known *oldest = NULL;

    for (struct known *known = layers->known; known; known = known->next) {
        if (known->uid != uid || find_removal(layers, uid, known->key))
            continue;
        bytes += known->bytes;
        n++;
        if (!layers_in_use(layers, uid, known->key) &&
            (!oldest || known->used_usec < oldest->used_usec))
            oldest = known;
    }
    return bytes > layers->manager->config.packages.user_bytes || n > USER_LAYERS_MAX ? oldest
                                                                                      : NULL;
}

static void evict(struct layers *layers, uid_t uid)
{
    struct known *surplus;

    while ((surplus = find_surplus(layers, uid)))
        if (start_removal(layers, uid, surplus->key, NULL, NULL) < 0)
            return;
}

/* ---- the end of a claim */

static void settle(struct layer_claim *claim, const struct layer_result *result)
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
    settle(claim, &result);
}

static void settle_error(struct layer_claim *claim, int error)
{
    char reason[160];

    snprintf(reason, sizeof(reason), "The packages could not be made ready: %s.", strerror(-error));
    settle_failed(claim, false, "Try again; if it lasts, tell the administrator.", reason);
}

/* ---- builds */

static void build_free(struct build *build)
{
    REMOVE_FROM(build->layers->builds, build);
    install_free(build->install);
    store_job_free(build->job);
    json_object_put(build->facts);
    json_object_put(build->resolved);
    free(build);
}

static struct layer_claim *find_waiting(const struct build *build)
{
    for (struct layer_claim *claim = build->layers->claims; claim; claim = claim->next)
        if (claim->build == build)
            return claim;
    return NULL;
}

/* The build is over; all that wait for it are told. */
static void conclude(struct build *build, struct layer_result *result)
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
        settle(claim, result);
    }
    build_free(build);
    evict(layers, uid);
    resume_claims(layers);
}

static void conclude_failed(struct build *build, const struct install_failure *failure,
                            bool engine_failed)
{
    struct layer_result result = { .failure = failure, .engine_failed = engine_failed };

    conclude(build, &result);
}

static void on_progress(const struct install_progress *progress, void *userdata)
{
    const struct build *build = userdata;

    for (struct layer_claim *claim = build->layers->claims; claim; claim = claim->next)
        if (claim->build == build)
            claim->callbacks.progress(progress, claim->callbacks.userdata);
}

static void fail_installed(struct build *build, int error, json_object *result)
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
    struct build *build = userdata;
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

static int store_result(struct build *build, const struct install_result *result)
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
    struct build *build = userdata;

    build->resolved = json_object_get(result->resolved);
    if (result->failure) {
        conclude_failed(build, result->failure, result->engine_failed);
        return;
    }
    int r = store_result(build, result);
    if (r < 0)
        fail_installed(build, r, NULL);
}

/* Returns 0 or a negative errno; then the claim is as it was. */
static int start_build(struct layer_claim *claim)
{
    struct layers *layers = claim->layers;
    struct build *build = calloc(1, sizeof(*build));
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
        build_free(build);
        return r;
    }
    claim->build = build;
    claim->state = CLAIM_BUILDING;
    return 0;
}

static void need_build(struct layer_claim *claim)
{
    struct layers *layers = claim->layers;
    struct build *build = find_build(layers, claim->request.uid, claim->key);
    int r = 0;

    if (build) {
        claim->build = build;
        claim->state = CLAIM_BUILDING;
    } else if (!may_build(layers, claim->request.uid)) {
        claim->state = CLAIM_STALLED;
    } else {
        r = start_build(claim);
    }
    if (r < 0)
        settle_error(claim, r);
}

/* ---- is it there */

/* One from the future, too: how old it is, nobody knows. */
static bool is_stale(const struct layers *layers, json_object *facts)
{
    uint64_t created = json_get_number(facts, "createdUSec");

    return created > clock_usec(CLOCK_REALTIME) || is_too_old(layers, created);
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
                : start_removal(claim->layers, claim->request.uid, claim->key, NULL, NULL);

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
               !is_claimed(layers, uid, claim->key, claim)) {
        replace(claim);
    } else if (error == -EBADMSG) {
        settle_error(claim, error);
    } else if (denied) {
        settle(claim, &(const struct layer_result){
                          .failure = &failure,
                          .key = claim->key,
                          .resolved = json_object_object_get(facts, "resolved"),
                      });
    } else {
        known_note_used(&layers->known, uid, claim->key, facts);
        settle(claim, &(const struct layer_result){
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
    struct build *build = find_build(layers, claim->request.uid, claim->key);

    if (find_removal(layers, claim->request.uid, claim->key)) {
        claim->state = CLAIM_STALLED;
        return 0;
    }
    if (build) {
        claim->build = build;
        claim->state = CLAIM_BUILDING;
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

/* ---- which one is it */

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

/* ---- claims */

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
    struct build *build = claim->build;
    REMOVE_FROM(claim->layers->claims, claim);
    prepare_free(claim->prepare);
    sd_event_source_disable_unref(claim->deferred);
    /* What the store is about to keep is kept, for the next one. */
    if (build && !find_waiting(build) && !build->job) {
        build_free(build);
        resume_claims(claim->layers);
    }
    install_request_release(&claim->request);
    free(claim->system);
    free(claim);
    return NULL;
}

/* ---- all of them */

static void on_loaded(int error, json_object *result, int fd, void *userdata)
{
    struct layers *layers = userdata;
    json_object *list = result ? json_object_object_get(result, "layers") : NULL;
    struct known *before = layers->known; /* used meanwhile */

    close_fd(fd);
    layers->loading = store_job_free(layers->loading);
    if (error < 0 && error != -ENOENT)
        fprintf(stderr, SD_ERR "layers: %s\n", strerror(-error));
    for (size_t i = 0; list && i < json_object_array_length(list); i++) {
        json_object *layer = json_object_array_get_idx(list, i);
        const char *key = json_get_string(layer, "key");
        uid_t uid = (uid_t)json_get_number(layer, "uid");
        if (layer_key_valid(key) && !known_find(before, uid, key))
            known_add(&layers->known, uid, key, layer);
    }
    if (result && json_get_number(result, "more") > 0)
        fprintf(stderr,
                SD_WARNING "%" PRIu64 " layers of packages are too many to look after: they stay, "
                           "and count for nobody, until they are used\n",
                json_get_number(result, "more"));
    layers->stale = layers->known;
    resume_claims(layers);
    remove_next_stale(layers);
}

/* Where nobody ever had packages there is nothing to ask the store for. */
static bool has_any(const struct manager *manager)
{
    _cleanup_free_ char *path = NULL;

    if (asprintf(&path, "%s/layers", manager->state_directory) < 0)
        return true;
    _cleanup_closedir_ DIR *dir = opendir(path);
    return !dir || directory_next(dir);
}

int layers_new(struct manager *manager, struct layers **ret)
{
    struct layers *layers = calloc(1, sizeof(*layers));

    if (!layers)
        return -ENOMEM;
    layers->manager = manager;
    layers->state = open(manager->state_directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int r = layers->state < 0 ? -errno : 0;
    if (r == 0 && has_any(manager))
        r = store_layer_load(manager->store, on_loaded, layers, &layers->loading);
    if (r < 0) {
        close_fd(layers->state);
        free(layers);
        return r;
    }
    *ret = layers;
    return 0;
}

struct layers *layers_free(struct layers *layers)
{
    if (!layers)
        return NULL;
    while (layers->claims)
        layer_claim_free(layers->claims);
    while (layers->builds)
        build_free(layers->builds);
    while (layers->removals)
        removal_free(layers->removals);
    while (layers->known)
        forget_known(layers, layers->known);
    store_job_free(layers->loading);
    close_fd(layers->state);
    free(layers);
    return NULL;
}
