/* One connection of the broker: one container from its start to its end, in a process of its own
 * that may block. Called by main.c; speaks the engine protocol and the Engine API and nothing else,
 * and never sees what goes into the sandbox or comes out of it. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "api.h"
#include "config.h"

/* RuntimeDirectory= in the unit file. systemd makes it, and removes it at the end with whatever a
 * crash left in it. */
#define RUNTIME_DIR "/run/sbxctl-engine-docker"

/* What is the same for every sandbox of this service process. */
struct service {
    const struct config *config;
    char id[33]; /* this process's, for the sweep */
    uid_t uid;   /* of the programs in the sandboxes */
    gid_t gid;
    struct api_version version; /* as agreed on at the start, if that was possible */
    uint64_t network;           /* of the machine, see control_network() */
    bool must_sweep;            /* it could not be done at the start */
    struct searched *searched;  /* shared by the processes of all connections */
};

/* Serves the connection until its end; owns and closes @sock. Returns 0, and no sandbox is left, or
 * a negative errno if something may be left for the sweep. */
int sandbox_serve(int sock, uint64_t connection, const struct service *service);

/* Removes what the connection @connection left behind, or, if it is 0, what earlier services did.
 * Returns 0 or a negative errno. */
int sandbox_sweep(struct service *service, uint64_t connection);
