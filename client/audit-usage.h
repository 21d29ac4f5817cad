/* What users used, summed up from the journal's records of ended runs. Called by audit.c. Believes
 * only what journald itself says of a record's sender. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct audit_user {
    uint32_t uid;
    char name[64]; /* as the newest record has it; any text */
    uint64_t runs, wall_usec, cpu_usec, cloud_usec;
};

struct audit_usage {
    struct audit_user *users; /* by uid */
    size_t n;
};

/* Sums up what ended at or after @since_usec (since the epoch; 0: all). Returns 0 or a negative
 * errno. */
int audit_usage_read(uint64_t since_usec, struct audit_usage *ret);
void audit_usage_release(struct audit_usage *usage);
