/* One connection of the broker: one cloud sandbox from its start to its end, in a process of its
 * own that may block. Called by main.c; plays the launcher towards the broker, so all that the
 * run's user wrote passes through here and is believed nothing. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "config.h"
#include "places.h"

/* What is the same for every sandbox of this service process. */
struct service {
    const struct config *config;
    char id[33];      /* this process's, for the sweep */
    char machine[33]; /* this machine's, for the sweep */
    bool is_v1;       /* of the control plane, as far as is known */
    struct places *places;
};

/* Serves the connection until its end; owns and closes @sock. Returns 0, and no sandbox is left, or
 * a negative errno if something may be left for the sweep: then it keeps its place. */
int sandbox_serve(int sock, uint64_t connection, const struct service *service);

#define SANDBOX_SWEEP_EARLIER 0
#define SANDBOX_SWEEP_OURS UINT64_MAX
/* Removes what the connection @connection left behind; or what earlier services of this machine
 * did; or all that this service has; for @timeout_usec at most. Returns how many were asked to end,
 * to be looked for again, or a negative errno. */
int sandbox_sweep(struct service *service, uint64_t connection, uint64_t timeout_usec);
