/* A run, from its frozen request to its report: the state machine that everything else serves. */
#pragma once

#include "broker/manager.h"
#include "broker/outcome.h"
#include "broker/policy.h"
#include "broker/request.h"

#define RUN_ID_TEXT 17 /* 64 random bits as hex digits, and NUL */

struct run;

/* Takes over @request and @plan (also on failure) and answers @call, now or later. */
void run_begin(struct manager *manager, struct varlink_call *call, struct request *request,
               struct plan *plan);
/* NULL if the caller has no such run that is not over. */
struct run *run_find(struct manager *manager, const char *id, uid_t uid);
/* Whether there is one of anybody's. */
bool run_is_known(const struct manager *manager, const char *id);
/* Whether a sandbox of the user's runs has this layer: one that outlived a helper has no claim. */
bool run_has_layer(const struct manager *manager, uid_t uid, const char *key);
/* The result object as far as it is known now. A new reference, or NULL out of memory. */
json_object *run_live_result(const struct run *run);
/* Ends the run: SIGTERM, the grace period, SIGKILL; with @kill without grace, also if it is being
 * ended already. What it made is kept. */
void run_cancel(struct run *run, bool kill);
/* The same for all runs, without grace, but for those that outlive this process. */
void run_cancel_all(struct manager *manager);
/* Whether there are runs but those that outlive this process. */
bool run_any_left(const struct manager *manager);
/* Starts what waits and may start. */
void run_dispatch(struct manager *manager);
/* Removes a run's staging directory in the background. Returns 0 or a negative errno. */
int run_discard_staging(struct store *store, const char *id);
/* Forgets all runs without a word; for the end of the process. */
void run_free_all(struct manager *manager);
