/* What users used, summed up from what is known of their runs. Called by audit.c. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/json.h"

struct audit_user {
    uint32_t uid;
    char name[64]; /* as the newest record has it; any text */
    uint64_t runs, wall_usec, cpu_usec, cloud_usec;
    uint64_t accepted, rejected; /* runs, by the last that was said of each */
};

struct audit_usage {
    struct audit_user *users; /* by uid */
    size_t n;
    json_object *marks; /* of a run: [uid, accepted]; NULL for none */
};

/* Counts a run that ended: the record of it, or what else has its uid, wallUSec, cpuUSec and
 * cloudUSec. Returns 0 or -ENOMEM. */
int audit_usage_add(struct audit_usage *usage, json_object *ended);
/* Notes that run @id of @uid was marked @verdict; the last word on a run counts. */
int audit_usage_mark(struct audit_usage *usage, const char *id, uint32_t uid, const char *verdict);
/* Counts the marks, when all were noted. */
int audit_usage_finish(struct audit_usage *usage);
void audit_usage_release(struct audit_usage *usage);

/* Prints the sums. Return 0, or the exit status of a failure that was told. */
int audit_usage_print_table(const struct audit_usage *usage);
int audit_usage_print_json(const struct audit_usage *usage);
