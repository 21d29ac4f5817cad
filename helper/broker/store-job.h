/* One job of the store, in a process of its own: requests become acts here. Called by the store
 * process after a fork. */
#pragma once

#include "broker/store-protocol.h"

/* Touches what jobs write to. Pages that a fork shares are copied when they are first written to,
 * which takes as long as all of a small job: best before somebody waits for it. */
void store_job_rehearse(void);

/* Does what @request says, answers on @job and, after a collection, waits there for what comes
 * next. Takes over the fds @payload and @workspace (-1 for none). @state is the state directory.
 * Returns when the job is over. */
void store_job_run(int state, const struct store_request *request, int job, int payload,
                   int workspace);
