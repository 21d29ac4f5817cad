/* The part of a run that has a sandbox: prepare, fill, go, end, drain. */
#include "broker/attach.h"
#include "broker/policy-network.h"
#include "broker/pool.h"
#include "broker/removal.h"
#include "broker/run-internal.h"
#include "broker/run.h"
#include "common/clock.h"
#include "common/escape.h"
#include "common/foreign.h"
#include "common/quantity.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <systemd/sd-daemon.h>
#include <time.h>

_Static_assert(POLICY_HOSTS_TEXT <= ENGINE_HOSTS_MAX + 1, "an engine's list holds all hosts");

#define WORKSPACE "/workspace"
/* How long the engine's last word may take after the grace period, and the last output after that
 * word. */
#define ENDING_USEC (5 * 1000 * 1000ULL)
#define DRAINING_USEC (1000 * 1000ULL)
/* So often the time in the cloud is taken in which files are sent. */
#define UPLOAD_STEP_USEC (10 * 1000 * 1000ULL)
/* For files on their way home; an engine knows itself when it is to give up on them. */
#define HOME_USEC (RUN_LIFETIME_MARGIN_USEC + ENDING_USEC)
/* The same for a program that was ended, which somebody may be waiting for. */
#define RESCUE_USEC (20 * 1000 * 1000ULL + ENDING_USEC)

static uint64_t event_now(struct run *run)
{
    uint64_t now = 0;
    (void)sd_event_now(run->manager->event, CLOCK_BOOTTIME, &now);
    return now;
}

/* The sandbox is gone, or as good as gone. */
static void drain(struct run *run)
{
    run->state = STATE_DRAINING;
    if (run->end_usec == 0)
        run->end_usec = event_now(run);
    if (run->ended_realtime == 0)
        run->ended_realtime = clock_usec(CLOCK_REALTIME);
    run_note_live(run);
    for (size_t i = 0; i < 2; i++)
        stream_drain(run->streams[i]);
    run_network_finish(run);
}

static int on_drain_timeout(sd_event_source *source, uint64_t usec, void *userdata)
{
    struct run *run = userdata;

    run_arm(run, 0, NULL);
    for (size_t i = 0; i < 2; i++)
        stream_end(run->streams[i]);
    run_network_give_up(run);
    run_stream_changed(run);
    return 0;
}

/* It costs money until somebody saw that it is gone. */
static bool stands_elsewhere(const struct run *run)
{
    return run->plan.cloud && run->sandbox_id[0];
}

/* Lets it go, and sees to it that what became of it is on record. */
static void leave_sandbox(struct run *run)
{
    const struct facts *facts = &run->facts;
    bool stands = facts->have_ended && facts->ended.stands;
    int engine = stands && run->sandbox ? sandbox_take_engine(run->sandbox) : -1;

    /* Should anything still run, it ends with these sockets. */
    if (run->sandbox)
        sandbox_close(run->sandbox);
    run_cloud_over(run);
    if (engine >= 0 && removal_await(run, engine) >= 0)
        return;
    /* That is on record by the process that was here before. */
    if (run->is_over && !stands)
        return;
    if (facts->have_ended || run->go_usec != 0 || stands_elsewhere(run))
        (void)run_audit_cleanup(run, facts->have_ended && facts->ended.cleaned);
}

static void sandbox_over(struct run *run)
{
    leave_sandbox(run);
    if (run->go_usec == 0) {
        /* Ended before it went: cancelled, or the reason was noted already. */
        if (!run->facts.cancelled) {
            run_blame_engine(run, "ended the sandbox before the program could be started");
            return;
        }
        run->outcome.status = RUN_CANCELLED;
        snprintf(run->outcome.reason, sizeof(run->outcome.reason),
                 "The run was cancelled before it started.");
        run_conclude(run);
        return;
    }
    drain(run);
    run_arm(run, DRAINING_USEC, on_drain_timeout);
    run_stream_changed(run);
}

static int on_ending_timeout(sd_event_source *source, uint64_t usec, void *userdata)
{
    struct run *run = userdata;

    fprintf(stderr, SD_ERR "run %s: engine %s did not end the sandbox in time\n", run->id,
            run->plan.engine);
    sandbox_over(run);
    return 0;
}

void run_end(struct run *run, uint64_t grace_usec)
{
    run->state = STATE_ENDING;
    run_note_live(run);
    run_arm(run, grace_usec + ENDING_USEC, on_ending_timeout);
    /* Before go there is nothing to be gentle with or to explain: the end of file does it. */
    if ((run->go_usec == 0 && !stands_elsewhere(run)) || sandbox_kill(run->sandbox, grace_usec) < 0)
        sandbox_over(run);
}

static int on_time_over(sd_event_source *source, uint64_t usec, void *userdata)
{
    struct run *run = userdata;

    run->facts.timed_out = true;
    run_end(run, run->manager->config.grace_usec);
    return 0;
}

/* Nothing keeps it from going but a network that is not ready. */
static bool is_filled(const struct run *run)
{
    return run->state == STATE_FILLING && run->n_put == run->request.n_inputs + 1;
}

static int on_start_timeout(sd_event_source *source, uint64_t usec, void *userdata)
{
    struct run *run = userdata;
    char time[QUANTITY_TEXT];

    if (is_filled(run)) {
        run_network_refuse_silent(run);
        return 0;
    }
    run_blame_engine(run,
                     run->state == STATE_FILLING ? "made a sandbox that took no files for %s"
                                                 : "said nothing for %s while it made the sandbox",
                     format_usec(run->manager->config.start_timeout_usec, time));
    return 0;
}

/* Each word of the engine is a sign of life: pulling an image may take long. */
static void await_start(struct run *run)
{
    run_arm(run, run->manager->config.start_timeout_usec, on_start_timeout);
}

static int make_pipe(int ret[2])
{
    return pipe2(ret, O_CLOEXEC) < 0 ? -errno : 0;
}

/* The pipe between the program and the broker: @which is the program's descriptor. One that waits
 * has its own ends already. */
static int make_program_pipe(struct run *run, size_t which, int *ret_program, int *ret_ours)
{
    int ends[2];

    if (run->interpreter_warm) {
        *ret_program = -1;
        *ret_ours = TAKE_FD(run->interpreter.pipes[which]);
        return 0;
    }
    int r = make_pipe(ends);
    if (r < 0)
        return r;
    *ret_program = ends[which == 0 ? 0 : 1];
    *ret_ours = ends[which == 0 ? 1 : 0];
    return 0;
}

static void on_output(struct stream *stream, const char *data, size_t size, uint64_t offset,
                      void *userdata)
{
    struct run *run = userdata;

    attach_output(run, stream, data, size, offset);
    /* What was kept is told by its file. */
    if (stream_bytes(stream) > stream_kept(stream))
        run_note_live(run);
}

/* One output stream: the program's pipe, and the caller's if it wants descriptors. */
static int make_stream(struct run *run, size_t which, int *ret_program, int *ret_caller)
{
    struct stream_options options = {
        .name = stream_names[which],
        .kept = run->kept[which],
        .kept_max = run->manager->config.kept_stream_bytes,
        .sink = -1,
        .call = run->request.streams == STREAMS_MESSAGES ? run->call : NULL,
        .came = on_output,
        .changed = run_stream_changed,
        .userdata = run,
    };
    int caller[2] = { -1, -1 };
    int r = make_program_pipe(run, which + 1, ret_program, &options.source);

    if (r < 0)
        return r;
    if (run->request.streams == STREAMS_DESCRIPTORS) {
        r = make_pipe(caller);
        if (r < 0) {
            close_fd(options.source);
            return r;
        }
    }
    options.sink = caller[1];
    *ret_caller = caller[0];
    return stream_new(run->manager->event, &options, &run->streams[which]);
}

static int make_stdin(struct run *run, int *ret_program, int *ret_caller)
{
    if (run->request.streams == STREAMS_DESCRIPTORS)
        return make_program_pipe(run, 0, ret_program, ret_caller);
    if (run->interpreter_warm)
        return 0; /* it has /dev/null */
    if (run->request.stdin_memfd >= 0) {
        *ret_program = TAKE_FD(run->request.stdin_memfd);
        return 0;
    }
    *ret_program = open("/dev/null", O_RDONLY | O_CLOEXEC);
    return *ret_program < 0 ? -errno : 0;
}

static int send_go(struct run *run)
{
    int program[3] = { -1, -1, -1 }, caller[3] = { -1, -1, -1 };

    run->interpreter_warm = interpreter_waits(&run->interpreter);
    int r = make_stdin(run, &program[0], &caller[0]);

    for (size_t i = 0; r >= 0 && i < 2; i++)
        r = make_stream(run, i, &program[i + 1], &caller[i + 1]);
    /* Before the program goes: one that went is never started a second time. */
    if (r >= 0 && run->stored)
        run_store_going(run);
    if (r >= 0 && run->interpreter_warm)
        r = sandbox_release(run->sandbox);
    else if (r >= 0)
        r = sandbox_go(run->sandbox, run->plan.argv, run->plan.n_argv, run->plan.environment,
                       run->plan.n_environment, WORKSPACE, program);
    if (r >= 0) {
        bool passes = run->request.streams == STREAMS_DESCRIPTORS;
        json_object *more = json_object_new_object();
        (void)json_add_uint64(more, "timeoutUSec", run->plan.limits.timeout_usec);
        run_notify(run, "started", more, passes ? caller : NULL, passes ? 3 : 0);
    }
    for (size_t i = 0; i < 3; i++) {
        close_fd(program[i]);
        close_fd(caller[i]);
    }
    return r;
}

static void give_up_upload(struct run *run, const char *why)
{
    run->facts.have_error = true;
    strcpy(run->facts.error.phase, ENGINE_PHASE_UPLOAD);
    snprintf(run->facts.error.message, sizeof(run->facts.error.message), "%s", why);
    run_end(run, 0);
}

static int on_upload_step(sd_event_source *source, uint64_t usec, void *userdata)
{
    struct run *run = userdata;

    if (event_now(run) - run->go_usec >= RUN_UPLOAD_USEC) {
        give_up_upload(run, "Its files did not get to the cloud in 10 minutes.");
    } else if (!run_cloud_take_more(run, UPLOAD_STEP_USEC)) {
        give_up_upload(run, "Its files took long to get to the cloud, and nothing is left of your "
                            "time there for today.");
    } else {
        run_note_live(run);
        run_arm(run, UPLOAD_STEP_USEC, on_upload_step);
    }
    return 0;
}

static void go(struct run *run)
{
    int r;

    run->state = STATE_GOING;
    run->go_usec = event_now(run);
    run->started_realtime = clock_usec(CLOCK_REALTIME);
    run_holds_nothing(run);
    r = send_go(run);
    if (r < 0) {
        run->go_usec = 0;
        run_blame_engine(run, "made a sandbox that did not take the program");
        return;
    }
    if (run->plan.cloud)
        run_arm(run, UPLOAD_STEP_USEC, on_upload_step);
    else
        run_arm(run, run->plan.limits.timeout_usec, on_time_over);
}

int run_restore_streams(struct run *run, int out, int err, const uint64_t bytes[2])
{
    int sources[2] = { out, err }, r = 0;
    struct stat st;

    for (size_t i = 0; i < 2; i++) {
        int ends[2];

        /* It had come to its end. */
        if (sources[i] < 0 && r >= 0) {
            r = make_pipe(ends);
            if (r >= 0) {
                sources[i] = ends[0];
                close_fd(ends[1]);
            }
        }
        if (r >= 0 && fstat(run->kept[i], &st) < 0)
            r = -errno;
        if (r < 0) {
            close_fd(sources[i]);
            continue;
        }
        const struct stream_options options = {
            .name = stream_names[i],
            .source = sources[i],
            .kept = run->kept[i],
            .kept_max = run->manager->config.kept_stream_bytes,
            .kept_bytes = (uint64_t)st.st_size,
            .bytes = bytes[i] > (uint64_t)st.st_size ? bytes[i] : (uint64_t)st.st_size,
            .sink = -1,
            .came = on_output,
            .changed = run_stream_changed,
            .userdata = run,
        };
        r = stream_new(run->manager->event, &options, &run->streams[i]);
    }
    return r;
}

void run_go_if_filled(struct run *run)
{
    if (is_filled(run) && run_network_is_ready(run))
        go(run);
}

static int put_script(struct run *run)
{
    const struct request *request = &run->request;

    return sandbox_put(run->sandbox, request->script_name, 0755, request->script_bytes,
                       request->script);
}

void run_put_ahead(struct run *run)
{
    run->is_put_ahead = put_script(run) >= 0;
}

/* Puts the next file: the script first, then the inputs; after the last one the program goes. */
static void put_next(struct run *run)
{
    const struct request *request = &run->request;
    int r;

    if (is_filled(run)) {
        run_go_if_filled(run);
        return;
    }
    if (run->n_put == 0) {
        r = put_script(run);
    } else {
        const struct request_input *input = &request->inputs[run->n_put - 1];
        r = sandbox_put(run->sandbox, input->name, 0644, input->size, input->fd);
    }
    if (r < 0 && !run_pool_replace(run))
        run_blame_engine(run, "made a sandbox that did not take the run's files");
}

static const char *put_name(const struct run *run)
{
    return run->n_put == 0 ? run->request.script_name : run->request.inputs[run->n_put - 1].name;
}

static void refuse_put(struct run *run, int error)
{
    json_object *fields = json_object_new_object();
    const char *name = put_name(run);
    _cleanup_free_ char *shown = escape_text(name, strlen(name), 120);
    char reason[256];

    snprintf(reason, sizeof(reason), "'%s' could not be placed in the workspace: %s.",
             shown ? shown : "A file",
             error == EEXIST || error == ENOTDIR ? "another file of the run has its name"
             : error == ENOSPC                   ? "the workspace is too small"
             : error == EIO                      ? "it could not be read, or became shorter"
                                                 : strerror(error));
    (void)json_add_string(fields, "field", "inputs");
    run_refuse(run, RUN_REJECTED, "io.sbxctl.Sandbox.Rejected", fields, reason);
}

static void put_done(struct run *run, const struct launch_put_done *done)
{
    if (run->state != STATE_FILLING)
        return;
    if (done->error != 0) {
        refuse_put(run, done->error);
        return;
    }
    run->inputs[run->n_put] = (struct store_input){
        .name = put_name(run),
        .inode = done->inode,
        .size = done->size,
        .ctime_sec = done->ctime_sec,
        .ctime_nsec = done->ctime_nsec,
        .mtime_sec = done->mtime_sec,
        .mtime_nsec = done->mtime_nsec,
    };
    /* What lies in the sandbox now need not lie here, too. */
    if (run->n_put == 0)
        run->request.script = close_fd(run->request.script);
    else
        foreign_close(TAKE_FD(run->request.inputs[run->n_put - 1].fd), run->uid);
    run->n_put++;
    put_next(run);
}

void run_note_ready(struct run *run, const struct engine_ready *message)
{
    memcpy(run->sandbox_id, message->sandbox_id, sizeof(run->sandbox_id));
    memcpy(run->image, message->image, sizeof(run->image));
    memcpy(run->image_digest, message->image_digest, sizeof(run->image_digest));
}

static void fill(struct run *run)
{
    if (run->state != STATE_PREPARING)
        return;
    if (!run_layer_fits(run)) {
        run_refuse_engine(run, "The image was changed while the run's packages were made ready.",
                          "Try again.");
        return;
    }
    run->state = STATE_FILLING;
    await_start(run);
    if (run->plan.egress) {
        if (sandbox_listen(run->sandbox) < 0)
            run_blame_engine(run, "made a sandbox that took no order to listen");
    } else if (!run->is_put_ahead) {
        put_next(run);
    }
}

static void listening(struct run *run, int error, int socket)
{
    if (run->state == STATE_FILLING && run_network_start(run, error, socket))
        put_next(run);
}

static void exited(struct run *run, const struct launch_exited *message)
{
    if (run->go_usec == 0 || run->facts.have_exited)
        return;
    run->facts.have_exited = true;
    run->facts.exited = *message;
    if (run->end_usec == 0)
        run->end_usec = event_now(run);
    if (message->alone && !run->plan.cloud)
        run_collect(run);
    run_end(run, 0);
}

static int on_home_timeout(sd_event_source *source, uint64_t usec, void *userdata)
{
    struct run *run = userdata;

    run->facts.have_error = true;
    strcpy(run->facts.error.phase, ENGINE_PHASE_LOST);
    strcpy(run->facts.error.message,
           "The program ended, but its files did not come home in time, and how it ended is not "
           "known.");
    run_end(run, 0);
    return 0;
}

/* What files take on their way there and back is not the program's time. */
static void program_begins(struct run *run)
{
    if (run->state != STATE_GOING || run->cloud.goes || !run->plan.cloud)
        return;
    run->cloud.goes = true;
    run->go_usec = event_now(run);
    run->started_realtime = clock_usec(CLOCK_REALTIME);
    run_note_live(run);
    run_arm(run, run->plan.limits.timeout_usec, on_time_over);
}

static void program_over(struct run *run)
{
    if (!run->plan.cloud || run->end_usec != 0)
        return;
    if (run->state == STATE_GOING || (run->state == STATE_ENDING && run->go_usec != 0)) {
        run->end_usec = event_now(run);
        run_note_live(run);
    }
    if (run->state == STATE_GOING)
        run_arm(run, HOME_USEC, on_home_timeout);
    else if (run->state == STATE_ENDING)
        run_arm(run, RESCUE_USEC, on_ending_timeout);
}

void run_go_on(struct run *run)
{
    uint64_t limit = run->plan.limits.timeout_usec, now = clock_usec(CLOCK_BOOTTIME);
    uint64_t gone = now - run->go_usec;

    if (run->facts.have_ended || run->is_over)
        sandbox_over(run);
    else if (run->facts.have_exited || run->facts.cancelled || run->facts.timed_out)
        run_end(run, 0);
    else if (run->plan.cloud && run->end_usec != 0)
        run_arm(run, HOME_USEC, on_home_timeout);
    else if (run->plan.cloud && !run->cloud.goes)
        run_arm(run, UPLOAD_STEP_USEC, on_upload_step);
    else
        run_arm(run, gone < limit ? limit - gone : 1, on_time_over);
}

/* The engine's own trouble with a program that was to go. Its last word is still to come. */
static void failed(struct run *run, const struct engine_error *error)
{
    if (run_pool_replace(run))
        return;
    if (run->go_usec == 0 && run->state != STATE_ENDING) {
        run_refuse_failed(run, error);
        return;
    }
    if (run->facts.have_error || run->facts.have_exited || run->state > STATE_ENDING)
        return;
    run->facts.have_error = true;
    run->facts.error = *error;
    if (run->state == STATE_GOING)
        run_end(run, 0);
}

static void launcher_gone(struct run *run)
{
    if (run_pool_replace(run))
        return;
    if (run->state == STATE_FILLING)
        run_blame_engine(run, "lost the sandbox while its files were placed");
    else if (run->state == STATE_GOING)
        run_end(run, 0);
    /* While ending, the engine's last word is still to come. */
}

static void make_sandbox(struct run *run);

static void blame_gone(struct run *run)
{
    run_blame_engine(run, "went away while it made the sandbox");
}

/* An engine that is restarted ends what it has begun, and there is another one at once. Nothing of
 * the caller's has been near that sandbox; but one in a cloud costs money, so who knows. */
static bool try_again(struct run *run)
{
    if (run->state != STATE_PREPARING || run->is_second_try || run->plan.cloud || run->plan.egress)
        return false;
    fprintf(stderr, SD_NOTICE "run %s: engine %s went away, asking it again\n", run->id,
            run->plan.engine);
    run->is_second_try = true;
    run->sandbox = sandbox_free(run->sandbox);
    make_sandbox(run);
    return true;
}

static void engine_gone(struct run *run, int error)
{
    if (error < 0)
        fprintf(stderr, SD_ERR "run %s: engine %s: %s\n", run->id, run->plan.engine,
                run_engine_error_text(error));
    if (run_pool_replace(run))
        return;
    if (run->go_usec != 0 || run->state == STATE_ENDING)
        sandbox_over(run);
    else if (error < 0)
        run_blame_engine(run, "sent what this helper does not understand: %s",
                         run_engine_error_text(error));
    else if (!try_again(run))
        blame_gone(run);
}

static void progress(struct run *run, const struct engine_progress *message)
{
    json_object *more;

    if (run->state == STATE_PREPARING)
        await_start(run);
    if (strcmp(message->phase, ENGINE_PHASE_START) == 0)
        program_begins(run);
    else if (strcmp(message->phase, ENGINE_PHASE_DOWNLOAD) == 0)
        program_over(run);
    more = json_object_new_object();
    (void)json_add_string(more, "phase", message->phase);
    (void)json_add_uint64(more, "current", message->current);
    (void)json_add_uint64(more, "total", message->total);
    run_notify(run, "progress", more, NULL, 0);
}

static void on_sandbox(const struct sandbox_event *event, void *userdata)
{
    struct run *run = userdata;

    switch (event->type) {
    case SANDBOX_PROGRESS:
        progress(run, event->progress);
        break;
    case SANDBOX_READY:
        run_note_ready(run, event->ready);
        fill(run);
        break;
    case SANDBOX_LISTENING:
        listening(run, event->listening.error, event->listening.socket);
        break;
    case SANDBOX_PUT_DONE:
        put_done(run, event->put_done);
        break;
    case SANDBOX_EXITED:
        exited(run, event->exited);
        break;
    case SANDBOX_LAUNCHER_GONE:
        launcher_gone(run);
        break;
    case SANDBOX_ENDED:
        run->facts.have_ended = true;
        run->facts.ended = *event->ended;
        run_note_live(run);
        sandbox_over(run);
        break;
    case SANDBOX_FAILED:
        failed(run, event->failed);
        break;
    case SANDBOX_ENGINE_GONE:
        engine_gone(run, event->error);
        break;
    default:
        break;
    }
}

int run_restore_sandbox(struct run *run, const int descriptors[3])
{
    return sandbox_restore(run->manager->event, descriptors, on_sandbox, run, &run->sandbox);
}

void run_start(struct run *run)
{
    /* Others of the user's may have ended since it came. */
    if (!run_has_room(run))
        return;
    run->state = STATE_PREPARING;
    run->inputs = calloc(run->request.n_inputs + 1, sizeof(*run->inputs));
    /* First of all, since a sandbox that waits takes the script while the rest is done. */
    run_pool_take(run, on_sandbox);
    int r = run->inputs ? run_make_staging(run) : -ENOMEM;
    if (r < 0) {
        fprintf(stderr, SD_ERR "run %s: staging: %s\n", run->id, strerror(-r));
        run_refuse(run, RUN_REJECTED, "io.sbxctl.Sandbox.Failed", NULL,
                   r == -ENOSPC ? "There is no space left for the run's output."
                                : "The run's directory could not be made.");
        return;
    }
    if (run_audit_start(run) < 0 && run->manager->config.audit_required) {
        run_refuse(run, RUN_REJECTED, "io.sbxctl.Sandbox.AuditUnavailable", NULL,
                   "The journal took no record of the start, so nothing was run.");
        return;
    }
    if (run->plan.n_packages > 0)
        run_install(run);
    else
        run_prepare(run);
}

void run_describe_sandbox(const struct run *run, struct engine_start *ret)
{
    const struct config *config = &run->manager->config;

    *ret = (struct engine_start){
        .owner_uid = run->uid,
        .cpu_percent = (uint32_t)run->plan.limits.cpu_percent,
        .tasks = (uint32_t)config->tasks,
        .workspace_inodes = (uint32_t)config->workspace_files,
        .memory_bytes = run->plan.limits.memory_bytes,
        .workspace_bytes = config->workspace_bytes,
        .scratch_bytes = config->scratch_bytes,
        .lifetime_usec = run->plan.limits.timeout_usec + RUN_LIFETIME_MARGIN_USEC +
                         (run->plan.cloud ? 0 : config->start_timeout_usec),
        .network = run->plan.limits.network && !run->plan.egress,
    };
    snprintf(ret->run_id, sizeof(ret->run_id), "%s", run->id);
    if (run->plan.image)
        snprintf(ret->image, sizeof(ret->image), "%s", run->plan.image);
    if (ret->network && run->plan.hosts.n > 0)
        policy_hosts_text(&run->plan, ret->hosts);
}

static void make_sandbox(struct run *run)
{
    struct engine_start start;

    run_describe_sandbox(run, &start);
    run_add_layer(run, &start);
    if (!run_network_connect(run) || !run_cloud_take(run))
        return;
    int engine = run->plan.cloud ? sandbox_connect(run->plan.engine)
                                 : pool_connect_engine(run->manager->pool, run->plan.engine);
    int r = sandbox_new(run->manager->event, engine, &start, on_sandbox, run, &run->sandbox);
    if (r < 0 && run->is_second_try)
        blame_gone(run);
    else if (r < 0)
        run_refuse_no_engine(run, r);
    else
        await_start(run);
}

void run_prepare(struct run *run)
{
    run->state = STATE_PREPARING;
    if (!run->sandbox)
        make_sandbox(run);
    else if (run->warm)
        fill(run);
    else
        await_start(run);
}
