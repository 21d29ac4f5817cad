/* One connection of a program in the sandbox, from its request to the last byte. Its parts:
 * request.c reads what is wanted, connect.c judges, resolves and connects, answer.c says why
 * something did not come about, connection.c keeps them together and relays. Called by the session.
 *
 * Every function may end the connection, unless it says otherwise: what follows a call must not
 * touch it. */
#pragma once

#include "http-head.h"
#include "relay.h"
#include "session.h"
#include "side.h"
#include "verdict.h"

/* What a program may send before it has an answer: a head, or the messages of SOCKS. */
#define CONNECTION_INPUT_MAX HTTP_HEAD_MAX

enum phase {
    PHASE_READING,    /* the request */
    PHASE_RESOLVING,  /* the name */
    PHASE_CONNECTING, /* to one address after the other */
    PHASE_RELAYING,
    PHASE_DELIVERING, /* all of it is with the kernel, which has yet to bring it to the other end */
    PHASE_ANSWERING,  /* a refusal or failure is on its way, then the client is waited for */
};

struct request {
    bool known;       /* as far as host and port */
    bool greeted;     /* SOCKS: the method is agreed on */
    const char *host; /* borrowed from the two below */
    size_t host_size;
    uint16_t port;
    size_t size; /* bytes of the input that it took */
    struct http_request http;
    struct socks_request *socks;
};

struct connection {
    struct session *session;
    struct connection *next, **place;
    enum phase phase;
    struct side client, remote;
    sd_event_source *timer;
    uint64_t began;
    uint64_t connect_end; /* when all addresses have had their time */
    uint64_t active;      /* when something was last relayed */
    bool excess;          /* one more than may be at once */
    bool large;           /* of SESSION_LARGE_MAX */
    char *input;
    size_t n_input, seen;
    struct request *request; /* until the relay begins */
    struct egress_connection record;
    struct target target;
    struct lookup *lookup;
    struct addresses addresses;
    size_t next_address;
    int connect_error;      /* of the last address that was tried; 0: none was */
    struct refusal refusal; /* of the first address that was refused */
    struct relay up, down;  /* from and to the client */
    size_t undelivered;     /* bytes, when last looked at */
};

/* Takes @client over. Out of memory, it is closed. */
void connection_begin(struct session *session, int client, bool excess);
/* Ends it now, wherever it is, with its record. */
void connection_end(struct connection *connection);

/* ---- request.c */

enum request_state {
    REQUEST_INCOMPLETE,
    REQUEST_COMPLETE, /* .request, and name, port and service of the record are set */
    REQUEST_ANSWERED, /* malformed or not spoken here: the answer is on its way */
    REQUEST_DROPPED,  /* cannot go on */
};

/* Looks at the input. */
enum request_state request_read(struct connection *connection);
/* Makes the relays, once .remote is connected. Returns 0 or -ENOMEM. */
int request_start_relay(struct connection *connection);

/* ---- answer.c: each begins PHASE_ANSWERING, and sets verdict and rule of the record */

void answer_malformed(struct connection *connection, const char *why);
void answer_command(struct connection *connection, int error);
void answer_refused(struct connection *connection, const struct refusal *refusal);
/* One connection more than may be at once. */
void answer_excess(struct connection *connection, const struct refusal *refusal);
/* @error: a negative errno; -ENOENT for a name that there is not. */
void answer_failed(struct connection *connection, int error);

/* ---- connect.c */

/* Judges the request, which is complete, and does what it takes to connect. */
void connect_begin(struct connection *connection);
/* The address that is being connected to has answered, or will not. */
void connect_ready(struct connection *connection);
void connect_failed(struct connection *connection, int error);

/* ---- connection.c, for the others */

/* Bounds what the kernel keeps for .remote, which is not connected yet. */
void connection_bound_remote(const struct connection *connection);
uint64_t connection_now(const struct connection *connection);
/* When the phase is over at the latest, of CLOCK_MONOTONIC. */
void connection_set_deadline(struct connection *connection, uint64_t usec);
/* Sends @size bytes and closes as soon as the client has read them. */
void connection_answer(struct connection *connection, const char *data, size_t size);
/* .remote is connected, to the last address that was tried. */
void connection_start_relaying(struct connection *connection);
/* The handler of .remote's events. */
int connection_on_remote(sd_event_source *source, int fd, uint32_t events, void *data);
