/* The clock by which the cloud itself ends a sandbox: seen to be set, and set anew while files that
 * take long are on their way, so that the program has all of its time. Called by sandbox.c. */
#pragma once

#include "control-plane.h"

struct life {
    struct cloud *cloud; /* borrowed, and so is the next */
    const struct cloud_sandbox *box;
    uint64_t usec;                               /* that it lives from when its clock is set */
    uint64_t asked_usec, created_usec, set_usec; /* CLOCK_MONOTONIC */
    uint64_t end_usec;                           /* by our own clock */
    struct http_watch *watch;
    int timer;
    bool is_checked;
    int error; /* of what was done while files were sent */
};

/* Adds a watch to the cloud's. Returns 0 or a negative errno. */
int life_open(struct life *life, struct cloud *cloud, const struct cloud_sandbox *box);
void life_close(struct life *life);

/* The seconds to ask for. The clock begins before the sandbox is asked for, so ours is never the
 * later one. */
uint64_t life_begin(struct life *life, uint64_t usec);
/* There is a sandbox. */
void life_created(struct life *life);
/* From here on requests to the sandbox have the clock looked at, and set, on their side. They end
 * with -ECANCELED if it is not right. */
void life_guard(struct life *life);
/* Before the program starts: the clock is right, and there is nearly all of its time. Returns 0, or
 * a negative errno with a sentence. */
int life_settle(struct life *life);
