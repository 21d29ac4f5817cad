/* The kinds of audit records, see audit-events.h. */
#include "client/audit-events.h"

#include <stddef.h>

#include "common/audit-ids.h"

const struct audit_event_name audit_event_names[] = {
    { "request", AUDIT_ID_REQUEST },
    { "decision", AUDIT_ID_DECISION },
    { "rejected", AUDIT_ID_REJECTED },
    { "start", AUDIT_ID_START },
    { "end", AUDIT_ID_END },
    { "saved", AUDIT_ID_SAVED },
    { "cleanup", AUDIT_ID_CLEANUP },
    { "connection", AUDIT_ID_CONNECTION },
    { "packages", AUDIT_ID_PACKAGES },
    { "pull", AUDIT_ID_PULL },
    { "marked", AUDIT_ID_MARKED },
    { "sweep", AUDIT_ID_SWEEP },
    { "held-back", AUDIT_ID_HELD_BACK },
    {},
};
