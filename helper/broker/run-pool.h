/* What the pool needs to know of the runs. */
#pragma once

#include "broker/manager.h"

/* No run is on its way to its program, or from it: so making a sandbox slows nobody down. */
bool run_pool_may_fill(const struct manager *manager);
