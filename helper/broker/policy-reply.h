/* The answer to GetPolicy: defaults, ceiling, and what polkit says now to anything between them. */
#pragma once

#include "broker/manager.h"

/* Reads the parameters of @call, and answers it, now or later. Returns 0 or a negative errno. */
int policy_reply(struct manager *manager, struct varlink_call *call);
