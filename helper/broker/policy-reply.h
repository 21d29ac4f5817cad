/* The answer to GetPolicy: defaults, ceiling, and what polkit says now to anything between them. */
#pragma once

#include "broker/manager.h"

/* Answers @call, now or later. Returns 0 or a negative errno. */
int policy_reply(struct manager *manager, struct varlink_call *call);
