/* The tables of sbxctl audit. Called by audit.c. Shows nothing that was not made safe. */
#pragma once

#include "common/json.h"

/* What a table has in its rows, and which columns. */
enum audit_view {
    AUDIT_RUNS,
    AUDIT_RIGHTS,
    AUDIT_APPROVALS,
    AUDIT_FAILURES,
    AUDIT_UNFINISHED,
    AUDIT_INSTALLED,
    AUDIT_HOSTS,  /* rows are connections */
    AUDIT_EVENTS, /* rows are records */
    AUDIT_FORGED, /* the same */
};

/* Prints @rows, an array of objects, with a heading. Returns 0, or the exit status of a failure
 * that was told. */
int audit_show_table(enum audit_view view, json_object *rows);

/* One record in a line of its own, in columns of fixed width, for records that are still to come.
 */
void audit_show_line(json_object *record);
