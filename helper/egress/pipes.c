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
    /* A smaller one will do. */
    (void)fcntl(ends[1], F_SETPIPE_SZ, PIPE_SIZE);
    *ret = (struct pipe_ends){ ends[0], ends[1] };
    return 0;
}

void pipe_close(struct pipe_ends *pipe)
{
    pipe->out = close_fd(pipe->out);
    pipe->in = close_fd(pipe->in);
}

void pipes_give(struct pipes *pipes, struct pipe_ends *pipe)
{
    if (pipe->in >= 0 && pipes->n_free < PIPES_FREE_MAX)
        pipes->free[pipes->n_free++] = *pipe;
    else
        pipe_close(pipe);
    *pipe = PIPE_NONE;
}

void pipes_release(struct pipes *pipes)
{
    while (pipes->n_free > 0)
        pipe_close(&pipes->free[--pipes->n_free]);
}
