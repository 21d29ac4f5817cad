/* Copying one file's bytes, holes kept. Called by the collection; knows nothing of names and
 * limits. */
#pragma once

#include <stdint.h>

enum copy_outcome {
    COPY_DONE = 0,
    COPY_UNREADABLE = 1, /* the source failed; *ret_bytes is its positive errno */
};

/* Copies the first @size bytes of @in to the empty file @out and keeps holes. A source that is cut
 * meanwhile gives a shorter copy, one that grows no longer one. @ret_bytes is the copy's length.
 * Gives up with -ECANCELED when the other end of the socket @job is closed. Returns an outcome, or
 * a negative errno of the destination (-ENOSPC, …). */
int copy_sparse(int in, int out, uint64_t size, int job, uint64_t *ret_bytes);
