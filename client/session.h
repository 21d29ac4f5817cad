/* A run while it goes on: the connection, the streams, signals and progress in one loop. Called by
 * run.c; shows nothing but progress and what concerns the connection. */
#pragma once

#include <stdbool.h>

#include "client/request.h"
#include "common/varlink.h"

struct session_options {
    bool pass_input;    /* our stdin is the run's */
    bool pass_output;   /* the run's output is written to ours, else only kept by the helper */
    bool shows_dialogs; /* a dialog appears on our terminal, and says what it is about */
};

/* Sends method Run over @client and waits until the run has ended and its output is passed on.
 * Takes SIGINT, SIGTERM and SIGHUP for itself: the first SIGINT cancels the run, the second kills
 * it, and its result is still awaited; the third, or another of them, ends the connection and with
 * it the run, whose outputs are kept all the same. Returns 0
 * with the final answer in @ret (to be released), or the exit status of a failure that has been
 * told. The final answer may be the helper's error. */
int session_run(struct varlink_client *client, struct request *request,
                const struct session_options *options, struct varlink_answer *ret);
