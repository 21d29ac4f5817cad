/* The state machine of a run, first and last part: begin, queue, report. run-approval.c asks for
 * its approvals, run-sandbox.c is the part with a sandbox, run-save.c the saving. A run is freed in
 * run_refuse(), run_conclude() and report() only; whoever may reach them touches the run no more.
 */
#include "broker/run.h"
#include "broker/attach.h"
#include "broker/keeper.h"
#include "broker/layers.h"
#include "broker/policy-packages.h"
#include "broker/result.h"
#include "broker/run-internal.h"
#include "common/clock.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <systemd/sd-daemon.h>
#include <systemd/sd-login.h>
#include <time.h>

void run_arm(struct run *run, uint64_t usec, sd_event_time_handler_t fn)
{
    run->timer = sd_event_source_disable_unref(run->timer);
    if (usec != 0 && sd_event_add_time_relative(run->manager->event, &run->timer, CLOCK_BOOTTIME,
                                                usec, 10000, fn, run) < 0)
        fprintf(stderr, SD_ERR "run %s: no timer could be had\n", run->id);
}

static void link_run(struct run *run)
{
    run->next = run->manager->runs;
    if (run->next)
        run->next->previous = run;
    run->manager->runs = run;
}

static void unlink_run(struct run *run)
{
    if (run->previous)
        run->previous->next = run->next;
    else if (run->manager->runs == run)
        run->manager->runs = run->next;
    if (run->next)
        run->next->previous = run->previous;
}

static void run_free(struct run *run)
{
    unlink_run(run);
    queue_leave(&run->manager->queue, &run->item);
    run_arm(run, 0, NULL);
    if (!run->stored)
        run_cloud_settle(run);
    approving_free(run->approving);
    sandbox_free(run->sandbox);
    interpreter_close(&run->interpreter);
    layer_claim_free(run->claim);
    egress_free(run->egress);
    network_use_release(&run->network);
    store_job_free(run->job);
    for (size_t i = 0; i < 2; i++) {
        stream_free(run->streams[i]);
        close_fd(run->kept[i]);
    }
    close_fd(run->record);
    close_fd(run->staging);
    close_fd(run->live);
    if (run->call) {
        varlink_call_on_gone(run->call, NULL, NULL);
        varlink_call_on_drained(run->call, NULL, NULL);
        varlink_call_unref(run->call);
    }
    json_object_put(run->collected);
    json_object_put(run->result);
    json_object_put(run->resolved);
    free(run->inputs);
    free(run->user);
    free(run->session);
    free(run->unit);
    plan_release(&run->plan);
    request_release(&run->request);
    free(run);
}

void run_forget(struct run *run)
{
    run_free(run);
}

void run_free_all(struct manager *manager)
{
    while (manager->runs)
        run_free(manager->runs);
}

/* Frees the run and lets the next ones go. */
static void leave(struct run *run)
{
    struct manager *manager = run->manager;

    run_unstore(run);
    run_free(run);
    run_dispatch(manager);
    manager_run_gone(manager);
}

void run_notify(struct run *run, const char *event, json_object *more, const int *fds, size_t n_fds)
{
    _cleanup_json_ json_object *reply = more ? more : json_object_new_object();

    if (!reply || json_add_string(reply, "event", event) < 0 ||
        json_add_string(reply, "id", run->id) < 0)
        return;
    attach_notify(run, reply);
    if (!run->call || !varlink_call_wants_more(run->call))
        return;
    /* Who has not read the last one misses this one. */
    if ((strcmp(event, "progress") == 0 || strcmp(event, "queued") == 0) &&
        varlink_call_pending_output(run->call) > 0)
        return;
    /* A caller who cannot be reached is noticed by its hang-up. */
    (void)varlink_notify(run->call, json_object_get(reply), fds, n_fds);
}

int run_note(struct run *run, enum run_status status)
{
    _cleanup_json_ json_object *result =
        run->result ? json_object_get(run->result) : run_result(run, status);
    int r = result ? index_put(run->manager->index, run->id, run->uid, run->created_realtime,
                               status > RUN_RUNNING, result)
                   : -ENOMEM;

    if (r < 0)
        fprintf(stderr, SD_ERR "run %s: index entry not written: %s\n", run->id, strerror(-r));
    return r;
}

int run_note_final(struct run *run)
{
    int r = run_note(run, run->outcome.status);

    run->noted = r >= 0;
    return r;
}

void run_refuse(struct run *run, enum run_status status, const char *error, json_object *fields,
                const char *reason)
{
    bool indexed = index_get(run->manager->index, run->id) != NULL;
    const char *hint = fields ? json_get_string(fields, "hint") : NULL;
    _cleanup_json_ json_object *result = NULL;

    run->outcome.status = status;
    /* Nobody may be here to read the answer. */
    if (hint)
        snprintf(run->outcome.hint, sizeof(run->outcome.hint), "%s", hint);
    snprintf(run->outcome.reason, sizeof(run->outcome.reason), "%s", reason);
    run->ended_realtime = clock_usec(CLOCK_REALTIME);
    /* There is a sandbox, which ends with our connection, and nobody waits to be told so. */
    if (run->plan.cloud && run->sandbox_id[0] &&
        (run->state == STATE_FILLING || run->state == STATE_GOING))
        (void)run_audit_cleanup(run, false);
    /* The decision was the end of a denied run, and has its record. */
    if (status != RUN_DENIED)
        (void)run_audit_end(run);
    run_remove_staging(run);
    if (indexed)
        (void)run_note(run, status);
    result = run_result(run, status);
    attach_over(run, result);
    if (!fields)
        fields = json_object_new_object();
    if (run->call && fields && json_add_string(fields, "reason", reason) >= 0)
        (void)varlink_error(run->call, error, json_object_get(fields));
    json_object_put(fields);
    leave(run);
}

/* From here on the run has no caller. */
static void detach(struct run *run)
{
    struct varlink_call *call = TAKE_PTR(run->call);
    json_object *reply = json_object_new_object();

    varlink_call_on_gone(call, NULL, NULL);
    varlink_call_on_drained(call, NULL, NULL);
    if (reply && json_add_string(reply, "event", "detached") >= 0 &&
        json_add_string(reply, "id", run->id) >= 0 &&
        json_add(reply, "result", run_live_result(run)) >= 0)
        (void)varlink_reply(call, json_object_get(reply));
    json_object_put(reply);
    varlink_call_unref(call);
}

void run_enqueue(struct run *run)
{
    int r;

    run->state = STATE_WAITING;
    r = run_note(run, RUN_QUEUED);
    if (run->request.detach) {
        if (r < 0 || index_sync(run->manager->index) < 0) {
            run_refuse(run, RUN_REJECTED, "io.sbxctl.Sandbox.Failed", NULL,
                       "The run could not be noted, so nothing was run.");
            return;
        }
        run_store_waiting(run);
        detach(run);
    }
    run_line_up(run);
    run_dispatch(run->manager);
}

/* Session and unit are text for the audit, read by pid, so thrown away if the process is gone
 * meanwhile. */
static void note_caller(struct run *run, const struct peer *peer)
{
    struct pollfd gone = { .fd = peer->pidfd, .events = POLLIN };

    run->uid = peer->uid;
    run->gid = peer->gid;
    run->pid = peer->pid;
    (void)sd_pid_get_unit(peer->pid, &run->unit);
    /* It is made of the unit's name, which need not be read twice where it is another one. */
    if (run->unit && strncmp(run->unit, "session-", strlen("session-")) == 0)
        (void)sd_pid_get_session(peer->pid, &run->session);
    if (peer->pidfd < 0 || poll(&gone, 1, 0) != 0) {
        free(TAKE_PTR(run->session));
        free(TAKE_PTR(run->unit));
    }
}

static void on_caller_gone(struct varlink_call *call, void *userdata)
{
    struct run *run = userdata;

    run->call = varlink_call_unref(run->call);
    run->facts.caller_gone = true;
    for (size_t i = 0; i < 2; i++)
        if (run->streams[i])
            stream_forget_caller(run->streams[i]);
    if (run->state <= STATE_WAITING) {
        run_refuse(run, RUN_CANCELLED, "", NULL, "The caller went away before the run started.");
    } else if (run->state <= STATE_ENDING) {
        /* No grace any more for a program that is being ended already, either. */
        run->facts.cancelled = run->facts.cancelled || run->state < STATE_ENDING;
        run_end(run, 0);
    } else {
        run_stream_changed(run);
    }
}

static void on_caller_drained(struct varlink_call *call, void *userdata)
{
    struct run *run = userdata;

    for (size_t i = 0; i < 2; i++)
        if (run->streams[i])
            stream_resume(run->streams[i]);
}

static int make_id(struct manager *manager, char ret[RUN_ID_TEXT])
{
    uint64_t random;

    do {
        if (getrandom(&random, sizeof(random), 0) != sizeof(random))
            return -errno;
        snprintf(ret, RUN_ID_TEXT, "%016" PRIx64, random);
    } while (index_get(manager->index, ret));
    return 0;
}

static void set_facts(struct run *run)
{
    const struct manager *manager = run->manager;
    enum ecosystem ecosystem;

    run->facts.limits = &run->plan.limits;
    run->facts.tasks = manager->config.tasks;
    run->facts.workspace_bytes = manager->config.workspace_bytes;
    run->facts.workspace_files = manager->config.workspace_files;
    run->facts.scratch_bytes = manager->config.scratch_bytes;
    run->facts.defaults = &manager->config.defaults;
    run->facts.ceiling = &manager->config.ceiling;
    run->facts.interpreter = run->plan.language->interpreter;
    run->facts.engine = run->plan.engine;
    run->facts.language = run->plan.language->name;
    run->facts.script_name = run->request.script_name;
    run->facts.inputs = run->request.inputs;
    run->facts.n_inputs = run->request.n_inputs;
    run->facts.cloud = run->plan.cloud;
    run->facts.images = run->plan.image;
    run->facts.packages = &manager->config.packages;
    run->facts.may_have_packages =
        policy_packages_possible(&manager->config, &run->plan, &ecosystem);
    run->facts.ecosystem = ecosystem;
}

struct run *run_new(struct manager *manager, const char *id, struct request *request,
                    struct plan *plan)
{
    struct run *run = calloc(1, sizeof(*run));

    if (run && id)
        snprintf(run->id, sizeof(run->id), "%s", id);
    if (!run || (!id && make_id(manager, run->id) < 0)) {
        free(run);
        plan_release(plan);
        request_release(request);
        return NULL;
    }
    run->manager = manager;
    run->request = *request;
    run->plan = *plan;
    *request = (struct request)REQUEST_NULL;
    *plan = (struct plan){ 0 };
    run->interpreter = (struct interpreter)INTERPRETER_NONE;
    run->staging = run->kept[0] = run->kept[1] = run->record = run->live = -1;
    set_facts(run);
    link_run(run);
    return run;
}

void run_begin(struct manager *manager, struct varlink_call *call, struct request *request,
               struct plan *plan)
{
    struct run *run = run_new(manager, NULL, request, plan);

    if (!run) {
        result_answer_failed(call, "The run could not be prepared.");
        return;
    }
    run->asked_usec = clock_usec(CLOCK_BOOTTIME);
    run->created_realtime = clock_usec(CLOCK_REALTIME);
    run->call = varlink_call_ref(call);
    note_caller(run, varlink_call_peer(call));
    varlink_call_on_gone(call, on_caller_gone, run);
    varlink_call_on_drained(call, on_caller_drained, run);

    if (run_audit_request(run) < 0 && manager->config.audit_required) {
        run_refuse(run, RUN_REJECTED, "io.sbxctl.Sandbox.AuditUnavailable", NULL,
                   "The journal took no record of the request, so nothing was run.");
        return;
    }
    if (run_enter_queue(run))
        run_find_room(run);
}

json_object *run_live_result(const struct run *run)
{
    return run->result                   ? json_object_get(run->result)
           : run->state <= STATE_WAITING ? run_result(run, RUN_QUEUED)
           : run->state <= STATE_FILLING ? run_result(run, RUN_STARTING)
                                         : run_result(run, RUN_RUNNING);
}

struct run *run_find(struct manager *manager, const char *id, uid_t uid)
{
    for (struct run *run = manager->runs; run; run = run->next)
        if (run->uid == uid && strcmp(run->id, id) == 0)
            return run;
    return NULL;
}

bool run_is_known(const struct manager *manager, const char *id)
{
    for (const struct run *run = manager->runs; run; run = run->next)
        if (strcmp(run->id, id) == 0)
            return true;
    return false;
}

bool run_has_layer(const struct manager *manager, uid_t uid, const char *key)
{
    for (const struct run *run = manager->runs; run; run = run->next)
        if (run->uid == uid && run->sandbox && strcmp(run->layer, key) == 0)
            return true;
    return false;
}

void run_cancel(struct run *run, bool kill)
{
    if (run->state > STATE_ENDING || (run->state == STATE_ENDING && !kill))
        return;
    if (run->state == STATE_ENDING) {
        run_end(run, 0);
        return;
    }
    run->facts.cancelled = true;
    if (run->state <= STATE_WAITING) {
        run->outcome.status = RUN_CANCELLED;
        snprintf(run->outcome.reason, sizeof(run->outcome.reason),
                 "The run was cancelled before it started.");
        run_conclude(run);
        return;
    }
    run_end(run, run->state == STATE_GOING && !kill ? run->manager->config.grace_usec : 0);
}

static void report(struct run *run)
{
    json_object *reply = json_object_new_object();

    if (run->call && reply && json_add_string(reply, "event", "finished") >= 0 &&
        json_add_string(reply, "id", run->id) >= 0 &&
        json_add(reply, "result", json_object_get(run->result)) >= 0)
        (void)varlink_reply(run->call, json_object_get(reply));
    json_object_put(reply);
    leave(run);
}

bool run_any_left(const struct manager *manager)
{
    for (const struct run *run = manager->runs; run; run = run->next)
        if (!run_outlives_us(run))
            return true;
    return false;
}

void run_cancel_all(struct manager *manager)
{
    for (struct run *run = manager->runs, *next; run; run = next) {
        next = run->next;
        if (run_outlives_us(run))
            continue;
        run->facts.cancelled = run->facts.cancelled || run->state < STATE_ENDING;
        if (run->state <= STATE_WAITING)
            run_refuse(run, RUN_CANCELLED, "io.sbxctl.Sandbox.Failed", NULL,
                       "The helper is being stopped.");
        else if (run->state < STATE_ENDING)
            run_end(run, 0);
        else if (run->state == STATE_REPORTING)
            report(run); /* it need not read the rest of its output for that */
    }
}

void run_stream_changed(void *userdata)
{
    struct run *run = userdata;

    if (run->state == STATE_DRAINING && stream_ended(run->streams[0]) &&
        stream_ended(run->streams[1]) && !run->egress)
        run_save(run);
    else if (run->state == STATE_REPORTING && stream_flushed(run->streams[0]) &&
             stream_flushed(run->streams[1]))
        report(run);
}

void run_conclude(struct run *run)
{
    if (run->ended_realtime == 0)
        run->ended_realtime = clock_usec(CLOCK_REALTIME);
    if (!run->result)
        run->result = run_result(run, run->outcome.status);
    if (!run->published)
        run_remove_staging(run);
    if (!run->noted)
        (void)run_note_final(run);
    (void)run_audit_end(run);
    keeper_look(run->manager->keeper);
    run->state = STATE_REPORTING;
    run_leave_queue(run);
    attach_over(run, run->result);
    if (run->streams[0] && run->streams[1])
        run_stream_changed(run); /* or when the caller has read what it wants */
    else
        report(run);
}
