/* The report of a collection: what was saved, and what was left out and why. Called by the
 * collection only. Names come from the sandbox as bytes and stand here escaped. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/json.h"

struct report {
    json_object *files, *skipped;
    size_t n_skipped;
    size_t names_size; /* bytes of all escaped names */
    uint64_t bytes;
};

/* Makes an empty one, to be released on error too. Returns 0 or -ENOMEM. */
int report_init(struct report *report);
void report_release(struct report *report);

/* Adds a saved file. Returns 0, -E2BIG if the report is full (the file must not be kept then), or
 * -ENOMEM. */
int report_file(struct report *report, const char *path, uint64_t bytes);
/* Adds an entry that was left out, and counts it only once COLLECT_SKIPPED_MAX are listed. 0 or
 * -ENOMEM. */
int report_skipped(struct report *report, const char *path, const char *reason);
/* Turns it into the result object of store.h, sorted by name; the report's lists move into it.
 * Returns 0 or -ENOMEM. */
int report_finish(struct report *report, json_object **ret);
