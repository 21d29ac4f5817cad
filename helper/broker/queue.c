/* The order of runs, see queue.h. Starting one is linear in the number of users who have something
 * here, and does not depend on how much they have. */
#include "broker/queue.h"
#include "common/quantity.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* A run that is too large for what is free lets so many others go first; then nothing starts until
 * it fits. What runs has a time limit, so it does one day. */
#define PASSED_OVER_MAX 4

struct queue_user {
    struct queue_user *previous, *next;
    uid_t uid;
    uint64_t n_running, n_entered, n_waiting;
    uint64_t memory_bytes, held_bytes;
    /* When it came, and was last served (0: not yet), by the number of such events. */
    uint64_t came, served;
    struct queue_item *first, *last;
};

/* ---- Users ---- */

static struct queue_user *find_user(const struct queue *queue, uid_t uid)
{
    struct queue_user *user = queue->users;

    while (user && user->uid != uid)
        user = user->next;
    return user;
}

static struct queue_user *find_or_make_user(struct queue *queue, uid_t uid)
{
    struct queue_user *user = find_user(queue, uid);

    if (user)
        return user;
    user = calloc(1, sizeof(*user));
    if (!user)
        return NULL;
    user->uid = uid;
    user->came = ++queue->n_events;
    user->next = queue->users;
    if (user->next)
        user->next->previous = user;
    queue->users = user;
    return user;
}

static void forget_if_gone(struct queue *queue, struct queue_user *user)
{
    if (user->n_running + user->n_entered + user->n_waiting > 0)
        return;
    if (user->previous)
        user->previous->next = user->next;
    else
        queue->users = user->next;
    if (user->next)
        user->next->previous = user->previous;
    free(user);
}

/* ---- Coming and going ---- */

static uint64_t free_places(uint64_t limit, uint64_t used)
{
    return used < limit ? limit - used : 0;
}

static enum queue_room find_room(const struct queue *queue, const struct queue_user *user,
                                 const struct queue_item *item)
{
    const struct queue_limits *limits = &queue->limits;

    /* Those that may start at once are no queue. */
    if (user->n_entered + user->n_waiting >=
        limits->queued_per_user + free_places(limits->runs_per_user, user->n_running))
        return QUEUE_USER_FULL;
    if (queue->n_waiting >= limits->queued + free_places(limits->runs, queue->n_running))
        return QUEUE_MACHINE_FULL;
    if (limits->held_per_user_bytes > 0 &&
        (item->held_bytes > limits->held_per_user_bytes ||
         user->held_bytes > limits->held_per_user_bytes - item->held_bytes))
        return QUEUE_USER_HOLDS;
    return QUEUE_ROOM;
}

static void enter(struct queue *queue, struct queue_user *user, struct queue_item *item)
{
    item->stage = QUEUE_ENTERED;
    item->user = user;
    user->n_entered++;
    user->held_bytes += item->held_bytes;
    queue->n_waiting++;
}

int queue_enter(struct queue *queue, struct queue_item *item)
{
    struct queue_user *user = find_or_make_user(queue, item->uid);

    if (!user)
        return -ENOMEM;
    enum queue_room room = find_room(queue, user, item);
    if (room != QUEUE_ROOM) {
        forget_if_gone(queue, user);
        return (int)room;
    }
    enter(queue, user, item);
    return 0;
}

int queue_line_up_again(struct queue *queue, struct queue_item *item)
{
    struct queue_user *user = find_or_make_user(queue, item->uid);

    if (!user)
        return -ENOMEM;
    enter(queue, user, item);
    queue_line_up(queue, item);
    return 0;
}

void queue_line_up(struct queue *queue, struct queue_item *item)
{
    struct queue_user *user = item->user;

    item->stage = QUEUE_WAITING;
    user->n_entered--;
    user->n_waiting++;
    item->next = NULL;
    item->previous = user->last;
    if (user->last)
        user->last->next = item;
    else
        user->first = item;
    user->last = item;
}

static void leave_line(struct queue_item *item)
{
    struct queue_user *user = item->user;

    if (item->previous)
        item->previous->next = item->next;
    else
        user->first = item->next;
    if (item->next)
        item->next->previous = item->previous;
    else
        user->last = item->previous;
    item->previous = item->next = NULL;
    user->n_waiting--;
}

static void begin_running(struct queue *queue, struct queue_item *item)
{
    struct queue_user *user = item->user;

    item->stage = QUEUE_RUNNING;
    user->n_running++;
    user->memory_bytes += item->memory_bytes;
    user->served = ++queue->n_events;
    queue->n_running++;
    queue->memory_bytes += item->memory_bytes;
    queue->cpu_percent += item->cpu_percent;
}

int queue_adopt(struct queue *queue, struct queue_item *item)
{
    struct queue_user *user = find_or_make_user(queue, item->uid);

    if (!user)
        return -ENOMEM;
    item->user = user;
    user->held_bytes += item->held_bytes;
    begin_running(queue, item);
    return 0;
}

void queue_shrink(struct queue *queue, struct queue_item *item, uint64_t memory_bytes,
                  uint64_t cpu_percent, uint64_t held_bytes)
{
    if (item->stage != QUEUE_RUNNING)
        return;
    queue->cpu_percent -= item->cpu_percent - cpu_percent;
    queue->memory_bytes -= item->memory_bytes - memory_bytes;
    item->user->memory_bytes -= item->memory_bytes - memory_bytes;
    item->user->held_bytes -= item->held_bytes - held_bytes;
    item->memory_bytes = memory_bytes;
    item->cpu_percent = cpu_percent;
    item->held_bytes = held_bytes;
}

void queue_leave(struct queue *queue, struct queue_item *item)
{
    struct queue_user *user = item->user;

    switch (item->stage) {
    case QUEUE_OUTSIDE:
        return;
    case QUEUE_ENTERED:
        user->n_entered--;
        queue->n_waiting--;
        break;
    case QUEUE_WAITING:
        leave_line(item);
        queue->n_waiting--;
        break;
    case QUEUE_RUNNING:
    default:
        user->n_running--;
        user->memory_bytes -= item->memory_bytes;
        queue->n_running--;
        queue->memory_bytes -= item->memory_bytes;
        queue->cpu_percent -= item->cpu_percent;
    }
    user->held_bytes -= item->held_bytes;
    item->stage = QUEUE_OUTSIDE;
    item->user = NULL;
    forget_if_gone(queue, user);
}

/* ---- Whose turn it is ---- */

static bool exceeds(uint64_t limit, uint64_t used, uint64_t more)
{
    return limit > 0 && (more > limit || used > limit - more);
}

/* What keeps the first one of a line from starting. */
enum obstacle {
    OBSTACLE_NONE,
    OBSTACLE_USER_RUNS,
    OBSTACLE_USER_MEMORY,
    OBSTACLE_RUNS, /* the machine's, from here on */
    OBSTACLE_MEMORY,
    OBSTACLE_CPUS,
};

static enum obstacle find_obstacle(const struct queue *queue, const struct queue_item *item)
{
    const struct queue_limits *limits = &queue->limits;
    const struct queue_user *user = item->user;

    if (user->n_running >= limits->runs_per_user)
        return OBSTACLE_USER_RUNS;
    if (exceeds(limits->memory_per_user_bytes, user->memory_bytes, item->memory_bytes))
        return OBSTACLE_USER_MEMORY;
    if (queue->n_running >= limits->runs)
        return OBSTACLE_RUNS;
    if (exceeds(limits->memory_bytes, queue->memory_bytes, item->memory_bytes))
        return OBSTACLE_MEMORY;
    if (exceeds(limits->cpu_percent, queue->cpu_percent, item->cpu_percent))
        return OBSTACLE_CPUS;
    return OBSTACLE_NONE;
}

/* Was not served for longer. */
static bool is_more_patient(const struct queue_user *a, const struct queue_user *b)
{
    return a->served != b->served ? a->served < b->served : a->came < b->came;
}

static bool comes_before(const struct queue_user *a, const struct queue_user *b)
{
    return a->n_running != b->n_running ? a->n_running < b->n_running : is_more_patient(a, b);
}

/* It is too large for what is free, and nothing else keeps it. */
static bool is_too_large(enum obstacle obstacle)
{
    return obstacle == OBSTACLE_MEMORY || obstacle == OBSTACLE_CPUS;
}

static struct queue_user *find_turn(const struct queue *queue)
{
    struct queue_user *turn = NULL;

    for (struct queue_user *user = queue->users; user; user = user->next) {
        if (!user->first)
            continue;
        enum obstacle obstacle = find_obstacle(queue, user->first);
        if (is_too_large(obstacle) && user->first->passed_over >= PASSED_OVER_MAX)
            return NULL;
        if (obstacle == OBSTACLE_NONE && (!turn || comes_before(user, turn)))
            turn = user;
    }
    return turn;
}

struct queue_item *queue_take(struct queue *queue)
{
    struct queue_user *turn = queue->n_running < queue->limits.runs ? find_turn(queue) : NULL;
    struct queue_item *item;

    if (!turn)
        return NULL;
    for (struct queue_user *user = queue->users; user; user = user->next)
        if (user->first && comes_before(user, turn) &&
            is_too_large(find_obstacle(queue, user->first)))
            user->first->passed_over++;
    item = turn->first;
    leave_line(item);
    queue->n_waiting--;
    begin_running(queue, item);
    return item;
}

/* ---- Places ---- */

uint64_t queue_waiting_of(const struct queue *queue, uid_t uid)
{
    const struct queue_user *user = find_user(queue, uid);

    return user ? user->n_entered + user->n_waiting : 0;
}

/* How many of @other's come before the @nth of @user's, if each start takes as long: what would be
 * @user's turn number n_running + nth is @other's after as many turns. */
static uint64_t ahead(const struct queue_user *other, const struct queue_user *user, uint64_t nth)
{
    uint64_t turn = user->n_running + nth + (is_more_patient(other, user) ? 1 : 0);
    uint64_t n = turn > other->n_running ? turn - other->n_running : 0;

    return n < other->n_waiting ? n : other->n_waiting;
}

static void say_reason(const struct queue *queue, const struct queue_item *item, uint64_t nth,
                       struct queue_place *ret)
{
    const struct queue_limits *limits = &queue->limits;
    const struct queue_user *user = item->user;
    char used[QUANTITY_TEXT], all[QUANTITY_TEXT];
    size_t size = sizeof(ret->reason);

    switch (find_obstacle(queue, item)) {
    case OBSTACLE_USER_RUNS:
        if (limits->runs_per_user == 1)
            snprintf(ret->reason, size, "Another run of yours has its turn.");
        else
            snprintf(ret->reason, size, "Your %" PRIu64 " runs at once are taken.",
                     limits->runs_per_user);
        break;
    case OBSTACLE_USER_MEMORY:
        snprintf(ret->reason, size, "Your memory for runs is taken: %s of %s.",
                 format_bytes(user->memory_bytes, used),
                 format_bytes(limits->memory_per_user_bytes, all));
        break;
    case OBSTACLE_RUNS:
        snprintf(ret->reason, size, "The machine's %" PRIu64 " runs at once are taken.",
                 limits->runs);
        break;
    case OBSTACLE_MEMORY:
        snprintf(ret->reason, size, "The machine's memory for runs is taken: %s of %s.",
                 format_bytes(queue->memory_bytes, used), format_bytes(limits->memory_bytes, all));
        break;
    case OBSTACLE_CPUS:
        snprintf(ret->reason, size,
                 "The machine's CPUs for runs are taken: %" PRIu64 ".%02" PRIu64 " of %" PRIu64
                 ".%02" PRIu64 ".",
                 queue->cpu_percent / 100, queue->cpu_percent % 100, limits->cpu_percent / 100,
                 limits->cpu_percent % 100);
        break;
    case OBSTACLE_NONE:
    default:
        snprintf(ret->reason, size, "%s",
                 nth > 0 ? "Other runs of yours come first." : "Runs of other users come first.");
    }
}

/* Of the @nth in its user's line. */
static void make_place(const struct queue *queue, const struct queue_item *item, uint64_t nth,
                       struct queue_place *ret)
{
    *ret = (struct queue_place){ .position = nth, .queued = queue->n_waiting };
    for (const struct queue_user *other = queue->users; other; other = other->next)
        if (other != item->user)
            ret->position += ahead(other, item->user, nth);
    say_reason(queue, item, nth, ret);
}

void queue_find_place(const struct queue *queue, const struct queue_item *item,
                      struct queue_place *ret)
{
    uint64_t nth = 0;

    for (const struct queue_item *before = item->previous; before; before = before->previous)
        nth++;
    make_place(queue, item, nth, ret);
}

void queue_foreach(const struct queue *queue,
                   void (*fn)(struct queue_item *, const struct queue_place *, void *),
                   void *userdata)
{
    struct queue_place place;

    for (const struct queue_user *user = queue->users; user; user = user->next) {
        uint64_t nth = 0;
        for (struct queue_item *item = user->first; item; item = item->next) {
            make_place(queue, item, nth++, &place);
            fn(item, &place, userdata);
        }
    }
}

bool queue_could_fit(const struct queue_limits *limits, uint64_t memory_bytes, uint64_t cpu_percent,
                     char *reason)
{
    char all[QUANTITY_TEXT], asked[QUANTITY_TEXT];

    if (exceeds(limits->memory_bytes, 0, memory_bytes))
        snprintf(reason, 256, "It needs %s of memory, and runs have %s together on this machine.",
                 format_bytes(memory_bytes, asked), format_bytes(limits->memory_bytes, all));
    else if (exceeds(limits->memory_per_user_bytes, 0, memory_bytes))
        snprintf(reason, 256, "It needs %s of memory, and all your runs have %s together.",
                 format_bytes(memory_bytes, asked),
                 format_bytes(limits->memory_per_user_bytes, all));
    else if (exceeds(limits->cpu_percent, 0, cpu_percent))
        snprintf(reason, 256,
                 "It needs %" PRIu64 "%% of a CPU, and runs have %" PRIu64
                 "%% together on this machine.",
                 cpu_percent, limits->cpu_percent);
    else
        return true;
    return false;
}
