/* Pipes to splice(2) through, shared by all connections of a process: one is held only while it has
 * something in it, so that hundreds of idle connections take none. Called by the relay. */
#pragma once

#include <stddef.h>

/* As much as one unprivileged user's pipes may have by default (pipe(7)); a machine that allows
 * less gives the default size. */
#define PIPE_SIZE (1024 * 1024)
#define PIPES_FREE_MAX 4

struct pipe_ends {
    int out, in; /* to read from, to write to; -1: none */
};
#define PIPE_NONE ((struct pipe_ends){ -1, -1 })

struct pipes {
    struct pipe_ends free[PIPES_FREE_MAX];
    size_t n_free;
};

/* Takes an empty pipe out of the pool, or makes one. Returns 0 or a negative errno. */
int pipes_take(struct pipes *pipes, struct pipe_ends *ret);
/* Gives an empty one back. */
void pipes_give(struct pipes *pipes, struct pipe_ends *pipe);
/* For one that has something in it. */
void pipe_close(struct pipe_ends *pipe);
void pipes_release(struct pipes *pipes);
