/* What outlives this process of a run (fd-store.h): of a detached one that waits, its frozen
 * request and its files; of one that goes, its sandbox, its pipes and what became of it so far. And
 * of any that is being saved, its workspace: a stored descriptor withholds no end of file from what
 * is over. */
#include "broker/fd-store.h"
#include "broker/request-frozen.h"
#include "broker/run-internal.h"
#include "broker/run-stored.h"
#include "broker/store-input.h"
#include "broker/store-protocol.h"
#include "common/file.h"
#include "common/memfd.h"

#include <stdio.h>
#include <string.h>
#include <systemd/sd-daemon.h>

/* Files of runs that wait, in the service manager's store; the rest of FileDescriptorStoreMax= is
 * for what each run has besides. */
#define FILES_MAX 4096
#define FILES_PER_USER_MAX 1024

const char *run_stored_name(const char *id, enum run_stored_role role, char name[RUN_STORED_NAME])
{
    static const char *const roles[] = {
        [RUN_STORED_WAITING] = "waiting",     [RUN_STORED_FILES] = "files",
        [RUN_STORED_GOING] = "going",         [RUN_STORED_LIVE] = "live",
        [RUN_STORED_ENGINE] = "engine",       [RUN_STORED_LAUNCHER] = "launcher",
        [RUN_STORED_WORKSPACE] = "workspace", [RUN_STORED_STDOUT] = "stdout",
        [RUN_STORED_STDERR] = "stderr",       [RUN_STORED_EGRESS] = "egress",
    };

    snprintf(name, RUN_STORED_NAME, RUN_STORED_PREFIX "%s.%s", id, roles[role]);
    return name;
}

static int push(struct run *run, enum run_stored_role role, const int *fds, size_t n)
{
    char name[RUN_STORED_NAME];
    int r = fd_store_push(run_stored_name(run->id, role, name), fds, n);

    if (r < 0)
        fprintf(stderr, SD_WARNING "run %s: it will not outlive this process: %s\n", run->id,
                strerror(-r));
    else if (n > 0)
        run->pushed |= 1U << role;
    return r;
}

static int push_one(struct run *run, enum run_stored_role role, int fd)
{
    return fd < 0 ? 0 : push(run, role, &fd, 1);
}

static void take_back(struct run *run, enum run_stored_role role)
{
    char name[RUN_STORED_NAME];

    if (run->pushed & 1U << role && fd_store_remove(run_stored_name(run->id, role, name)) < 0)
        manager_unstore_later(run->manager);
    run->pushed &= ~(1U << role);
}

/* ---- The state ---- */

static json_object *frozen_run(const struct run *run)
{
    _cleanup_json_ json_object *o = json_object_new_object();

    if (!o || json_add_uint64(o, "version", RUN_STORED_VERSION) < 0 ||
        json_add_string(o, "id", run->id) < 0 || json_add_uint64(o, "uid", run->uid) < 0 ||
        json_add_uint64(o, "gid", run->gid) < 0 ||
        json_add_uint64(o, "pid", (uint64_t)run->pid) < 0 ||
        json_add_string(o, "session", run->session) < 0 ||
        json_add_string(o, "unit", run->unit) < 0 ||
        json_add_uint64(o, "askedUSec", run->asked_usec) < 0 ||
        json_add_uint64(o, "createdUSec", run->created_realtime) < 0 ||
        json_add(o, "request", request_freeze(&run->request)) < 0)
        return NULL;
    return TAKE_PTR(o);
}

static int add_sandbox(const struct run *run, json_object *o)
{
    const struct limits *limits = &run->plan.limits;

    return json_add_uint64(o, "goUSec", run->go_usec) < 0 ||
                   json_add_uint64(o, "startedUSec", run->started_realtime) < 0 ||
                   json_add_bool(o, "network", limits->network) < 0 ||
                   json_add_uint64(o, "memoryBytes", limits->memory_bytes) < 0 ||
                   json_add_uint64(o, "cpuPercent", limits->cpu_percent) < 0 ||
                   json_add_uint64(o, "timeoutUSec", limits->timeout_usec) < 0 ||
                   json_add_string(o, "sandboxId", run->sandbox_id) < 0 ||
                   json_add_string(o, "image", run->image) < 0 ||
                   json_add_string(o, "imageDigest", run->image_digest) < 0 ||
                   json_add_string(o, "layer", run->layer) < 0 ||
                   (run->resolved && json_add(o, "resolved", json_object_get(run->resolved)) < 0) ||
                   json_add_bool(o, "cloudTaken", run->cloud.is_taken) < 0 ||
                   json_add_uint64(o, "cloudDay", run->cloud.day) < 0 ||
                   json_add_uint64(o, "cloudFromUSec", run->cloud.from_usec) < 0 ||
                   json_add(o, "inputs", store_inputs_make(run->inputs, run->n_put)) < 0
               ? -ENOMEM
               : 0;
}

static int push_state(struct run *run, enum run_stored_role role)
{
    _cleanup_json_ json_object *state = frozen_run(run);

    if (!state || (role == RUN_STORED_GOING && add_sandbox(run, state) < 0))
        return -ENOMEM;
    _cleanup_close_ int fd = store_payload_new(state);
    return fd < 0 ? fd : push_one(run, role, fd);
}

/* ---- Live ---- */

static int push_live(struct run *run)
{
    if (run->live < 0)
        run->live = memfd_new("sbxctl-live");
    if (run->live < 0)
        return run->live;
    run_note_live(run);
    return run->pushed & 1U << RUN_STORED_LIVE ? 0 : push_one(run, RUN_STORED_LIVE, run->live);
}

/* ---- Waiting ---- */

/* Script, standard input and files; nothing of one whose are not there. */
static size_t count_files(const struct run *run)
{
    return run->pushed & 1U << RUN_STORED_FILES ? run->request.n_inputs + 2 : 0;
}

/* The service manager drops without a word what is beyond its FileDescriptorStoreMax=. */
static bool has_room(const struct run *run, size_t more)
{
    size_t all = more, of_user = more;

    for (const struct run *other = run->manager->runs; other; other = other->next) {
        all += count_files(other);
        of_user += other->uid == run->uid ? count_files(other) : 0;
    }
    return all <= FILES_MAX && of_user <= FILES_PER_USER_MAX;
}

void run_store_waiting(struct run *run)
{
    int fds[VARLINK_FDS_MAX];
    size_t n = request_fds(&run->request, fds);

    if (!has_room(run, n)) {
        fprintf(stderr,
                SD_NOTICE
                "run %s: too many files wait with detached runs, so it will not outlive this "
                "process\n",
                run->id);
        return;
    }
    run->stored = push(run, RUN_STORED_FILES, fds, n) >= 0 && push_live(run) >= 0 &&
                  push_state(run, RUN_STORED_WAITING) >= 0;
}

/* ---- Going ---- */

void run_note_live(struct run *run)
{
    struct run_live live = {
        .version = RUN_STORED_VERSION,
        .went = run->go_usec != 0,
        .go_usec = run->go_usec,
        .started_realtime = run->started_realtime,
        .end_usec = run->end_usec,
        .ended_realtime = run->ended_realtime,
        .cloud_taken_usec = run->cloud.taken_usec,
        .cloud_to_usec = run->cloud.to_usec,
        .cloud_goes = run->cloud.goes,
        .timed_out = run->facts.timed_out,
        .cancelled = run->facts.cancelled,
        .caller_gone = run->facts.caller_gone,
        .have_exited = run->facts.have_exited,
        .have_ended = run->facts.have_ended,
        .is_over = run->state >= STATE_DRAINING,
        .exited = run->facts.exited,
        .ended = run->facts.ended,
    };

    if (run->live < 0)
        return;
    for (size_t i = 0; i < 2; i++)
        live.bytes[i] = run->streams[i] ? stream_bytes(run->streams[i]) : 0;
    (void)pwrite_all(run->live, &live, sizeof(live), 0);
}

void run_store_going(struct run *run)
{
    int descriptors[3] = { -1, -1, -1 };

    /* From here on it is not begun again, even if the service manager does not hear of that. */
    int r = push_live(run);
    if (run->sandbox)
        sandbox_descriptors(run->sandbox, descriptors);
    for (size_t i = 0; r >= 0 && i < 3; i++)
        r = push_one(run, RUN_STORED_ENGINE + i, descriptors[i]);
    for (size_t i = 0; r >= 0 && i < 2; i++)
        r = push_one(run, RUN_STORED_STDOUT + i, stream_source(run->streams[i]));
    if (r >= 0 && run->egress)
        r = push_one(run, RUN_STORED_EGRESS, egress_descriptor(run->egress));
    /* Last: with it, the others are complete. */
    if (r >= 0)
        r = push_state(run, RUN_STORED_GOING);
    run->stored = r >= 0;
    take_back(run, RUN_STORED_WAITING);
    take_back(run, RUN_STORED_FILES);
}

void run_unstore(struct run *run)
{
    for (enum run_stored_role role = 0; role < RUN_STORED_ROLES; role++)
        take_back(run, role);
    run->stored = false;
}

bool run_outlives_us(const struct run *run)
{
    return run->stored && run->request.detach && run->state >= STATE_WAITING &&
           run->state <= STATE_ENDING;
}
