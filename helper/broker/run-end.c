/* The end of a run's sandbox, from the word that ends it until its last output was read. */
#include "broker/removal.h"
#include "broker/run-internal.h"
#include "common/clock.h"

#include <stdio.h>
#include <systemd/sd-daemon.h>
#include <time.h>

/* The last output may take so long after the engine's last word. */
#define DRAINING_USEC (1000 * 1000ULL)

/* The sandbox is gone, or as good as gone. */
static void drain(struct run *run)
{
    run->state = STATE_DRAINING;
    if (run->end_usec == 0)
        run->end_usec = run_now(run);
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

void run_sandbox_over(struct run *run)
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
    run_sandbox_over(run);
    return 0;
}

void run_await_end(struct run *run, uint64_t usec)
{
    run_arm(run, usec + RUN_ENDING_USEC, on_ending_timeout);
}

void run_end(struct run *run, uint64_t grace_usec)
{
    run->state = STATE_ENDING;
    run_note_live(run);
    run_await_end(run, grace_usec);
    /* Before go there is nothing to be gentle with or to explain: the end of file does it. */
    if ((run->go_usec == 0 && !stands_elsewhere(run)) || sandbox_kill(run->sandbox, grace_usec) < 0)
        run_sandbox_over(run);
}
