/* The pool of buffers, see buffers.h. */
#include "buffers.h"

#include <stdbool.h>

#include "common/cleanup.h"

int buffers_take(struct buffers *buffers, struct buffer *ret)
{
    if (buffers->n_free > 0) {
        *ret = (struct buffer){ buffers->free[--buffers->n_free], BUFFER_SIZE };
        return 0;
    }
    bool large = buffers->n_large < BUFFERS_LARGE_MAX;
    size_t size = large ? BUFFER_SIZE : BUFFER_SIZE_SMALL;
    char *data = malloc(size);
    if (!data)
        return -ENOMEM;
    buffers->n_large += large;
    *ret = (struct buffer){ data, size };
    return 0;
}

void buffers_give(struct buffers *buffers, struct buffer *buffer)
{
    if (buffer->size == BUFFER_SIZE)
        buffers->free[buffers->n_free++] = buffer->data;
    else
        free(buffer->data);
    *buffer = (struct buffer){ 0 };
}

void buffers_release(struct buffers *buffers)
{
    while (buffers->n_free > 0)
        free(buffers->free[--buffers->n_free]);
}
