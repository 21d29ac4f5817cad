/* The script of a run: read as the user, from a file, the command line or standard input, into a
 * sealed memfd that nobody can change any more. Called by request.c. */
#pragma once

#include <stdbool.h>

#include "client/run-options.h"

/* Only stops what has no end; how large a script may be is said by the helper. */
#define SCRIPT_BYTES_MAX (64 * 1024 * 1024)

struct script {
    int fd;
    const char *name; /* borrowed from the options, like @language, which may be NULL */
    const char *language;
    bool was_stdin;
};
#define SCRIPT_NULL \
    {               \
        .fd = -1    \
    }

/* Returns 0, or the exit status of a failure that has been told. */
int script_open(const struct run_options *options, struct script *ret);
void script_release(struct script *script);
