/* The interpreter that waits in a sandbox of the pool: started with the command line and
 * environment of a run that says nothing of its own, it reads its script when a run comes. Knows
 * when that makes no difference to the script. Called by the pool and the runs. */
#pragma once

#include <stdbool.h>

#include "broker/policy.h"
#include "broker/sandbox.h"

/* What it was, or is to be, started with. */
struct interpreter_command {
    char **argv, **environment; /* NULL-terminated; NULL: there is none */
    bool has_input;             /* a pipe as its standard input, else /dev/null */
};

/* The broker's ends of its pipes: stdin, if it has one, stdout, stderr; -1 each if none waits. */
struct interpreter {
    int pipes[3];
};
#define INTERPRETER_NONE        \
    {                           \
        .pipes = { -1, -1, -1 } \
    }

/* Whether a run like this could have used one, and nothing in its command line and environment is
 * its caller's: so it may be the model of one. */
bool interpreter_is_usual(const struct request *request, const struct plan *plan);
/* That of a run, borrowed. */
struct interpreter_command interpreter_command_of(const struct request *request,
                                                  const struct plan *plan);
/* Replaces @copy. Returns 0 or -ENOMEM; there is none then. */
int interpreter_copy_command(const struct interpreter_command *command,
                             struct interpreter_command *copy);
void interpreter_release_command(struct interpreter_command *command);

/* Starts one, which then waits, in a sandbox that is ready. Returns 0 or a negative errno. */
int interpreter_start(struct sandbox *sandbox, const struct interpreter_command *command,
                      const char *directory, struct interpreter *ret);
/* Whether the run's script would find all as if it was started by itself. */
bool interpreter_fits(const struct interpreter_command *command, const struct request *request,
                      const struct plan *plan);
static inline bool interpreter_waits(const struct interpreter *interpreter)
{
    return interpreter->pipes[1] >= 0;
}
void interpreter_close(struct interpreter *interpreter);
