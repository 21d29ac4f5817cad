/* The line on a terminal that tells what a run waits for before it starts, once that takes longer
 * than a second. Called by session.c, attach.c and pull.c. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <json-c/json.h>

struct progress {
    uint64_t due_usec; /* CLOCK_MONOTONIC; 0: nothing waits to be shown */
    bool is_shown;
    char text[160];
};

/* Takes an event "queued" or "progress" of method Run. */
void progress_take(struct progress *progress, const char *event, json_object *parameters);
/* Milliseconds for poll(); -1 for no end. */
int progress_timeout(const struct progress *progress);
void progress_show_if_due(struct progress *progress);
/* Removes the line. */
void progress_end(struct progress *progress);
