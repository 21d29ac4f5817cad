/* Runs in the queue: what each needs, who gets a turn, and what those who wait are told. The order
 * itself is in queue.c. */
#include "broker/attach.h"
#include "broker/install.h"
#include "broker/run-internal.h"
#include "broker/run-queue.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* Places change with each start; callers are told at most so often. */
#define PLACES_USEC (250 * 1000ULL)

static struct run *run_of(struct queue_item *item)
{
    return (struct run *)((char *)item - offsetof(struct run, item));
}

/* ---- What a run needs ---- */

/* In a cloud it needs nothing of this machine's but the room that its files come home to. */
static uint64_t run_memory(const struct config *config, const struct plan *plan)
{
    return plan->cloud ? config->workspace_bytes : plan->limits.memory_bytes;
}

static uint64_t run_cpus(const struct plan *plan)
{
    return plan->cloud ? 0 : plan->limits.cpu_percent;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Its packages may have to be installed first, in a sandbox that is larger than its own. */
static void find_needs(const struct config *config, const struct plan *plan, uint64_t *ret_memory,
                       uint64_t *ret_cpus)
{
    *ret_memory = run_memory(config, plan);
    *ret_cpus = run_cpus(plan);
    if (plan->n_packages == 0)
        return;
    *ret_memory = larger(*ret_memory, install_memory(config));
    *ret_cpus = larger(*ret_cpus, install_cpus(config));
}

int run_queue_admit(const struct config *config, const struct plan *plan, struct refusal *refusal)
{
    const char *field;
    char reason[256];
    uint64_t memory, cpus;

    find_needs(config, plan, &memory, &cpus);
    if (!queue_could_fit(&config->queue, memory, 0, reason))
        field = memory > run_memory(config, plan) ? "packages" : "memoryBytes";
    else if (!queue_could_fit(&config->queue, 0, cpus, reason))
        field = cpus > run_cpus(plan) ? "packages" : "cpuPercent";
    else
        return 0;
    return refusal_reject(refusal, field,
                          "Ask for less, or have the administrator raise the limits of [Queue].",
                          "This run could never start. %s", reason);
}

static uint64_t held_bytes(const struct request *request)
{
    uint64_t sum = request->script_bytes;
    struct stat st;

    for (size_t i = 0; i < request->n_inputs; i++)
        sum += request->inputs[i].size;
    if (request->stdin_memfd >= 0 && fstat(request->stdin_memfd, &st) == 0)
        sum += (uint64_t)st.st_size;
    return sum;
}

static void fill_item(struct run *run)
{
    run->item.uid = run->uid;
    run->item.held_bytes = held_bytes(&run->request);
    find_needs(&run->manager->config, &run->plan, &run->item.memory_bytes, &run->item.cpu_percent);
}

/* ---- Coming in ---- */

static void refuse_full(struct run *run, enum queue_room room)
{
    const struct queue *queue = &run->manager->queue;
    bool machine = room == QUEUE_MACHINE_FULL;
    json_object *fields = json_object_new_object();
    char reason[128];
    uint64_t queued = machine ? queue->n_waiting : queue_waiting_of(queue, run->uid);
    uint64_t limit = machine ? queue->limits.queued : queue->limits.queued_per_user;

    if (room == QUEUE_USER_HOLDS)
        snprintf(reason, sizeof(reason),
                 "The files of your runs that wait take too much memory together already.");
    else
        snprintf(reason, sizeof(reason), "Too many %s waiting already: %llu.",
                 machine ? "runs of all users are" : "of your runs are",
                 (unsigned long long)queued);
    (void)json_add_uint64(fields, "queued", queued);
    (void)json_add_uint64(fields, "limit", limit);
    run_refuse(run, RUN_REJECTED, "io.sbxctl.Sandbox.QueueFull", fields, reason);
}

bool run_enter_queue(struct run *run)
{
    fill_item(run);
    int r = queue_enter(&run->manager->queue, &run->item);
    if (r < 0)
        run_refuse(run, RUN_REJECTED, "io.sbxctl.Sandbox.Failed", NULL,
                   "The run could not be queued.");
    else if (r > 0)
        refuse_full(run, (enum queue_room)r);
    return r == 0;
}

void run_line_up(struct run *run)
{
    run->told_position = UINT64_MAX;
    queue_line_up(&run->manager->queue, &run->item);
}

int run_queue_again(struct run *run)
{
    fill_item(run);
    run->told_position = UINT64_MAX;
    return queue_line_up_again(&run->manager->queue, &run->item);
}

int run_queue_running(struct run *run)
{
    run->item.uid = run->uid;
    run->item.memory_bytes = run_memory(&run->manager->config, &run->plan);
    run->item.cpu_percent = run_cpus(&run->plan);
    return queue_adopt(&run->manager->queue, &run->item);
}

/* ---- Places ---- */

json_object *run_place_object(const struct queue_place *place)
{
    _cleanup_json_ json_object *object = json_object_new_object();

    if (!object || json_add_uint64(object, "position", place->position) < 0 ||
        json_add_uint64(object, "queued", place->queued) < 0 ||
        json_add_string(object, "reason", place->reason) < 0)
        return NULL;
    return TAKE_PTR(object);
}

static void tell_place(struct queue_item *item, const struct queue_place *place, void *userdata)
{
    struct run *run = run_of(item);
    json_object *more;

    if (run->told_position == place->position || (!run->call && !run->manager->attachments))
        return;
    run->told_position = place->position;
    more = run_place_object(place);
    if (more)
        run_notify(run, "queued", more, NULL, 0);
}

static int on_places(sd_event_source *source, uint64_t usec, void *userdata)
{
    struct manager *manager = userdata;

    manager->places = sd_event_source_disable_unref(manager->places);
    queue_foreach(&manager->queue, tell_place, NULL);
    return 0;
}

static void tell_places_soon(struct manager *manager)
{
    if (!manager->places && manager->queue.n_waiting > 0)
        (void)sd_event_add_time_relative(manager->event, &manager->places, CLOCK_MONOTONIC,
                                         PLACES_USEC, 0, on_places, manager);
}

/* ---- Turns ---- */

/* A run that is refused at its start frees itself and comes back here, and so might all that wait:
 * one after the other, not each within the one before. */
void run_dispatch(struct manager *manager)
{
    struct queue_item *item;

    if (manager->dispatching || manager->stopping)
        return;
    manager->dispatching = true;
    while ((item = queue_take(&manager->queue)))
        run_start(run_of(item));
    manager->dispatching = false;
    tell_places_soon(manager);
}

void run_needs_less(struct run *run)
{
    queue_shrink(&run->manager->queue, &run->item, run_memory(&run->manager->config, &run->plan),
                 run_cpus(&run->plan), run->item.held_bytes);
    run_dispatch(run->manager);
}

void run_holds_nothing(struct run *run)
{
    queue_shrink(&run->manager->queue, &run->item, run->item.memory_bytes, run->item.cpu_percent,
                 0);
}

void run_leave_queue(struct run *run)
{
    queue_leave(&run->manager->queue, &run->item);
    run_dispatch(run->manager);
}
