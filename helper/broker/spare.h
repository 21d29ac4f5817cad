/* A connection to a service, made before there is a need of it: behind it waits a process of that
 * service, which has heard nothing so far and is nobody's. Called by pool.c. */
#pragma once

#include <stdint.h>

#include "broker/sandbox.h"

struct spare {
    char path[SANDBOX_SOCKET_MAX + 1]; /* empty: none is to be kept */
    int sock;                          /* -1: to be made */
    uint64_t used_usec;
};
#define SPARE_NONE ((struct spare){ .sock = -1 })

/* The service that listens at @path is in use now: a connection to it is kept, and to no other. */
void spare_note(struct spare *spare, const char *path);
/* The connection to @path, which is the caller's from here on, or -1: there is no good one. */
int spare_take(struct spare *spare, const char *path);
/* Makes it. A service that cannot be connected to is not tried again before its next use. */
void spare_fill(struct spare *spare);
/* Hangs up, and keeps none. */
void spare_forget(struct spare *spare);
