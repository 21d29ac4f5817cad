/* The cloud time of runs, see run-cloud.h. A run takes all that its sandbox may live, which is its
 * time limit and a margin, when that is asked for, more as long as its files are sent, and gives
 * back what it did not need when it is over: so no number of runs at once can have more than the
 * day has, but for a few seconds each. */
#include "broker/run-cloud.h"
#include "broker/config-words.h"
#include "broker/run-internal.h"
#include "common/clock.h"
#include "common/quantity.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <systemd/sd-daemon.h>

#define DAY_USEC (86400 * USEC_PER_SEC)

static uint64_t life_usec(const struct plan *plan)
{
    return plan->limits.timeout_usec + RUN_LIFETIME_MARGIN_USEC;
}

static void say(struct refusal *refusal, uint64_t left_usec, uint64_t limit_usec,
                uint64_t wanted_usec)
{
    uint64_t renews = DAY_USEC - clock_usec(CLOCK_REALTIME) % DAY_USEC;
    char left[QUANTITY_TEXT], limit[QUANTITY_TEXT], wanted[QUANTITY_TEXT], wait[QUANTITY_TEXT];
    char less[64] = "";

    *refusal = (struct refusal){ .kind = REFUSAL_REJECTED, .field = "engine" };
    snprintf(refusal->reason, sizeof(refusal->reason),
             "This run's sandbox may live %s in the cloud, and %s are left of your %s a day.",
             format_usec(wanted_usec, wanted), format_usec(left_usec, left),
             format_usec(limit_usec, limit));
    if (left_usec >= RUN_LIFETIME_MARGIN_USEC + USEC_PER_SEC)
        snprintf(less, sizeof(less), "Ask for less with --timeout %" PRIu64 "s. ",
                 (left_usec - RUN_LIFETIME_MARGIN_USEC) / USEC_PER_SEC);
    snprintf(refusal->hint, sizeof(refusal->hint),
             "%sThe next day begins at 00:00 UTC, in %s. Runs that have not ended count with all "
             "that they may take.",
             less, format_usec(renews / (60 * USEC_PER_SEC) * (60 * USEC_PER_SEC), wait));
}

int run_cloud_admit(const struct manager *manager, uid_t uid, const struct plan *plan,
                    struct refusal *refusal)
{
    if (!plan->cloud)
        return 0;
    uint64_t left = cloud_budget_left(manager->budget, uid, clock_usec(CLOCK_REALTIME));
    if (life_usec(plan) <= left)
        return 0;
    say(refusal, left, manager->config.cloud_seconds * USEC_PER_SEC, life_usec(plan));
    return -EPERM;
}

bool run_cloud_take(struct run *run)
{
    json_object *fields;
    struct refusal refusal;

    if (!run->plan.cloud)
        return true;
    int r = cloud_budget_take(run->manager->budget, run->uid, life_usec(&run->plan),
                              clock_usec(CLOCK_REALTIME), &run->cloud.day);
    if (r >= 0) {
        run->cloud.is_taken = true;
        run->cloud.taken_usec = life_usec(&run->plan);
        run->cloud.from_usec = clock_usec(CLOCK_BOOTTIME);
        (void)run_note(run, RUN_STARTING);
        (void)index_sync(run->manager->index);
        return true;
    }
    fields = json_object_new_object();
    if (r != -EDQUOT || run_cloud_admit(run->manager, run->uid, &run->plan, &refusal) >= 0) {
        fprintf(stderr, SD_ERR "run %s: cloud time: %s\n", run->id, strerror(-r));
        run_refuse(run, RUN_REJECTED, "io.sbxctl.Sandbox.Failed", fields,
                   "The time in the cloud could not be noted, so nothing was run.");
        return false;
    }
    (void)json_add_string(fields, "field", refusal.field);
    (void)json_add_string(fields, "hint", refusal.hint);
    run_refuse(run, RUN_REJECTED, "io.sbxctl.Sandbox.Rejected", fields, refusal.reason);
    return false;
}

/* A day that is over is owed nothing, and the new one has no part in this run. */
bool run_cloud_take_more(struct run *run, uint64_t usec)
{
    if (!run->cloud.is_taken)
        return true;
    int r = cloud_budget_take_more(run->manager->budget, run->uid, run->cloud.day, usec,
                                   clock_usec(CLOCK_REALTIME));
    if (r >= 0)
        run->cloud.taken_usec += usec;
    return r >= 0 || r == -ESTALE;
}

void run_cloud_over(struct run *run)
{
    if (run->cloud.is_taken && run->cloud.to_usec == 0)
        run->cloud.to_usec = clock_usec(CLOCK_BOOTTIME);
}

uint64_t run_cloud_of_lost(const struct manager *manager, json_object *result,
                           uint64_t created_usec)
{
    const char *engine = json_get_string(result, "engine");
    const char *status = json_get_string(result, "status");
    uint64_t now = clock_usec(CLOCK_REALTIME), life = RUN_UPLOAD_USEC + RUN_LIFETIME_MARGIN_USEC;
    uint64_t since = now > created_usec ? now - created_usec : 0;
    json_object *policy, *timeout;

    if (!engine || !status || strcmp(status, run_status_name(RUN_STARTING)) != 0 ||
        !words_have(manager->config.cloud_engines, engine, strlen(engine)))
        return UINT64_MAX;
    if (json_object_object_get_ex(result, "policy", &policy) &&
        json_object_object_get_ex(policy, "timeoutUSec", &timeout))
        life += json_object_get_uint64(timeout);
    return since < life ? since : life;
}

uint64_t run_cloud_usec(const struct run *run)
{
    uint64_t to = run->cloud.to_usec ? run->cloud.to_usec : clock_usec(CLOCK_BOOTTIME);

    return run->cloud.is_taken ? to - run->cloud.from_usec : UINT64_MAX;
}

void run_cloud_settle(struct run *run)
{
    if (run->cloud.is_taken)
        cloud_budget_settle(run->manager->budget, run->uid, run->cloud.day, run->cloud.taken_usec,
                            run_cloud_usec(run));
    run->cloud.is_taken = false;
}
