/* What is looked at besides libcurl's own descriptors, see http.h. */
#include "http-watch.h"

#include <errno.h>
#include <poll.h>

#include "common/clock.h"

struct http_watch *http_watch(struct http *http, int fd, short events, http_ready_fn ready,
                              void *userdata)
{
    struct http_watch *watch = &http->watches[http->n_watches++];

    *watch = (struct http_watch){ fd, events, ready, userdata, false };
    return watch;
}

/* libcurl tells of its own descriptors, and is woken by ours, of which it does not tell all. */
static int ask_watches(struct http *http)
{
    for (size_t i = 0; i < http->n_watches; i++) {
        struct http_watch *watch = &http->watches[i];
        struct pollfd fd = { .fd = watch->busy ? -1 : watch->fd, .events = watch->events };
        if (poll(&fd, 1, 0) <= 0)
            continue;
        watch->busy = true;
        int r = watch->ready(watch->userdata);
        watch->busy = false;
        if (r < 0)
            return r;
    }
    return http->deadline_usec <= clock_now() ? -ETIME : 0;
}

int http_wait_once(struct http *http, uint64_t usec)
{
    struct curl_waitfd fds[HTTP_WATCHES_MAX];
    uint64_t left = http->deadline_usec > clock_now() ? http->deadline_usec - clock_now() : 0;
    unsigned n = 0;

    for (size_t i = 0; i < http->n_watches; i++) {
        const struct http_watch *watch = &http->watches[i];
        if (watch->fd < 0 || watch->busy)
            continue;
        fds[n++] = (struct curl_waitfd){
            .fd = watch->fd,
            .events = (short)((watch->events & POLLIN ? CURL_WAIT_POLLIN : 0) |
                              (watch->events & POLLOUT ? CURL_WAIT_POLLOUT : 0)),
        };
    }
    usec = usec < left ? usec : left;
    if (curl_multi_poll(http->multi, fds, n, (int)((usec + 999) / 1000), NULL) != CURLM_OK)
        return -EIO;
    return ask_watches(http);
}

int http_wait(struct http *http, uint64_t usec)
{
    uint64_t end = clock_now() + usec;
    int r = 0;

    while (r >= 0 && clock_now() < end)
        r = http_wait_once(http, end - clock_now());
    return r;
}
