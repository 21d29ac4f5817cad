/* Time in microseconds, and waiting until a point in time. Called by all programs but the launcher.
 */
#pragma once

#include <poll.h>
#include <stdint.h>
#include <time.h>

#define USEC_PER_SEC UINT64_C(1000000)

/* CLOCK_REALTIME is microseconds since the epoch. */
uint64_t clock_usec(clockid_t clock);
/* Of CLOCK_MONOTONIC, for durations. */
static inline uint64_t clock_now(void)
{
    return clock_usec(CLOCK_MONOTONIC);
}

/* poll() until something is to be done or @deadline_usec of CLOCK_MONOTONIC (UINT64_MAX: for ever),
 * whatever signals come. Returns the number of descriptors, 0 when time is up, or a negative errno.
 */
int poll_until(struct pollfd *fds, nfds_t n, uint64_t deadline_usec);
