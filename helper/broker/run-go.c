/* A run's program as it goes, and the clocks over it. What its files take on their way to a cloud
 * and back is not the program's time. */
#include "broker/run-internal.h"
#include "common/clock.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define WORKSPACE "/workspace"
/* So often the time in the cloud is taken in which files are sent. */
#define UPLOAD_STEP_USEC (10 * 1000 * 1000ULL)
/* For files on their way home; an engine knows itself when it is to give up on them. */
#define HOME_USEC (RUN_LIFETIME_MARGIN_USEC + RUN_ENDING_USEC)
/* The same for a program that was ended, which somebody may be waiting for. */
#define RESCUE_USEC (20 * 1000 * 1000ULL)

uint64_t run_now(struct run *run)
{
    uint64_t now = 0;
    (void)sd_event_now(run->manager->event, CLOCK_BOOTTIME, &now);
    return now;
}

static int on_time_over(sd_event_source *source, uint64_t usec, void *userdata)
{
    struct run *run = userdata;

    run->facts.timed_out = true;
    run_end(run, run->manager->config.grace_usec);
    return 0;
}

static int send_go(struct run *run)
{
    int program[3] = { -1, -1, -1 }, caller[3] = { -1, -1, -1 };

    run->interpreter_warm = interpreter_waits(&run->interpreter);
    int r = run_make_stdin(run, &program[0], &caller[0]);

    for (size_t i = 0; r >= 0 && i < 2; i++)
        r = run_make_stream(run, i, &program[i + 1], &caller[i + 1]);
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

/* On files that do not come to their place. */
static void give_up(struct run *run, const char *phase, const char *why)
{
    run->facts.have_error = true;
    strcpy(run->facts.error.phase, phase);
    snprintf(run->facts.error.message, sizeof(run->facts.error.message), "%s", why);
    run_end(run, 0);
}

static int on_upload_step(sd_event_source *source, uint64_t usec, void *userdata)
{
    struct run *run = userdata;

    if (run_now(run) - run->go_usec >= RUN_UPLOAD_USEC) {
        give_up(run, ENGINE_PHASE_UPLOAD, "Its files did not get to the cloud in 10 minutes.");
    } else if (!run_cloud_take_more(run, UPLOAD_STEP_USEC)) {
        give_up(run, ENGINE_PHASE_UPLOAD,
                "Its files took long to get to the cloud, and nothing is left of your "
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
    run->go_usec = run_now(run);
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
    run_make_record(run);
}

void run_go_if_filled(struct run *run)
{
    if (run_is_filled(run) && run_network_is_ready(run))
        go(run);
}

static int on_home_timeout(sd_event_source *source, uint64_t usec, void *userdata)
{
    give_up(userdata, ENGINE_PHASE_LOST,
            "The program ended, but its files did not come home in time, and how it ended is not "
            "known.");
    return 0;
}

void run_program_begins(struct run *run)
{
    if (run->state != STATE_GOING || run->cloud.goes || !run->plan.cloud)
        return;
    run->cloud.goes = true;
    run->go_usec = run_now(run);
    run->started_realtime = clock_usec(CLOCK_REALTIME);
    run_note_live(run);
    run_arm(run, run->plan.limits.timeout_usec, on_time_over);
}

void run_program_over(struct run *run)
{
    if (!run->plan.cloud || run->end_usec != 0)
        return;
    if (run->state == STATE_GOING || (run->state == STATE_ENDING && run->go_usec != 0)) {
        run->end_usec = run_now(run);
        run_note_live(run);
    }
    if (run->state == STATE_GOING)
        run_arm(run, HOME_USEC, on_home_timeout);
    else if (run->state == STATE_ENDING)
        run_await_end(run, RESCUE_USEC);
}

void run_go_on(struct run *run)
{
    uint64_t limit = run->plan.limits.timeout_usec, now = clock_usec(CLOCK_BOOTTIME);
    uint64_t gone = now - run->go_usec;

    if (run->facts.have_ended || run->is_over)
        run_sandbox_over(run);
    else if (run->facts.have_exited || run->facts.cancelled || run->facts.timed_out)
        run_end(run, 0);
    else if (run->plan.cloud && run->end_usec != 0)
        run_arm(run, HOME_USEC, on_home_timeout);
    else if (run->plan.cloud && !run->cloud.goes)
        run_arm(run, UPLOAD_STEP_USEC, on_upload_step);
    else
        run_arm(run, gone < limit ? limit - gone : 1, on_time_over);
}
