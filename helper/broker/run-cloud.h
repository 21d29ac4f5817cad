/* What a run in a cloud costs: admitted, taken from its user's day, and settled. Called by
 * methods.c, and by run*.c. */
#pragma once

#include "broker/manager.h"
#include "broker/policy.h"

/* Whether enough is left; nothing is taken. 0 or -EPERM, as policy_apply(). */
int run_cloud_admit(const struct manager *manager, uid_t uid, const struct plan *plan,
                    struct refusal *refusal);
