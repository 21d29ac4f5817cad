/* The loop that every engine service shares: accepts connections of the broker on the socket that
 * systemd handed over, gives each a process of its own, notices when such a process died without
 * tidying up, and ends when there was nothing to do for a while. Used by the main() of each engine;
 * knows no protocol.
 *
 * engine_service_wait() is called in a loop. It returns in the service's own process with
 * ENGINE_SERVICE_DONE, and in forked ones, which must end by _exit(), with
 * ENGINE_SERVICE_CONNECTION or ENGINE_SERVICE_LOST. These die with the service
 * (PR_SET_PDEATHSIG). */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define ENGINE_SERVICE_CONNECTIONS_MAX 256
#define ENGINE_SERVICE_IDLE_USEC (30 * 1000000ULL)
/* The only user that may connect. */
#define ENGINE_SERVICE_PEER "sbxctl"

struct engine_service_child {
    pid_t pid;
    uint64_t connection; /* 0: handles a lost one */
};

struct engine_service {
    int listener, signals;
    uid_t peer;
    uint64_t last_connection;
    struct engine_service_child children[ENGINE_SERVICE_CONNECTIONS_MAX];
    size_t n_children;
};

enum engine_service_event_type {
    ENGINE_SERVICE_DONE,       /* idle, or told to stop: exit */
    ENGINE_SERVICE_CONNECTION, /* serve .sock, then _exit(0); any other end is a LOST */
    ENGINE_SERVICE_LOST,       /* clean up what connection .connection left behind, then _exit(0) */
};

struct engine_service_event {
    enum engine_service_event_type type;
    int sock;            /* owned by the receiver */
    uint64_t connection; /* from 1, never twice in one service process */
};

/* Takes the listening socket over. Returns 0, or a negative errno with a line on stderr: -ENOTCONN
 * when not started by the socket unit, -ENOENT when the peer's user does not exist. */
int engine_service_open(struct engine_service *service);

/* Waits for something to do. Returns 0 with @ret, or a negative errno that ends the service. */
int engine_service_wait(struct engine_service *service, struct engine_service_event *ret);
