/* Who comes next: the order in which runs get their turn, and what runs may have together, of each
 * user and of the machine. Fair between users: of those who could start one, the one with the
 * fewest running, and of these the one who was not served for longest; within a user, first come,
 * first served. Knows nothing of runs, clocks and callers: run-queue.c does. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* 0 is no limit, but for the numbers of runs. What is promised to running ones together never goes
 * above: a machine that promises more memory than it has swaps, or kills. */
struct queue_limits {
    uint64_t runs, runs_per_user;     /* at once */
    uint64_t queued, queued_per_user; /* that wait */
    uint64_t memory_bytes, memory_per_user_bytes;
    uint64_t cpu_percent;
    uint64_t held_per_user_bytes; /* content of files that waits with its run */
};

struct queue_user;

/* One run, in the struct of its owner. The first four are set before queue_enter(). */
struct queue_item {
    uid_t uid;
    uint64_t memory_bytes, cpu_percent, held_bytes;
    enum { QUEUE_OUTSIDE, QUEUE_ENTERED, QUEUE_WAITING, QUEUE_RUNNING } stage;
    unsigned passed_over; /* how often others started while it was its turn, but too large */
    struct queue_user *user;
    struct queue_item *previous, *next; /* in the user's line */
};

struct queue {
    struct queue_limits limits;
    struct queue_user *users; /* those who have anything here */
    uint64_t n_running, n_waiting;
    uint64_t memory_bytes, cpu_percent; /* promised */
    uint64_t n_events;
};

enum queue_room {
    QUEUE_ROOM,
    QUEUE_USER_FULL,    /* too many of the user's wait */
    QUEUE_MACHINE_FULL, /* too many wait */
    QUEUE_USER_HOLDS,   /* those of the user that wait hold too much content */
};

/* Takes the item in, not in line yet: it is to be approved. Returns 0, a positive enum queue_room,
 * or -ENOMEM; then the item is outside. */
int queue_enter(struct queue *queue, struct queue_item *item);
/* Puts it at the end of its user's line. */
void queue_line_up(struct queue *queue, struct queue_item *item);
/* The one whose turn it is, running from here on; NULL if nobody can start now. */
struct queue_item *queue_take(struct queue *queue);
/* In line from outside, whether there is room or not: it was let in by an earlier process. Returns
 * 0 or -ENOMEM. */
int queue_line_up_again(struct queue *queue, struct queue_item *item);
/* The same for one that runs already, from outside: it was started by an earlier process. Returns 0
 * or -ENOMEM. */
int queue_adopt(struct queue *queue, struct queue_item *item);
/* From here on a running one needs only so much, which must not be more. */
void queue_shrink(struct queue *queue, struct queue_item *item, uint64_t memory_bytes,
                  uint64_t cpu_percent, uint64_t held_bytes);
/* In whatever stage it is; one that is outside stays there. */
void queue_leave(struct queue *queue, struct queue_item *item);

/* How many of the user's wait, those that are to be approved among them. */
uint64_t queue_waiting_of(const struct queue *queue, uid_t uid);

/* Where a waiting one stands. */
struct queue_place {
    uint64_t position; /* how many come first, as far as can be told */
    uint64_t queued;   /* how many wait in all */
    char reason[160];  /* what it waits for, as a sentence */
};
void queue_find_place(const struct queue *queue, const struct queue_item *item,
                      struct queue_place *ret);
/* Calls @fn for all that wait, user by user, with their places. @fn must not change the queue. */
void queue_foreach(const struct queue *queue,
                   void (*fn)(struct queue_item *, const struct queue_place *, void *),
                   void *userdata);

/* Whether it could run if nothing else did. If not, @reason (256 bytes) says why. */
bool queue_could_fit(const struct queue_limits *limits, uint64_t memory_bytes, uint64_t cpu_percent,
                     char *reason);
