/* The way out of one sandbox as the broker sees it: the connection to an egress process. Turns its
 * packets into events for the run; holds no policy and never includes the process's own parts. */
#pragma once

#include <systemd/sd-event.h>

#include "egress/protocol.h"

struct egress;

enum egress_event_type {
    EGRESS_EVENT_READY,      /* it accepts what the sandbox connects to */
    EGRESS_EVENT_CONNECTION, /* one is over; at most EGRESS_RECORDS_MAX times */
    EGRESS_EVENT_FINISHED,   /* its last word, after egress_finish() */
    EGRESS_EVENT_FAILED,     /* it reported an error before it was ready */
    EGRESS_EVENT_GONE,       /* end of file or nonsense, without its last word */
};

struct egress_event {
    enum egress_event_type type;
    union {
        const struct egress_connection *connection;
        struct egress_finished *finished; /* may be taken: leave an empty one */
        const struct egress_error *failed;
        int error; /* of GONE: 0 at end of file, else a negative errno */
    };
};

/* Called from the event loop; may free the egress. After the last three types there is no more. */
typedef void (*egress_fn)(const struct egress_event *event, void *userdata);

/* Whether this machine has the service; it need not run. */
bool egress_exists(void);

/* On a connection to the service, non-blocking, which is the egress's from here on; or on the
 * negative errno that there was instead. Returns 0 or that. */
int egress_new(sd_event *event, int sock, egress_fn fn, void *userdata, struct egress **ret);
/* The same of one that was ready for another process. */
int egress_restore(sd_event *event, int sock, egress_fn fn, void *userdata, struct egress **ret);
int egress_descriptor(const struct egress *egress); /* borrowed */
/* Hangs up, and thereby ends all connections. NULL is fine. */
struct egress *egress_free(struct egress *egress);

/* Gives it the listening socket, which stays the caller's, and what it judges by. Once. */
int egress_start(struct egress *egress, const struct egress_start *start, int listener);
/* Asks for its last word. */
int egress_finish(struct egress *egress);
