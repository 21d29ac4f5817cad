/* The line on a terminal that tells how long a script has run and may run, while it says nothing
 * itself. It is gone before anything else is written, and is never put behind a half line or beside
 * what somebody types. Called by session.c. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "client/pump.h"

struct live {
    bool is_on, is_shown;
    uint64_t began_usec, due_usec; /* CLOCK_MONOTONIC */
    uint64_t limit_usec;           /* 0: not known */
};

/* The script has started. @passes_output: what it says goes to our own streams. */
void live_begin(struct live *live, uint64_t limit_usec, bool passes_output);
/* Milliseconds for poll(); -1 for no end. */
int live_timeout(const struct live *live);
/* Before the pump moves what poll() has promised: takes the line away if that can be seen. */
void live_before_output(struct live *live, const struct pump *pump);
/* Shows the line, or renews it, if it is time and there is room. */
void live_show_if_due(struct live *live, const struct pump *pump);
void live_end(struct live *live);
