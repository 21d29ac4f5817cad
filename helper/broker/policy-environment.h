/* The environment of a program. Called by policy.c. Pure, as policy.h is. */
#pragma once

#include "broker/policy.h"

/* Makes .environment by the plan's limits and the request's variables, which win. Returns 0 or
 * -ENOMEM; what is made so far is the plan's. */
int policy_environment(const struct request *request, struct plan *plan);

/* The environment of an installation, which nothing of the run has a part in. Entries are static.
 * Returns how many. */
#define INSTALLER_ENVIRONMENT_MAX 32
size_t installer_environment(bool with_network, char *ret[INSTALLER_ENVIRONMENT_MAX]);
