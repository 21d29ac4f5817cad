/* The environment of a program. Called by policy.c. Pure, as policy.h is. */
#pragma once

#include "broker/policy.h"

/* Makes .environment by the plan's limits and the request's variables, which win. Returns 0 or
 * -ENOMEM; what is made so far is the plan's. */
int policy_environment(const struct request *request, struct plan *plan);
