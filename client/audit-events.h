/* The kinds of audit records. */
#pragma once

/* What a record may be about: its event and the catalog's id of it. */
struct audit_event_name {
    const char *name, *id;
};
/* All of them, ended by one without a name. */
extern const struct audit_event_name audit_event_names[];
