/* Runs that outlived the last broker go on in this one. Called at its start, before anything is
 * swept. */
#pragma once

#include "broker/fd-store.h"
#include "broker/manager.h"

/* Takes all runs out of @store that can be understood; what is left of others ends with it. */
void runs_restore(struct manager *manager, struct fd_store *store);
/* Lets them go on; to be called when the rest of @manager is ready. */
void runs_go_on(struct manager *manager);
