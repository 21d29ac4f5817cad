/* Method GetEngines: which there are, and how they stand. */
#pragma once

#include "broker/manager.h"

/* Answers @call, now or later. Returns 0 or a negative errno for a failure of ours. */
int engines_reply(struct manager *manager, struct varlink_call *call);
