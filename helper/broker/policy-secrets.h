/* Whether a request may run although it seems to hold credentials. Reads script and arguments of
 * the frozen request; changes nothing, and never repeats what it found. */
#pragma once

#include "broker/config.h"
#include "broker/refusal.h"
#include "broker/request.h"

/* Returns 0, -EPERM with a refusal that names the place, or another negative errno. */
int policy_secrets(const struct config *config, const struct request *request,
                   struct refusal *refusal);
