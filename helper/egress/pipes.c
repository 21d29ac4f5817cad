/* The pool of pipes, see pipes.h. */
#include "pipes.h"

#include <fcntl.h>
#include <unistd.h>

#include "common/cleanup.h"

int pipes_take(struct pipes *pipes, struct pipe_ends *ret)
{
    int ends[2];

    if (pipes->n_free > 0) {
        *ret = pipes->free[--pipes->n_free];
        return 0;
    }
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
        return -errno;
    bool large = pipes->n_large < PIPES_LARGE_MAX;
    /* Another size will do. */
    (void)fcntl(ends[1], F_SETPIPE_SZ, large ? PIPE_SIZE : PIPE_SIZE_SMALL);
    pipes->n_large += large;
    *ret = (struct pipe_ends){ ends[0], ends[1], large };
    return 0;
}

void pipes_drop(struct pipes *pipes, struct pipe_ends *pipe)
{
    close_fd(pipe->out);
    close_fd(pipe->in);
    pipes->n_large -= pipe->large;
    *pipe = PIPE_NONE;
}

void pipes_give(struct pipes *pipes, struct pipe_ends *pipe)
{
    if (!pipe->large) {
        pipes_drop(pipes, pipe);
        return;
    }
    pipes->free[pipes->n_free++] = *pipe;
    *pipe = PIPE_NONE;
}

void pipes_release(struct pipes *pipes)
{
    while (pipes->n_free > 0)
        pipes_drop(pipes, &pipes->free[--pipes->n_free]);
}
