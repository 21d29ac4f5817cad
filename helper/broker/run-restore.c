/* Restoring of runs, see run-restore.h. What is restored is what was frozen: the request by its
 * digest, the limits as they were promised. Whatever does not fit together is lost, and said to be.
 */
#include "broker/run-restore.h"
#include "broker/digest.h"
#include "broker/request-frozen.h"
#include "broker/run-id.h"
#include "broker/run-internal.h"
#include "broker/run-queue.h"
#include "broker/run-stored.h"
#include "broker/store-input.h"
#include "broker/store-protocol.h"
#include "common/file.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <systemd/sd-daemon.h>

/* A state before it is believed; strings and objects are borrowed. */
struct frozen {
    uint32_t version, uid, gid;
    int64_t pid;
    const char *id, *session, *unit, *sandbox_id, *image, *image_digest, *layer;
    uint64_t asked_usec, created_usec, go_usec, started_usec;
    uint64_t memory_bytes, cpu_percent, timeout_usec, cloud_day, cloud_from_usec;
    bool network, cloud_taken;
    json_object *request, *resolved, *inputs;
};

#define AT(member) offsetof(struct frozen, member)
static const struct json_field frozen_fields[] = {
    { "version", JSON_FIELD_UINT32, AT(version), true, RUN_STORED_VERSION, RUN_STORED_VERSION },
    { "id", JSON_FIELD_STRING, AT(id), true, 0, RUN_ID_TEXT - 1 },
    { "uid", JSON_FIELD_UINT32, AT(uid), true, 0, UINT32_MAX - 1 },
    { "gid", JSON_FIELD_UINT32, AT(gid), true, 0, UINT32_MAX - 1 },
    { "pid", JSON_FIELD_INT64, AT(pid), true, 0, INT32_MAX },
    { "session", JSON_FIELD_STRING, AT(session), false, 0, 0 },
    { "unit", JSON_FIELD_STRING, AT(unit), false, 0, 0 },
    { "askedUSec", JSON_FIELD_UINT64, AT(asked_usec), true, 0, INT64_MAX },
    { "createdUSec", JSON_FIELD_UINT64, AT(created_usec), true, 0, INT64_MAX },
    { "request", JSON_FIELD_OBJECT, AT(request), true, 0, 0 },
    { "goUSec", JSON_FIELD_UINT64, AT(go_usec), false, 1, INT64_MAX },
    { "startedUSec", JSON_FIELD_UINT64, AT(started_usec), false, 0, INT64_MAX },
    { "network", JSON_FIELD_BOOL, AT(network), false, 0, 0 },
    { "memoryBytes", JSON_FIELD_UINT64, AT(memory_bytes), false, 0, INT64_MAX },
    { "cpuPercent", JSON_FIELD_UINT64, AT(cpu_percent), false, 0, INT64_MAX },
    { "timeoutUSec", JSON_FIELD_UINT64, AT(timeout_usec), false, 0, INT64_MAX },
    { "sandboxId", JSON_FIELD_STRING, AT(sandbox_id), false, 0, ENGINE_TEXT_MAX },
    { "image", JSON_FIELD_STRING, AT(image), false, 0, ENGINE_TEXT_MAX },
    { "imageDigest", JSON_FIELD_STRING, AT(image_digest), false, 0, ENGINE_TEXT_MAX },
    { "layer", JSON_FIELD_STRING, AT(layer), false, 0, LAYER_KEY_LENGTH },
    { "resolved", JSON_FIELD_ARRAY, AT(resolved), false, 0, 0 },
    { "cloudTaken", JSON_FIELD_BOOL, AT(cloud_taken), false, 0, 0 },
    { "cloudDay", JSON_FIELD_UINT64, AT(cloud_day), false, 0, INT64_MAX },
    { "cloudFromUSec", JSON_FIELD_UINT64, AT(cloud_from_usec), false, 0, INT64_MAX },
    { "inputs", JSON_FIELD_ARRAY, AT(inputs), false, 0, 0 },
};
#undef AT

static int read_state(int fd, json_object **ret_object, struct frozen *ret)
{
    _cleanup_json_ json_object *object = NULL;
    const char *bad;

    *ret = (struct frozen){ 0 };
    int r = store_payload_read(fd, &object);
    if (r < 0)
        return r;
    if (json_dispatch(object, frozen_fields, ELEMENTS(frozen_fields), false, ret, &bad) < 0 ||
        !run_id_valid(ret->id))
        return -EBADMSG;
    *ret_object = TAKE_PTR(object);
    return 0;
}

static int take(struct fd_store *store, const char *id, enum run_stored_role role)
{
    char name[RUN_STORED_NAME];

    return fd_store_take_named(store, run_stored_name(id, role, name));
}

static void remove_from_store(struct manager *manager, const char *id, enum run_stored_role role)
{
    char name[RUN_STORED_NAME];

    if (fd_store_remove(run_stored_name(id, role, name)) < 0)
        manager_unstore_later(manager);
}

static int read_live(int fd, struct run_live *ret)
{
    return fd >= 0 && pread_full(fd, ret, sizeof(*ret), 0) == (ssize_t)sizeof(*ret) &&
                   ret->version == RUN_STORED_VERSION
               ? 0
               : -EBADMSG;
}

/* Returns 1 if it is what was approved, 0 if the configuration makes something else of it now. */
static int is_unchanged(struct request *request, const struct plan *plan)
{
    char frozen[REQUEST_SHA256_TEXT];

    strcpy(frozen, request->sha256);
    int r = request_digest(request, plan);
    if (r < 0)
        return r;
    return strcmp(frozen, request->sha256) == 0;
}

static struct run *make_run(struct manager *manager, const struct frozen *frozen,
                            struct request *request, struct plan *plan)
{
    struct run *run = run_new(manager, frozen->id, request, plan);

    if (!run)
        return NULL;
    run->uid = frozen->uid;
    run->gid = frozen->gid;
    run->pid = (pid_t)frozen->pid;
    run->session = frozen->session ? strdup(frozen->session) : NULL;
    run->unit = frozen->unit ? strdup(frozen->unit) : NULL;
    run->asked_usec = frozen->asked_usec;
    run->created_realtime = frozen->created_usec;
    return run;
}

/* ---- Waiting ---- */

/* What the service manager still has may be older than what we know: one that ended does not begin
 * again, nor one that was removed. */
static bool is_awaited(const struct manager *manager, const struct frozen *frozen)
{
    const struct index_entry *entry = index_get_owned(manager->index, frozen->id, frozen->uid);

    return entry && !entry->final;
}

/* It may have been getting ready, and begins anew. All of it is ours: nothing was given away. */
static void remove_half_filled(struct manager *manager, const char *id)
{
    static const char *const names[] = { "script", "stdout", "stderr" };
    _cleanup_close_ int dir =
        openat(manager->staging, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    for (size_t i = 0; dir >= 0 && i < ELEMENTS(names); i++)
        (void)unlinkat(dir, names[i], 0);
    (void)unlinkat(manager->staging, id, AT_REMOVEDIR);
}

static int thaw_waiting(struct fd_store *store, const struct frozen *frozen,
                        struct request *request)
{
    int fds[VARLINK_FDS_MAX];
    size_t n = 0;

    int r = request_thaw(frozen->request, request);
    if (r < 0)
        return r;
    while (n < VARLINK_FDS_MAX && (fds[n] = take(store, frozen->id, RUN_STORED_FILES)) >= 0)
        n++;
    r = request_thaw_fds(frozen->request, request, fds, n);
    for (size_t i = 0; i < n; i++)
        close_fd(fds[i]);
    if (r < 0)
        request_release(request);
    return r;
}

static int restore_waiting(struct manager *manager, struct fd_store *store,
                           const struct frozen *frozen)
{
    _cleanup_close_ int live = take(store, frozen->id, RUN_STORED_LIVE);
    struct run_live last;
    struct request request;
    struct refusal refusal;
    struct plan plan;
    struct run *run;

    int r = read_live(live, &last);
    if (r >= 0 && (last.went || !is_awaited(manager, frozen)))
        r = -ENOENT;
    if (r >= 0)
        r = thaw_waiting(store, frozen, &request);
    if (r < 0)
        return r;
    r = policy_apply(&manager->config, &request, &plan, &refusal);
    if (r < 0) {
        request_release(&request);
        return r;
    }
    r = is_unchanged(&request, &plan);
    /* One that never fits would hold up all others in the end. */
    if (r > 0 && run_queue_admit(&manager->config, &plan, &refusal) < 0)
        r = 0;
    if (r <= 0) {
        plan_release(&plan);
        request_release(&request);
        return r < 0 ? r : -EPERM;
    }
    run = make_run(manager, frozen, &request, &plan);
    if (!run)
        return -ENOMEM;
    run->stored = true;
    run->pushed = 1U << RUN_STORED_WAITING | 1U << RUN_STORED_FILES | 1U << RUN_STORED_LIVE;
    run->live = TAKE_FD(live);
    run->state = STATE_WAITING;
    remove_half_filled(manager, run->id);
    r = run_queue_again(run);
    if (r < 0)
        run_forget(run);
    return r;
}

/* ---- Going ---- */

/* The limits are those that were promised, whatever they are for others now. */
static int plan_as_promised(const struct manager *manager, const struct frozen *frozen,
                            struct request *request, struct plan *ret)
{
    struct config config = manager->config;
    struct refusal refusal;

    config.defaults = config.ceiling = (struct limits){
        .network = frozen->network,
        .memory_bytes = frozen->memory_bytes,
        .cpu_percent = frozen->cpu_percent,
        .timeout_usec = frozen->timeout_usec,
    };
    return policy_apply(&config, request, ret, &refusal);
}

/* For the language, which may be told by its first line. */
static int open_script(const struct manager *manager, const char *id)
{
    char path[RUN_ID_TEXT + 8];

    snprintf(path, sizeof(path), "%s/script", id);
    int fd = openat(manager->staging, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

static int open_staging(struct run *run)
{
    run->staging =
        openat(run->manager->staging, run->id, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    for (size_t i = 0; run->staging >= 0 && i < 2; i++) {
        run->kept[i] =
            openat(run->staging, stream_names[i], O_RDWR | O_APPEND | O_CLOEXEC | O_NOFOLLOW);
        if (run->kept[i] < 0)
            return -errno;
    }
    return run->staging < 0 ? -errno : 0;
}

/* As they were put; their names are the request's. */
static int restore_inputs(struct run *run, json_object *array)
{
    size_t n = array ? json_object_array_length(array) : 0;
    const char *name;

    if (n != run->request.n_inputs + 1)
        return -EBADMSG;
    run->inputs = calloc(n, sizeof(run->inputs[0]));
    if (!run->inputs)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++) {
        int r = store_input_parse(json_object_array_get_idx(array, i), &name, &run->inputs[i]);
        if (r < 0)
            return r;
        run->inputs[i].name = i == 0 ? run->request.script_name : run->request.inputs[i - 1].name;
    }
    run->n_put = n;
    return 0;
}

static int restore_live(struct run *run, int fd, struct run_live *live)
{
    run->live = fd;
    int r = read_live(fd, live);
    if (r < 0)
        return r;
    run->end_usec = live->end_usec;
    run->ended_realtime = live->ended_realtime;
    run->cloud.taken_usec = live->cloud_taken_usec;
    run->cloud.to_usec = live->cloud_to_usec;
    run->cloud.goes = live->cloud_goes;
    /* The program's clock began later than it was handed over. */
    if (live->cloud_goes) {
        run->go_usec = live->go_usec;
        run->started_realtime = live->started_realtime;
    }
    run->facts.timed_out = live->timed_out;
    run->facts.cancelled = live->cancelled;
    run->facts.caller_gone = live->caller_gone;
    run->facts.have_exited = live->have_exited;
    run->facts.have_ended = live->have_ended;
    run->facts.exited = live->exited;
    run->facts.ended = live->ended;
    return 0;
}

static int restore_sandbox(struct run *run, struct fd_store *store, const struct run_live *live)
{
    int descriptors[3];

    for (size_t i = 0; i < 3; i++)
        descriptors[i] = take(store, run->id, RUN_STORED_ENGINE + i);
    /* What is over says nothing any more, and its word is known; but for that it is removed. */
    if (live->have_ended || live->is_over) {
        if (!live->have_ended || !live->ended.stands)
            descriptors[0] = close_fd(descriptors[0]);
        descriptors[1] = close_fd(descriptors[1]);
    }
    if (descriptors[2] < 0) {
        close_fd(descriptors[0]);
        close_fd(descriptors[1]);
        return -ENOENT;
    }
    return run_restore_sandbox(run, descriptors);
}

static void copy_facts(struct run *run, const struct frozen *frozen)
{
    run->go_usec = frozen->go_usec;
    run->started_realtime = frozen->started_usec;
    snprintf(run->sandbox_id, sizeof(run->sandbox_id), "%s",
             frozen->sandbox_id ? frozen->sandbox_id : "");
    snprintf(run->image, sizeof(run->image), "%s", frozen->image ? frozen->image : "");
    snprintf(run->image_digest, sizeof(run->image_digest), "%s",
             frozen->image_digest ? frozen->image_digest : "");
    snprintf(run->layer, sizeof(run->layer), "%s", frozen->layer ? frozen->layer : "");
    run->resolved = json_object_get(frozen->resolved);
    run->cloud.is_taken = frozen->cloud_taken;
    run->cloud.day = frozen->cloud_day;
    run->cloud.from_usec = frozen->cloud_from_usec;
}

static int fill_run(struct run *run, struct fd_store *store, const struct frozen *frozen)
{
    struct run_live live = { 0 };

    copy_facts(run, frozen);
    int r = restore_live(run, take(store, run->id, RUN_STORED_LIVE), &live);
    if (r >= 0)
        r = open_staging(run);
    if (r >= 0)
        r = restore_inputs(run, frozen->inputs);
    if (r >= 0)
        r = run_restore_streams(run, take(store, run->id, RUN_STORED_STDOUT),
                                take(store, run->id, RUN_STORED_STDERR), live.bytes);
    if (r >= 0)
        r = restore_sandbox(run, store, &live);
    if (r >= 0 && run->plan.egress)
        r = run_restore_network(run, take(store, run->id, RUN_STORED_EGRESS));
    if (r >= 0)
        r = run_queue_running(run);
    run->is_over = live.is_over;
    return r;
}

static int restore_going(struct manager *manager, struct fd_store *store,
                         const struct frozen *frozen)
{
    struct request request;
    struct plan plan;
    struct run *run;

    if (frozen->go_usec == 0)
        return -EBADMSG;
    int r = request_thaw(frozen->request, &request);
    if (r < 0)
        return r;
    request.script = open_script(manager, frozen->id);
    r = request.script < 0 ? request.script : plan_as_promised(manager, frozen, &request, &plan);
    if (r < 0) {
        request_release(&request);
        return r;
    }
    run = make_run(manager, frozen, &request, &plan);
    if (!run)
        return -ENOMEM;
    run->stored = true;
    run->pushed = UINT_MAX;
    run->state = STATE_GOING;
    run->request.script = close_fd(run->request.script);
    r = fill_run(run, store, frozen);
    if (r < 0)
        run_forget(run);
    return r;
}

/* ---- All of them ---- */

static void remove_all_from_store(struct manager *manager, const char *id)
{
    for (enum run_stored_role role = 0; role < RUN_STORED_ROLES; role++)
        remove_from_store(manager, id, role);
}

static void give_up(struct manager *manager, const char *id, int error)
{
    fprintf(stderr, SD_WARNING "run %s: it did not outlive the last broker: %s\n", id,
            error == -EPERM ? "the configuration does not allow it any more" : strerror(-error));
    remove_all_from_store(manager, id);
}

/* Its results were given to its user, and nobody was told any more. */
static bool is_done(const struct manager *manager, const char *id)
{
    const struct index_entry *entry = index_get(manager->index, id);

    return entry && entry->final && faccessat(manager->staging, id, F_OK, AT_SYMLINK_NOFOLLOW) < 0;
}

static void restore_one(struct manager *manager, struct fd_store *store, const char *id)
{
    _cleanup_json_ json_object *object = NULL;
    _cleanup_close_ int going = take(store, id, RUN_STORED_GOING);
    _cleanup_close_ int waiting = take(store, id, RUN_STORED_WAITING);
    struct frozen frozen;

    if (is_done(manager, id)) {
        remove_all_from_store(manager, id);
        return;
    }
    int r = read_state(going >= 0 ? going : waiting, &object, &frozen);
    if (r >= 0 && strcmp(frozen.id, id) != 0)
        r = -EBADMSG;
    if (r >= 0)
        r = going >= 0 ? restore_going(manager, store, &frozen)
                       : restore_waiting(manager, store, &frozen);
    if (r >= 0 && going >= 0) {
        remove_from_store(manager, id, RUN_STORED_WAITING);
        remove_from_store(manager, id, RUN_STORED_FILES);
    }
    if (r < 0)
        give_up(manager, id, r);
    else
        fprintf(stderr, SD_NOTICE "run %s: it goes on\n", id);
}

/* "run.<id>.<role>": the id, if it is such a name. */
static bool parse_name(const char *name, char id[RUN_ID_LENGTH_MAX + 1])
{
    const char *begin = name + strlen(RUN_STORED_PREFIX), *dot;

    if (strncmp(name, RUN_STORED_PREFIX, strlen(RUN_STORED_PREFIX)) != 0)
        return false;
    dot = strchr(begin, '.');
    if (!dot || dot - begin > RUN_ID_LENGTH_MAX)
        return false;
    snprintf(id, RUN_ID_LENGTH_MAX + 1, "%.*s", (int)(dot - begin), begin);
    return run_id_valid(id);
}

void runs_restore(struct manager *manager, struct fd_store *store)
{
    char id[RUN_ID_LENGTH_MAX + 1], last[RUN_ID_LENGTH_MAX + 1] = "";

    for (size_t i = 0; i < fd_store_size(store); i++) {
        if (!parse_name(fd_store_name(store, i), id) || strcmp(id, last) == 0 ||
            run_is_known(manager, id))
            continue;
        strcpy(last, id);
        restore_one(manager, store, id);
    }
}

void runs_go_on(struct manager *manager)
{
    for (struct run *run = manager->runs, *next; run; run = next) {
        next = run->next;
        if (run->state == STATE_GOING)
            run_go_on(run);
    }
    run_dispatch(manager);
}
