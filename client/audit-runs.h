/* Audit records put together: one object for each run, with what all its records say. Called by
 * audit.c. Reads no journal, so that it can be tested. */
#pragma once

#include "common/json.h"

struct audit_runs;

struct audit_runs *audit_runs_new(void);
void audit_runs_free(struct audit_runs *runs);

/* Takes one record of audit_journal_next() in, oldest first. @record stays the caller's. Returns 0
 * or -ENOMEM. */
int audit_runs_add(struct audit_runs *runs, json_object *record);

/* Takes in a run as the helper lists it to its user (type Result of io.sbxctl.Sandbox). */
int audit_runs_add_result(struct audit_runs *runs, json_object *result, uint32_t uid,
                          const char *user);

/* Notes in each run who approved it, as far as polkit's records say so. Call it after the last
 * audit_runs_add(). */
int audit_runs_add_dialog(struct audit_runs *runs, json_object *record);

/* The runs in the order of their first records, borrowed. Each has the members of its records, and
 * verdict: how it ended, or "denied", "rejected", "running", "unfinished" (it started, and nothing
 * will record its end any more), "waiting". */
json_object *audit_runs_list(struct audit_runs *runs);
