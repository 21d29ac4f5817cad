/* A timer among the watches, see life.h. */
#include "life.h"

#include <errno.h>
#include <poll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/clock.h"

/* A program may have so much less than all of it, since setting it anew is another request. */
#define FRESH_USEC (10 * USEC_PER_SEC)

static uint64_t seconds_of(uint64_t usec)
{
    return (usec + USEC_PER_SEC - 1) / USEC_PER_SEC;
}

static int renew(struct life *life)
{
    uint64_t at = clock_now();

    int r = cloud_renew_life(life->cloud, life->box->id, seconds_of(life->usec),
                             (at - life->created_usec) / USEC_PER_SEC,
                             seconds_of(at - life->asked_usec));
    if (r < 0)
        return r;
    life->set_usec = at;
    life->end_usec = at + life->usec;
    return 0;
}

static int check(struct life *life)
{
    int r = cloud_check_life(life->cloud, life->box->id, seconds_of(life->usec));

    life->is_checked = r >= 0;
    return r;
}

static void arm(struct life *life, uint64_t first_usec)
{
    uint64_t half = life->usec / 2;
    const struct itimerspec times = {
        .it_value = { .tv_sec = (time_t)(first_usec / USEC_PER_SEC),
                      .tv_nsec = (long)(first_usec % USEC_PER_SEC * 1000) },
        .it_interval = { .tv_sec = (time_t)(half / USEC_PER_SEC),
                         .tv_nsec = (long)(half % USEC_PER_SEC * 1000) },
    };

    timerfd_settime(life->timer, 0, &times, NULL);
    life->watch->fd = first_usec > 0 ? life->timer : -1;
}

static int on_timer(void *userdata)
{
    struct life *life = userdata;
    uint64_t times;

    (void)!read(life->timer, &times, sizeof(times));
    life->error = life->is_checked ? renew(life) : check(life);
    return life->error < 0 ? -ECANCELED : 0;
}

int life_open(struct life *life, struct cloud *cloud, const struct cloud_sandbox *box)
{
    *life = (struct life){ .cloud = cloud, .box = box };
    life->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (life->timer < 0)
        return -errno;
    life->watch = http_watch(&cloud->http, -1, POLLIN, on_timer, life);
    return 0;
}

void life_close(struct life *life)
{
    life->timer = close_fd(life->timer);
}

uint64_t life_begin(struct life *life, uint64_t usec)
{
    life->usec = usec;
    life->asked_usec = life->created_usec = life->set_usec = clock_now();
    life->end_usec = life->asked_usec + usec;
    return seconds_of(usec);
}

void life_created(struct life *life)
{
    life->created_usec = clock_now();
}

void life_guard(struct life *life)
{
    arm(life, 1);
}

int life_settle(struct life *life)
{
    arm(life, 0);
    if (life->error < 0)
        return life->error;
    int r = life->is_checked ? 0 : check(life);
    return r < 0 || clock_now() - life->set_usec < FRESH_USEC ? r : renew(life);
}
