/* Which of a user's finished runs are to be removed, and whether there is room for another one.
 * Pure: reads facts and rules, removes nothing. Called by keeper.c and run-quota.c. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Of each user; 0 is no limit. */
struct retention_rules {
    uint64_t max_age_usec;
    uint64_t max_runs, max_bytes, max_files;
    bool remove_oldest; /* if there is no room for bytes or files; else new runs are refused */
};

struct retention_use {
    uint64_t runs, bytes, files;
};

/* A finished run. */
struct retained {
    const char *id;
    uint64_t ended_usec; /* since the epoch */
    uint64_t bytes, files;
    const char *why; /* set by retention_find(): a phrase, or NULL: it stays */
};

/* Marks those of @runs, oldest first, that have to go by the time @now_usec. Returns how many. */
size_t retention_find(const struct retention_rules *rules, struct retained *runs, size_t n,
                      uint64_t now_usec);
/* What there is no room for: "bytes", "files" or NULL. */
const char *retention_full(const struct retention_rules *rules, const struct retention_use *use);
/* How many of the oldest have to be removed for that. */
size_t retention_needed(const struct retention_rules *rules, const struct retained *runs, size_t n);
/* When a run that ended then goes for its age; 0: never. */
uint64_t retention_expiry(const struct retention_rules *rules, uint64_t ended_usec);
