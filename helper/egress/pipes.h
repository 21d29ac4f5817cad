/* Pipes to splice(2) through, shared by all connections of a process: one is held only while it has
 * something in it, so that hundreds of idle connections take none. Called by the relay. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* The most that an unprivileged process may ask for by default (pipe(7)). What all pipes of a user
 * may have is limited, too, and all runs are one user here: so a run has a few large ones, and
 * small ones where many connections are held up at once. */
#define PIPE_SIZE (1024 * 1024)
#define PIPE_SIZE_SMALL (16 * 1024)
#define PIPES_LARGE_MAX 4

struct pipe_ends {
    int out, in; /* to read from, to write to; -1: none */
    bool large;
};
#define PIPE_NONE ((struct pipe_ends){ -1, -1, false })

struct pipes {
    struct pipe_ends free[PIPES_LARGE_MAX]; /* all of them large */
    size_t n_free, n_large;
};

/* Takes an empty pipe out of the pool, or makes one. Returns 0 or a negative errno. */
int pipes_take(struct pipes *pipes, struct pipe_ends *ret);
/* Gives an empty one back. */
void pipes_give(struct pipes *pipes, struct pipe_ends *pipe);
/* Closes one that has something in it. */
void pipes_drop(struct pipes *pipes, struct pipe_ends *pipe);
void pipes_release(struct pipes *pipes);
