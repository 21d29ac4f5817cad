/* A policy in words: what a run may use. Called by plan.c, show.c and policy.c. */
#pragma once

#include <stddef.h>

#include "client/result.h"

enum policy_field {
    POLICY_NETWORK,
    POLICY_MEMORY,
    POLICY_CPUS,
    POLICY_TIME,
    POLICY_TASKS,
    POLICY_WORKSPACE,
    POLICY_SCRATCH,
    POLICY_FILES,
    POLICY_STREAMS,
    POLICY_FIELDS,
};

/* At least QUANTITY_TEXT. */
#define POLICY_TEXT 64

/* Static, for people. */
const char *policy_field_name(enum policy_field field);
/* What @policy says of @field, safe to show. @buffer is returned. */
const char *policy_field_text(const struct policy *policy, enum policy_field field,
                              char buffer[POLICY_TEXT]);
/* What polkit said to an approval ("yes", "challenge", "administrator"; anything else and NULL are
 * a no), in words. */
const char *approval_text(const char *answer);
/* Prints a line for each of those that can be asked for on the command line. */
void policy_print_lines(const struct policy *policy);
