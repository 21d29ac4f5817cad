/* A run's sandbox from the pool, and how it does without. */
#include "broker/run-pool.h"
#include "broker/pool.h"
#include "broker/run-internal.h"

#include <stdio.h>
#include <systemd/sd-daemon.h>

bool run_pool_may_fill(const struct manager *manager)
{
    for (const struct run *run = manager->runs; run; run = run->next)
        if (run->state != STATE_AUTHORIZING && run->state != STATE_GOING &&
            run->state != STATE_REPORTING)
            return false;
    return true;
}

/* Nothing in it is more than anybody gets without asking. A network is the run's own to make, and
 * an egress process could not be handed a second socket. */
static bool may_take(const struct run *run)
{
    return !run->plan.cloud && !run->plan.limits.network && run->plan.n_packages == 0;
}

static bool is_default(const struct run *run)
{
    const struct limits *limits = &run->plan.limits, *usual = &run->manager->config.defaults;

    return run->plan.approvals == APPROVAL_RUN && limits->memory_bytes == usual->memory_bytes &&
           limits->cpu_percent == usual->cpu_percent;
}

void run_pool_take(struct run *run, sandbox_fn fn)
{
    const struct interpreter_command command = interpreter_command_of(&run->request, &run->plan);
    bool usual = interpreter_is_usual(&run->request, &run->plan);
    struct pool *pool = run->manager->pool;
    struct engine_start start;

    if (!may_take(run)) {
        pool_make_room(pool);
        return;
    }
    run_describe_sandbox(run, &start);
    if (is_default(run))
        pool_note(pool, run->plan.engine, &start, usual ? &command : NULL);
    struct pool_taken taken = pool_take(pool, run->plan.engine, &start, fn, run);
    pool_make_room(pool);
    run->sandbox = taken.sandbox;
    run->from_pool = taken.sandbox != NULL;
    if (!taken.sandbox || !taken.ready)
        return;
    run->warm = true;
    run_note_ready(run, taken.ready);
    if (interpreter_waits(&taken.interpreter) &&
        interpreter_fits(taken.command, &run->request, &run->plan))
        run->interpreter = taken.interpreter;
    else
        interpreter_close(&taken.interpreter);
    run_put_ahead(run);
}

bool run_pool_replace(struct run *run)
{
    if (!run->from_pool || run->state > STATE_FILLING)
        return false;
    fprintf(stderr, SD_NOTICE "run %s: the sandbox that waited was no good\n", run->id);
    run->from_pool = run->warm = run->is_put_ahead = false;
    interpreter_close(&run->interpreter);
    run->sandbox = sandbox_free(run->sandbox);
    run->n_put = 0;
    run->sandbox_id[0] = '\0';
    run_prepare(run);
    return true;
}
