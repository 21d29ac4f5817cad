/* One run's way out: the conversation with the broker, the listening socket, and what all
 * connections share. Called by main.c in a process of its own. */
#pragma once

#include <stdbool.h>
#include <systemd/sd-event.h>

#include "buffers.h"
#include "protocol.h"
#include "resolve.h"
#include "tally.h"

/* Connections beyond those allowed that are told so; more wait in the queue of the socket. */
#define SESSION_EXCESS_MAX 16
/* Connections at once whose buffers the kernel may make as large as the distance and speed of the
 * server take, which is some 10 MiB each. All runs share the memory of one service: hundreds of
 * connections that nobody reads would take it from the others. */
#define SESSION_LARGE_MAX 4

struct connection;

struct session {
    sd_event *event;
    int sock;     /* to the broker */
    int listener; /* in the sandbox's network namespace */
    sd_event_source *listener_source;
    struct egress_start policy;
    struct resolver *resolver; /* NULL until there is something to resolve */
    struct buffers buffers;
    struct connection *connections;
    size_t n_connections, n_large;
    uint64_t bytes_left;
    struct tally tally;
    size_t n_records; /* without the first ones to hosts */
};

/* Serves the broker on @sock (taken over) until it hangs up or says that it is over. Returns 0, or
 * a negative errno with a line on stderr. */
int session_serve(int sock);

/* ---- for the connections */

/* The resolver. Returns 0 or -ENOMEM. */
int session_resolver(struct session *session, struct resolver **ret);
/* A connection is over: counts it, tells the broker of it as far as there may be records. */
void session_record(struct session *session, const struct egress_connection *connection);
/* A connection is gone: one that waits in the queue may come in. */
void session_made_room(struct session *session);
