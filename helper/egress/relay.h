/* One direction of a connection: bytes of ours, then what one socket has for the other, as far as
 * its framing says. Called by the connections for both directions, whenever a socket can be read or
 * written; never waits. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "buffers.h"
#include "chunked.h"

enum relay_source {
    RELAY_RAW,      /* everything, until end of file, which is passed on */
    RELAY_LENGTH,   /* .left bytes */
    RELAY_CHUNKED,  /* a chunked body */
    RELAY_RESPONSE, /* heads of an HTTP response, then RAW */
    RELAY_NOTHING,  /* no more */
};

struct relay {
    int from, to; /* borrowed */
    enum relay_source source;
    uint64_t left;
    struct chunked chunked;
    char *head; /* RESPONSE: what came of one, .head_size bytes */
    size_t head_size, head_seen;
    char *front;          /* bytes of ours that go out before anything else, or NULL */
    struct buffer buffer; /* what was read, if there are none */
    size_t begin, end;    /* what of either is still to go out */
    bool at_end;          /* .from has ended */
    bool passed_end;      /* and .to was told */
    uint64_t moved;       /* bytes that came from .from and were for .to */
};
#define RELAY_NULL ((struct relay){ .from = -1, .to = -1, .source = RELAY_NOTHING })

/* Moves nothing any more. What was moved stays told. */
void relay_release(struct relay *relay, struct buffers *buffers);

/* Puts bytes of ours in front. Returns 0 or -ENOMEM. */
int relay_put(struct relay *relay, const char *data, size_t size);

/* Moves what can be moved at once, up to a share that leaves others their turn, and takes it from
 * @allowance. Returns the number of bytes moved either in or out, or a negative errno: -EDQUOT if
 * the allowance is used up, -EBADMSG for framing or a head that is malformed, -ENODATA for an end
 * of file in the middle of them, others as the sockets have them. */
ssize_t relay_move(struct relay *relay, struct buffers *buffers, uint64_t *allowance);

/* What relay_move() would have to wait for; both may be false if it is over. */
bool relay_wants_input(const struct relay *relay);
bool relay_wants_output(const struct relay *relay);
/* Nothing will be moved any more. */
bool relay_is_over(const struct relay *relay);
