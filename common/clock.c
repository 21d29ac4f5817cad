/* Time in microseconds, see clock.h. */
#include "clock.h"

#include <errno.h>
#include <stddef.h>

uint64_t clock_usec(clockid_t clock)
{
    struct timespec ts;

    clock_gettime(clock, &ts);
    return (uint64_t)ts.tv_sec * USEC_PER_SEC + (uint64_t)ts.tv_nsec / 1000;
}

int poll_until(struct pollfd *fds, nfds_t n, uint64_t deadline_usec)
{
    for (;;) {
        struct timespec ts, *timeout = NULL;
        int r;

        if (deadline_usec != UINT64_MAX) {
            uint64_t now = clock_now();
            uint64_t left = now < deadline_usec ? deadline_usec - now : 0;

            ts = (struct timespec){ .tv_sec = (time_t)(left / USEC_PER_SEC),
                                    .tv_nsec = (long)(left % USEC_PER_SEC * 1000) };
            timeout = &ts;
        }
        r = ppoll(fds, n, timeout, NULL);
        if (r >= 0)
            return r;
        if (errno != EINTR)
            return -errno;
    }
}
