/* The command line of sbxctl audit. Called by audit.c. */
#pragma once

#include "client/audit-filter.h"
#include "client/audit-show.h"
#include "client/verb.h"

#define AUDIT_EVENTS_MAX 16

struct audit_options {
    struct audit_filter filter;
    uint64_t since_usec, until_usec;          /* since the epoch; 0: not given */
    const char *events[AUDIT_EVENTS_MAX + 1]; /* names, if any; borrowed from a table */
    enum audit_view view;
    bool has_view, usage, follow, json;
};

/* Returns true to go on, or false to end with the exit status in @ret_status. */
bool audit_options_read(const struct verb *verb, int argc, char **argv, struct audit_options *ret,
                        int *ret_status);
