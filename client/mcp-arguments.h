/* The arguments of tool run_code, from JSON to a request for the helper. Called by mcp-run.c, and
 * for single arguments by other tools; what the helper may say of it is not said here. */
#pragma once

#include <json-c/json.h>
#include <stddef.h>
#include <stdint.h>

#include "client/request.h"

struct mcp_run_arguments {
    struct run_options options;
    char **environment; /* what options.environment points to */
    size_t n_environment;
    json_object *files;         /* an array, borrowed, or NULL */
    const char *standard_input; /* borrowed, or NULL */
    uint64_t wait_seconds;
};

/* Both return 0, or not for a failure that has been told; then there is nothing to release.
 * @arguments must outlive the struct. */
int mcp_arguments_parse(json_object *arguments, struct mcp_run_arguments *ret);
/* Reads the files that are given by their path, as the user. */
int mcp_arguments_request(const struct mcp_run_arguments *arguments, struct request *ret);

void mcp_arguments_release(struct mcp_run_arguments *arguments);

/* What an argument of any tool may be. Returns 0, or not for one that is something else, which has
 * been told. @ret stays as it is for one that is absent. */
int mcp_argument_string(json_object *arguments, const char *name, const char **ret);
int mcp_argument_number(json_object *arguments, const char *name, uint64_t min, uint64_t max,
                        uint64_t *ret);
int mcp_argument_bool(json_object *arguments, const char *name, bool *ret);
/* The members that @names, ended by NULL, does not have are told. */
int mcp_arguments_check(json_object *arguments, const char *const *names);
