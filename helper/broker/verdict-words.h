/* What callers are told while approval is asked for, and when it was not given. Called by whoever
 * asks for approvals. */
#pragma once

#include "broker/approve.h"
#include "common/json.h"

/* The answer to a call that was not approved. */
struct verdict_answer {
    const char *decision; /* in the journal; static */
    char error[64];       /* of the interface, in full */
    char reason[512];
    json_object *fields; /* "action" and "hint"; a new reference, or NULL out of memory */
};

/* Not for VERDICT_ALLOWED. @plan and @defaults say what was asked for. */
void verdict_answer(const struct approval_verdict *verdict, const struct plan *plan,
                    const struct limits *defaults, struct verdict_answer *ret);

/* That a dialog of @action is open, so that whoever waits knows for what: "phase" and "action". A
 * new reference, or NULL out of memory. */
json_object *verdict_awaited(unsigned approvals, const char *action, const struct plan *plan,
                             const struct limits *defaults);
