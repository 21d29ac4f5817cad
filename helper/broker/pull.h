/* Method PullImage: gets an image for a caller who may have it. */
#pragma once

#include "broker/manager.h"

/* Answers @call, now or later. Returns 0 or a negative errno for a failure of ours. */
int pull_begin(struct manager *manager, struct varlink_call *call);
