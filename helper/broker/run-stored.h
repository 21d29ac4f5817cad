/* Names and forms of what outlives this process of a run; for run-stored.c, which gives it away,
 * and run-restore.c, which takes it back. All of it is our own: nobody but the service manager had
 * it meanwhile. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "broker/run.h"
#include "engine/protocol.h"
#include "launch/protocol.h"

/* To be raised when an older broker could not understand it; of another version nothing is
 * believed. */
#define RUN_STORED_VERSION 3

#define RUN_STORED_PREFIX "run."
#define RUN_STORED_NAME 64

enum run_stored_role {
    RUN_STORED_WAITING, /* the state of one that waits, JSON in a sealed memfd */
    RUN_STORED_FILES,   /* its request's descriptors */
    RUN_STORED_GOING,   /* the state of one that goes */
    RUN_STORED_LIVE,    /* struct run_live in a memfd, which goes on changing */
    RUN_STORED_ENGINE,
    RUN_STORED_LAUNCHER,
    RUN_STORED_WORKSPACE,
    RUN_STORED_STDOUT,
    RUN_STORED_STDERR,
    RUN_STORED_EGRESS,
    RUN_STORED_ROLES,
};

/* What became of a run since it was stored. */
struct run_live {
    uint32_t version;
    bool went;         /* its program did, or was just about to */
    uint64_t bytes[2]; /* of its streams */
    uint64_t go_usec, started_realtime, end_usec, ended_realtime;
    uint64_t cloud_taken_usec, cloud_to_usec;
    bool cloud_goes, timed_out, cancelled, caller_gone, have_exited, have_ended, is_over;
    struct launch_exited exited;
    struct engine_ended ended;
};

const char *run_stored_name(const char *id, enum run_stored_role role, char name[RUN_STORED_NAME]);
