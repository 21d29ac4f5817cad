/* What a run in a cloud costs: admitted, taken from its user's day, and settled. Called by
 * methods.c, by recover.c for the runs of a helper that was killed, and by run*.c. */
#pragma once

#include "broker/manager.h"
#include "broker/policy.h"

/* Whether enough is left; nothing is taken. 0 or -EPERM, as policy_apply(). */
int run_cloud_admit(const struct manager *manager, uid_t uid, const struct plan *plan,
                    struct refusal *refusal);
/* What a run at most took in a cloud that nobody knows the end of, by its last @result: UINT64_MAX
 * if it was in none. */
uint64_t run_cloud_of_lost(const struct manager *manager, json_object *result,
                           uint64_t created_usec);
