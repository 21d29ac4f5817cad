/* A run's sandbox: how it is made, and what becomes of all that is heard of it. It is filled in
 * run-fill.c, the program goes in run-go.c, and it ends in run-end.c. */
#include "broker/policy-network.h"
#include "broker/pool.h"
#include "broker/run-internal.h"
#include "common/quantity.h"

#include <stdio.h>
#include <string.h>
#include <systemd/sd-daemon.h>

_Static_assert(POLICY_HOSTS_TEXT <= ENGINE_HOSTS_MAX + 1, "an engine's list holds all hosts");

static int on_start_timeout(sd_event_source *source, uint64_t usec, void *userdata)
{
    struct run *run = userdata;
    char time[QUANTITY_TEXT];

    if (run_is_filled(run)) {
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
        run_put_next(run);
    }
}

static void listening(struct run *run, int error, int socket)
{
    if (run->state == STATE_FILLING && run_network_start(run, error, socket))
        run_put_next(run);
}

static void exited(struct run *run, const struct launch_exited *message)
{
    if (run->go_usec == 0 || run->facts.have_exited)
        return;
    run->facts.have_exited = true;
    run->facts.exited = *message;
    if (run->end_usec == 0)
        run->end_usec = run_now(run);
    if (message->alone && !run->plan.cloud)
        run_collect(run);
    run_end(run, 0);
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
        run_sandbox_over(run);
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
        run_program_begins(run);
    else if (strcmp(message->phase, ENGINE_PHASE_DOWNLOAD) == 0)
        run_program_over(run);
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
        run_put_done(run, event->put_done);
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
        run_sandbox_over(run);
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
