/* The methods about runs that there are: each looks up the run among the caller's own, and those of
 * others are as good as none. Called by methods.c. */
#pragma once

#include "broker/manager.h"
#include "common/varlink.h"

/* Each answers @call, now or later. Returns 0 or a negative errno. */
int method_list(struct varlink_call *call, struct manager *manager);
int method_describe(struct varlink_call *call, struct manager *manager);
int method_cancel(struct varlink_call *call, struct manager *manager);
int method_remove(struct varlink_call *call, struct manager *manager);
int method_read(struct varlink_call *call, struct manager *manager);
