/* The answer to a dry run: what a run would have, and what polkit says to it now, asked without
 * interaction. */
#pragma once

#include "broker/manager.h"
#include "broker/policy.h"
#include "broker/request.h"

/* Takes over @request and @plan and answers @call, now or later. */
void plan_reply(struct manager *manager, struct varlink_call *call, struct request *request,
                struct plan *plan);
