/* Buffers to move bytes through, shared by all connections of a process: one is held only while it
 * has something in it, so that hundreds of idle connections take none. Called by the relay. */
#pragma once

#include <stddef.h>

/* Large ones are what makes a fast connection fast: fewer turns, each of which wakes somebody. A
 * run has a few, and small ones where many connections are held up at once. */
#define BUFFER_SIZE (1024 * 1024)
#define BUFFER_SIZE_SMALL (64 * 1024)
#define BUFFERS_LARGE_MAX 4

struct buffer {
    char *data; /* NULL: none */
    size_t size;
};

struct buffers {
    char *free[BUFFERS_LARGE_MAX]; /* all of them large */
    size_t n_free, n_large;
};

/* Takes one that is free, or makes one. Returns 0 or -ENOMEM. */
int buffers_take(struct buffers *buffers, struct buffer *ret);
/* Gives one back; none will do, too. */
void buffers_give(struct buffers *buffers, struct buffer *buffer);
void buffers_release(struct buffers *buffers);
