/* The run's files on their way: inputs up, what the program made or changed down, into the
 * workspace. Called by sandbox.c. Must never follow a link or leave the workspace: what comes from
 * the sandbox is as hostile as the program. */
#pragma once

#include "engine/protocol.h"
#include "envd.h"
#include "launch/protocol.h"

struct transfer_input {
    char *name;
    bool is_executable, is_sent;
};

struct transfer {
    int workspace; /* borrowed */
    uint64_t workspace_bytes;
    struct transfer_input *inputs;
    size_t n_inputs;
};

/* Puts a file, like the launcher: a copy into the workspace. Returns 0, or a negative errno for
 * @done to tell. */
int transfer_put(struct transfer *transfer, const char *name, mode_t mode, int source,
                 uint64_t size, struct launch_put_done *done);
void transfer_release(struct transfer *transfer);

/* Sends what was put since the last time to @directory of the sandbox, and @input, if it is a file,
 * as "stdin" of @folder, which mostly comes to be by it. Returns 0, or a negative errno with a
 * sentence in the cloud's error. */
int transfer_upload(struct transfer *transfer, struct envd *envd, const char *directory, int input,
                    const char *folder);
/* Names that are to be executable, into an array. Returns 0 or -ENOMEM. */
int transfer_add_executables(const struct transfer *transfer, json_object *arguments);

/* What the sandbox says about itself at the end: as little to be believed as the program. */
struct transfer_report {
    bool is_missing;    /* there is no such program */
    int status;         /* as the code interpreter's program left it; -1: not told */
    uint64_t cpu_usec;  /* UINT64_MAX: not known */
    uint64_t oom_kills; /* the same; by the kernel of the sandbox, whoever it was */
    uint32_t scratch_files;
    uint64_t left_out_bytes;            /* of the first file that did not fit */
    char left_out[ENGINE_TEXT_MAX + 1]; /* its name; empty: all fitted. Any bytes */
};

/* Runs SCRIPT_COLLECT and unpacks. Returns 0, also if not all fitted, or a negative errno with a
 * sentence; what came until then is there. */
int transfer_collect(struct transfer *transfer, struct envd *envd, json_object *arguments,
                     struct transfer_report *ret);

/* Reads a report's text, of whole lines. Pure. */
void transfer_parse_report(const char *text, struct transfer_report *ret);
