/* How a run ended, decided once from the facts, in words for people. Pure; the one place where
 * these sentences are made. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "broker/policy.h"
#include "engine/protocol.h"
#include "launch/protocol.h"

#define HINT_MAX 256 /* bytes of a hint with its end */

enum run_status {
    RUN_QUEUED,
    RUN_STARTING,
    RUN_RUNNING,
    /* The final ones. */
    RUN_SUCCEEDED,
    RUN_FAILED,
    RUN_TIMED_OUT,
    RUN_OUT_OF_MEMORY,
    RUN_KILLED,
    RUN_CANCELLED,
    RUN_LOST,
    RUN_DENIED,
    RUN_REJECTED,
};

/* As in the interface's type Status. */
const char *run_status_name(enum run_status status);

/* What is known when a sandbox that got its go is over. */
struct facts {
    const struct limits *limits, *defaults, *ceiling;
    uint64_t tasks, workspace_bytes, workspace_files, scratch_bytes; /* no run can move these */
    const char *interpreter, *engine;
    const char *language, *script_name;
    const struct request_input *inputs; /* as the run got them */
    size_t n_inputs;
    bool cloud, images;                     /* what its engine is */
    const struct config_packages *packages; /* rules; NULL: none are known */
    bool may_have_packages;                 /* of .ecosystem */
    enum ecosystem ecosystem;
    bool timed_out; /* our clock ended it */
    bool cancelled; /* Cancel, or the caller went away */
    bool caller_gone;
    bool have_exited; /* the launcher told how the program ended, before any kill of ours was needed
                       */
    struct launch_exited exited;
    uint64_t workspace_used; /* bytes, at the end */
    bool workspace_full;     /* no byte or no file more would have fitted */
    const char *said;        /* the end of stderr as far as it was kept; any bytes */
    size_t said_size;
    bool network_lost; /* before the program ended */
    const char
        *network_refusal; /* "bad.example:443 was refused by DeniedNames=bad.example", or NULL */
    bool have_error;      /* what the engine said of its own trouble after go */
    struct engine_error error;
    bool have_ended; /* the engine's last word */
    struct engine_ended ended;
};

struct outcome {
    enum run_status status;
    bool have_exit_code;
    int exit_code;
    int signal;                       /* 0: none */
    char reason[ENGINE_TEXT_MAX + 1]; /* holds an engine's own sentence, too */
    char hint[HINT_MAX];              /* may be empty */
};

/* CPU time as the engine counted it, else as the launcher did (without what outlived the program);
 * UINT64_MAX if neither is known. */
uint64_t facts_cpu_usec(const struct facts *facts);
/* Processes that outlived the program, by whoever counted more of them. */
uint64_t facts_leftovers(const struct facts *facts);

void outcome_decide(const struct facts *facts, struct outcome *ret);
