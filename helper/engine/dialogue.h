/* What an engine says to the broker, and hears from it and from the launcher, in the life of one
 * sandbox: the part that is the same for every engine of this machine. Called by their sandbox.c;
 * knows nothing of how a sandbox is made. */
#pragma once

#include "engine/counters.h"
#include "engine/protocol.h"
#include "launch/protocol.h"

/* How the wait for something ended. */
enum outcome {
    OUTCOME_READY,   /* the launcher's */
    OUTCOME_FAILED,  /* the launcher's end, or its silence */
    OUTCOME_GRACE,   /* the broker wants the program asked to end */
    OUTCOME_TIMEOUT, /* the sandbox's lifetime is over */
    OUTCOME_KILL,    /* asked for by the broker, who waits for an answer */
    OUTCOME_GONE,    /* the broker hung up, or talks nonsense */
};

/* Takes the broker's first word, a start or a prepare. Returns 0 or a negative errno. */
int dialogue_receive_request(int broker, struct engine_message *ret);

/* Answers a prepare. */
void dialogue_send_prepared(int broker, const char *image, const char *digest);

/* Tells the broker, in a sentence for the user, why there is no sandbox, and the journal, too. */
void dialogue_send_error(int broker, const char *sandbox, const char *phase, const char *sentence);

/* Waits @timeout_usec for the launcher's READY on @control, with the workspace. Returns
 * OUTCOME_READY, _FAILED, _KILL or _GONE. */
enum outcome dialogue_await_ready(int broker, int control, uint64_t timeout_usec,
                                  struct launch_ready *ret, int *ret_workspace);

/* The times at which a sandbox ends, of CLOCK_MONOTONIC. */
struct dialogue_ends {
    uint64_t lifetime, grace;
};
struct dialogue_ends dialogue_ends(const struct engine_start *start);

/* Takes what there is from the broker: OUTCOME_KILL with the grace period, or OUTCOME_GONE. */
enum outcome dialogue_receive_kill(int broker, uint64_t *ret_grace);

/* Waits for the broker's word, or its hanging up, or the end of a time. Returns OUTCOME_GRACE at
 * most once, and is to be called again then; else _TIMEOUT, _KILL or _GONE. */
enum outcome dialogue_await_end(int broker, struct dialogue_ends *ends);

static inline bool counter_is_known(uint64_t counter)
{
    return counter != UINT64_MAX;
}
/* What the broker is told of @counters. What the CPU time was before the program could start
 * (@cpu_before_usec) is left out: it was used to make the sandbox, in the same control group. */
struct engine_ended dialogue_count(const struct counters *counters, uint64_t cpu_before_usec);
/* The word for how it ended, by what was counted. */
enum engine_why dialogue_explain(const struct engine_ended *ended, bool timed_out);
/* Tells how it ended before the sandbox is removed, if nothing lives in it but the launcher. */
void dialogue_tell_end(int broker, struct engine_ended *ended);
/* The last word, after that. */
void dialogue_tell_removed(int broker, struct engine_ended *ended, bool cleaned);
