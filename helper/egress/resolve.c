/* c-ares on sd-event, see resolve.h. */
#include "resolve.h"

#include <ares.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/host-pattern.h"

/* Per server; connections have a deadline of their own. */
#define TIMEOUT_MSEC 2000
#define TRIES 2

/* A socket of c-ares that something is waited for on. */
struct watch {
    struct resolver *resolver;
    int fd;
    sd_event_source *source;
    struct watch *next;
};

struct resolver {
    sd_event *event;
    ares_channel channel;
    sd_event_source *timer;
    struct watch *watches;
};

struct lookup {
    resolve_done done; /* NULL: cancelled */
    void *data;
    struct lookup **place; /* of resolve(), until it returns */
};

/* ---- sockets and time */

static int on_time(sd_event_source *source, uint64_t usec, void *data);

/* c-ares tells when it wants to be called again. */
static void set_timer(struct resolver *resolver)
{
    struct timeval tv;

    if (!ares_timeout(resolver->channel, NULL, &tv)) {
        sd_event_source_set_enabled(resolver->timer, SD_EVENT_OFF);
        return;
    }
    uint64_t usec = (uint64_t)tv.tv_sec * USEC_PER_SEC + (uint64_t)tv.tv_usec;
    sd_event_source_set_time_relative(resolver->timer, usec);
    sd_event_source_set_enabled(resolver->timer, SD_EVENT_ONESHOT);
}

static int on_time(sd_event_source *source, uint64_t usec, void *data)
{
    struct resolver *resolver = data;

    ares_process_fd(resolver->channel, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
    set_timer(resolver);
    return 0;
}

static int on_socket(sd_event_source *source, int fd, uint32_t events, void *data)
{
    struct resolver *resolver = data;
    bool readable = events & (EPOLLIN | EPOLLERR | EPOLLHUP);

    ares_process_fd(resolver->channel, readable ? fd : ARES_SOCKET_BAD,
                    events & EPOLLOUT ? fd : ARES_SOCKET_BAD);
    set_timer(resolver);
    return 0;
}

static void forget(struct resolver *resolver, int fd)
{
    for (struct watch **at = &resolver->watches; *at; at = &(*at)->next) {
        struct watch *watch = *at;

        if (watch->fd != fd)
            continue;
        *at = watch->next;
        sd_event_source_disable_unref(watch->source);
        free(watch);
        return;
    }
}

/* Out of memory, nothing is watched, and the lookup ends by its timer. */
static void watch(struct resolver *resolver, int fd, uint32_t events)
{
    struct watch *watch = calloc(1, sizeof(*watch));

    if (!watch)
        return;
    *watch = (struct watch){ resolver, fd, NULL, resolver->watches };
    if (sd_event_add_io(resolver->event, &watch->source, fd, events, on_socket, resolver) < 0) {
        free(watch);
        return;
    }
    resolver->watches = watch;
}

/* c-ares opened, used or is about to close @fd. */
static void on_state(void *data, ares_socket_t fd, int readable, int writable)
{
    struct resolver *resolver = data;
    uint32_t events = (readable ? EPOLLIN : 0) | (writable ? EPOLLOUT : 0);

    for (struct watch *w = resolver->watches; w; w = w->next)
        if (w->fd == fd && events) {
            sd_event_source_set_io_events(w->source, events);
            return;
        }
    if (events)
        watch(resolver, fd, events);
    else
        forget(resolver, fd);
}

/* ---- the resolver */

int resolver_new(sd_event *event, struct resolver **ret)
{
    struct resolver *resolver = calloc(1, sizeof(*resolver));
    char lookups[] = "fb"; /* files, then servers; never by other services of nsswitch.conf */

    if (!resolver)
        return -ENOMEM;
    struct ares_options options = {
        .flags = ARES_FLAG_NOSEARCH | ARES_FLAG_NOALIASES,
        .timeout = TIMEOUT_MSEC,
        .tries = TRIES,
        .lookups = lookups,
        .sock_state_cb = on_state,
        .sock_state_cb_data = resolver,
    };
    resolver->event = event;
    int r = sd_event_add_time_relative(event, &resolver->timer, CLOCK_MONOTONIC, 0, 0, on_time,
                                       resolver);
    if (r >= 0)
        r = sd_event_source_set_enabled(resolver->timer, SD_EVENT_OFF);
    if (r >= 0 && ares_init_options(&resolver->channel, &options,
                                    ARES_OPT_FLAGS | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES |
                                        ARES_OPT_LOOKUPS | ARES_OPT_SOCK_STATE_CB) != ARES_SUCCESS)
        r = -ENOMEM;
    if (r < 0) {
        sd_event_source_disable_unref(resolver->timer);
        free(resolver);
        return r;
    }
    *ret = resolver;
    return 0;
}

void resolver_free(struct resolver *resolver)
{
    if (!resolver)
        return;
    ares_destroy(resolver->channel);
    while (resolver->watches)
        forget(resolver, resolver->watches->fd);
    sd_event_source_disable_unref(resolver->timer);
    free(resolver);
}

/* ---- lookups */

static void take_addresses(const struct ares_addrinfo *info, struct addresses *ret)
{
    for (const struct ares_addrinfo_node *node = info->nodes; node; node = node->ai_next)
        if (ret->n < RESOLVE_ADDRESSES_MAX &&
            ip_address_from_sockaddr(node->ai_addr, &ret->items[ret->n]))
            ret->n++;
}

static bool is_unknown(int status)
{
    return status == ARES_SUCCESS || status == ARES_ENOTFOUND || status == ARES_ENODATA ||
           status == ARES_ENONAME || status == ARES_EBADNAME;
}

static void on_answer(void *data, int status, int timeouts, struct ares_addrinfo *info)
{
    _cleanup_free_ struct lookup *lookup = data;
    struct addresses addresses = { 0 };

    if (status == ARES_SUCCESS)
        take_addresses(info, &addresses);
    ares_freeaddrinfo(info);
    if (lookup->place)
        *lookup->place = NULL;
    if (!lookup->done)
        return;
    int error = addresses.n > 0 ? 0 : is_unknown(status) ? -ENOENT : -EREMOTEIO;
    lookup->done(lookup->data, error, &addresses);
}

/* Loopback, whatever a name server or a file says; so no server is asked either. */
static void answer_localhost(resolve_done done, void *data)
{
    static const struct addresses loopback = {
        .items = { { .family = AF_INET, .bytes = { 127, 0, 0, 1 } },
                   { .family = AF_INET6, .bytes = { [15] = 1 } } },
        .n = 2,
    };

    done(data, 0, &loopback);
}

int resolve(struct resolver *resolver, const char *name, resolve_done done, void *data,
            struct lookup **ret)
{
    const struct ares_addrinfo_hints hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM };

    *ret = NULL;
    if (host_is_localhost(name)) {
        answer_localhost(done, data);
        return 0;
    }
    struct lookup *lookup = malloc(sizeof(*lookup));
    if (!lookup)
        return -ENOMEM;
    struct lookup *place = lookup;
    *lookup = (struct lookup){ done, data, &place };
    ares_getaddrinfo(resolver->channel, name, NULL, &hints, on_answer, lookup);
    /* An answer that came at once has freed it. */
    if (place) {
        lookup->place = NULL;
        *ret = lookup;
    }
    set_timer(resolver);
    return 0;
}

void resolve_cancel(struct lookup *lookup)
{
    if (lookup)
        lookup->done = NULL;
}
