/* What the queue asks of runs, for those who are no part of one. */
#pragma once

#include "broker/config.h"
#include "broker/policy.h"
#include "broker/refusal.h"

/* Whether a run by @plan could ever start. Returns 0, or -EPERM with a refusal. */
int run_queue_admit(const struct config *config, const struct plan *plan, struct refusal *refusal);

/* position, queued and reason of the event "queued". A new reference, or NULL out of memory. */
json_object *run_place_object(const struct queue_place *place);
