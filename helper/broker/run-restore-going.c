/* Restoring of a run that goes: with its limits as they were promised, its sockets, its streams and
 * what became of it so far. Called by run-restore.c. */
#include "broker/request-frozen.h"
#include "broker/run-restore-internal.h"
#include "broker/store-input.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

/* The limits are those that were promised, whatever they are for others now. */
static int plan_as_promised(const struct manager *manager, const struct run_frozen *frozen,
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
    int fd = openat(manager->staging.directory, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

static int open_staging(struct run *run)
{
    run->staging = openat(run->manager->staging.directory, run->id,
                          O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
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
    int r = run_stored_read_live(fd, live);
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
        descriptors[i] = run_stored_take(store, run->id, RUN_STORED_ENGINE + i);
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

static void copy_facts(struct run *run, const struct run_frozen *frozen)
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

static int fill_run(struct run *run, struct fd_store *store, const struct run_frozen *frozen)
{
    struct run_live live = { 0 };

    copy_facts(run, frozen);
    int r = restore_live(run, run_stored_take(store, run->id, RUN_STORED_LIVE), &live);
    if (r >= 0)
        r = open_staging(run);
    if (r >= 0)
        r = restore_inputs(run, frozen->inputs);
    if (r >= 0)
        r = run_restore_streams(run, run_stored_take(store, run->id, RUN_STORED_STDOUT),
                                run_stored_take(store, run->id, RUN_STORED_STDERR), live.bytes);
    if (r >= 0)
        r = restore_sandbox(run, store, &live);
    if (r >= 0 && run->plan.egress)
        r = run_restore_network(run, run_stored_take(store, run->id, RUN_STORED_EGRESS));
    if (r >= 0)
        r = run_queue_running(run);
    run->is_over = live.is_over;
    return r;
}

int run_restore_going(struct manager *manager, struct fd_store *store,
                      const struct run_frozen *frozen)
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
    run = run_thaw(manager, frozen, &request, &plan);
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
