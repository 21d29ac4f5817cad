/* The framing of a chunked body (RFC 9112, section 7.1), followed byte by byte so that not one byte
 * behind it is forwarded. Pure. Called for what a program in the sandbox sends. Chunk extensions
 * are refused: nobody needs them, and readers differ about them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define CHUNKED_TRAILERS_MAX 4096 /* bytes */

struct chunked {
    enum chunked_state {
        CHUNKED_SIZE_BEGIN, /* the default: before the first digit */
        CHUNKED_SIZE,
        CHUNKED_SIZE_LF,
        CHUNKED_DATA,
        CHUNKED_DATA_CR,
        CHUNKED_DATA_LF,
        CHUNKED_TRAILER_BEGIN,
        CHUNKED_TRAILER_NAME,
        CHUNKED_TRAILER_VALUE,
        CHUNKED_TRAILER_LF,
        CHUNKED_LAST_LF,
        CHUNKED_DONE,
    } state;
    uint64_t left; /* of the chunk; 0 between chunks */
    unsigned digits;
    size_t trailers; /* bytes so far */
};

/* Follows the next @size bytes. Returns how many of them belong to the body: all, unless it ends
 * before; or -EBADMSG. */
ssize_t chunked_follow(struct chunked *chunked, const char *data, size_t size);

static inline bool chunked_is_done(const struct chunked *chunked)
{
    return chunked->state == CHUNKED_DONE;
}
