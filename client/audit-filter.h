/* Which runs and records an administrator asked for. Called by audit.c. */
#pragma once

#include <stdbool.h>

#include "common/json.h"

/* NULL is any. */
struct audit_filter {
    const char *user;    /* a name or a uid */
    const char *run;     /* the id, or its beginning */
    const char *verdict; /* how it ended, what was decided, how it was marked */
    const char *engine;
    const char *host; /* a name or address that was connected to, may have wildcards */
};

/* By a run of audit_runs_list(), of which one connection is enough for a host. */
bool audit_filter_takes_run(const struct audit_filter *filter, json_object *run);
/* By a record of audit_journal_next(). */
bool audit_filter_takes_record(const struct audit_filter *filter, json_object *record);
/* By one of the connections of a run that is taken. */
bool audit_filter_takes_connection(const struct audit_filter *filter, json_object *connection);
