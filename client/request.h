/* The parameters of method Run, made from the command line or from a tool's arguments: the script
 * and the inputs are opened here, as the user, and travel as descriptors. Called by run.c and
 * mcp-arguments.c; script.c and inputs.c fill it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "client/run-options.h"
#include "common/json.h"
#include "common/varlink.h"

/* What one message can carry besides the script. */
#define REQUEST_INPUTS_MAX (VARLINK_FDS_MAX - 1)

struct request {
    json_object *parameters;
    json_object *inputs; /* borrowed from @parameters */
    int fds[VARLINK_FDS_MAX];
    size_t n_fds;
    bool stdin_is_script; /* standard input was read for the script */
};

struct input_limits;

/* All return 0, or the exit status of a failure that has been told. */
int request_make(const struct run_options *options, struct request *ret);
/* Asks the helper what inputs may be: they are read into memory, so what is too much is to be known
 * before. */
int request_ask_limits(struct input_limits *ret);
/* Takes ownership of @fd and gives its index in the message. */
int request_take_fd(struct request *request, int fd, size_t *ret_index);

void request_release(struct request *request);
