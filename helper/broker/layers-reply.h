/* Methods ListLayers and RemoveLayer: the caller's own layers. */
#pragma once

#include "broker/manager.h"

/* Each answers @call, now or later. Returns 0 or a negative errno for a failure of ours. */
int layers_reply_list(struct manager *manager, struct varlink_call *call);
int layers_reply_remove(struct manager *manager, struct varlink_call *call);
