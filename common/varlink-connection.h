/* The inside of a varlink server: connections carry bytes, calls are what methods see, and the
 * server accepts and knows the interfaces. Included by varlink-server.c, varlink-connection.c and
 * varlink-call.c only. */
#pragma once

#include "common/varlink-frame.h"
#include "common/varlink.h"

struct varlink_server {
    sd_event *event;
    struct varlink_server_options options;
    const struct varlink_interface *const *interfaces;
    size_t n_interfaces;
    sd_event_source *listeners[8];
    size_t n_listeners;
    sd_event_source *accept_again; /* armed while descriptors ran out */
    struct varlink_connection *connections;
    unsigned n_connections;
};

struct varlink_connection {
    unsigned refs;
    struct varlink_server *server; /* NULL once the server let go of it; never while fd is open */
    struct varlink_connection *previous, *next;
    int fd;           /* -1 once it has ended */
    struct peer peer; /* stays as long as a call refers to it */
    struct varlink_reader reader;
    struct varlink_writer writer;
    struct varlink_call *call; /* the unanswered one; it holds us, not we it */
    bool last_call;            /* ends as soon as all output is sent */
    sd_event_source *io, *timer, *wakeup;
};

struct varlink_call {
    unsigned refs;
    struct varlink_connection *connection;
    const struct varlink_interface *interface; /* NULL: unknown */
    json_object *message;                      /* what parameters is part of */
    json_object *parameters;
    struct varlink_fds fds;
    bool more, oneway;
    bool open; /* connection->call is this one, and the connection stands */
    void (*gone)(struct varlink_call *, void *);
    void *gone_userdata;
    void (*drained)(struct varlink_call *, void *);
    void *drained_userdata;
};

static inline void varlink_call_unrefp(struct varlink_call **call)
{
    varlink_call_unref(*call);
}

/* ---- varlink-connection.c ---- */

/* Starts to serve @fd, which is owned from here on, also on error, for @peer, whose contents move.
 * Returns 0 or a negative errno. */
int varlink_connection_new(struct varlink_server *server, int fd, struct peer *peer);
struct varlink_connection *varlink_connection_ref(struct varlink_connection *connection);
struct varlink_connection *varlink_connection_unref(struct varlink_connection *connection);
/* Ends it; methods hear of it later, from the event loop. Harmless if it has ended. */
void varlink_connection_end(struct varlink_connection *connection);
/* Ends it for something that no honest caller does. */
void varlink_connection_refuse(struct varlink_connection *connection, const char *why);
/* Ends it when all output is sent, at once if there is none. */
void varlink_connection_end_sent(struct varlink_connection *connection);
/* Ends it at once and without a word to anybody: the server goes away. */
void varlink_connection_abandon(struct varlink_connection *connection);
/* The call in work is done; the next message may come. */
void varlink_connection_call_done(struct varlink_connection *connection);
/* Sends or queues @message; consumes both arguments, and NULL is a message that could not be built.
 * Returns 0, -ENOMEM, or -ENOTCONN or -ENOBUFS with the connection ended. */
int varlink_connection_send(struct varlink_connection *connection, json_object *message,
                            struct varlink_fds fds);

/* ---- varlink-call.c ---- */

/* Makes a call of a message and hands it to its method; whatever is wrong with it is answered or
 * ends the connection. Consumes @fds; @text is read before anything else happens. */
void varlink_call_dispatch(struct varlink_connection *connection, const char *text, size_t size,
                           struct varlink_fds fds);
/* Tells the method that the caller is gone, or took all output. */
void varlink_call_gone(struct varlink_call *call);
void varlink_call_drained(struct varlink_call *call);

/* ---- varlink-server.c ---- */

/* The connection has ended and is let go. */
void varlink_server_forget(struct varlink_server *server, struct varlink_connection *connection);
/* Tells options.refused. */
void varlink_server_refused(struct varlink_server *server, const struct peer *peer,
                            const char *why);

/* What the name of a method ("interface.Member") leads to. */
struct varlink_target {
    const struct varlink_interface *interface; /* NULL: unknown, or no usable name at all */
    const struct varlink_method *method;       /* NULL: unknown */
    char *unknown_interface; /* its name, a new string, if that is what is unknown */
};
/* Returns 0 or -ENOMEM. */
int varlink_server_find(struct varlink_server *server, const char *name,
                        struct varlink_target *ret);
