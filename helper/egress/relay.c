/* Moving bytes from socket to socket, see relay.h. */
#include "relay.h"

#include <string.h>
#include <sys/socket.h>

#include "common/cleanup.h"
#include "http-head.h"

/* Rounds of one call. */
#define ROUNDS 8

void relay_release(struct relay *relay, struct buffers *buffers)
{
    uint64_t moved = relay->moved;

    free(relay->head);
    free(relay->front);
    buffers_give(buffers, &relay->buffer);
    *relay = RELAY_NULL;
    relay->moved = moved;
}

bool relay_wants_output(const struct relay *relay)
{
    return relay->end > relay->begin;
}

bool relay_wants_input(const struct relay *relay)
{
    return relay->source != RELAY_NOTHING && !relay->at_end && !relay_wants_output(relay);
}

bool relay_is_over(const struct relay *relay)
{
    return !relay_wants_output(relay) && (relay->source == RELAY_NOTHING || relay->passed_end);
}

int relay_put(struct relay *relay, const char *data, size_t size)
{
    if (relay->begin == relay->end)
        relay->begin = relay->end = 0;
    if (relay->buffer.data)
        return -EBUSY; /* what is in it would go out after this */
    char *front = realloc(relay->front, relay->end + size + 1);
    if (!front)
        return -ENOMEM;
    relay->front = front;
    memcpy(front + relay->end, data, size);
    relay->end += size;
    return 0;
}

/* ---- out */

/* Returns the bytes moved, 0 if .to takes none, or a negative errno. */
static ssize_t write_out(struct relay *relay, struct buffers *buffers)
{
    const char *data = relay->front ? relay->front : relay->buffer.data;
    ssize_t n = send(relay->to, data + relay->begin, relay->end - relay->begin,
                     MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -errno;
    relay->begin += (size_t)n;
    if (relay->begin == relay->end) {
        free(relay->front);
        relay->front = NULL;
        buffers_give(buffers, &relay->buffer);
    }
    return n;
}

/* ---- in */

static size_t least(uint64_t a, uint64_t b)
{
    return (size_t)(a < b ? a : b);
}

static void account(struct relay *relay, size_t n, uint64_t *allowance)
{
    relay->moved += n;
    *allowance -= n;
}

/* As the next ones: bytes moved; 0 with .at_end or if there is nothing now; or a negative errno. */
static ssize_t read_some(struct relay *relay, char *data, size_t size)
{
    ssize_t n = recv(relay->from, data, size, MSG_DONTWAIT);

    if (n < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -errno;
    relay->at_end = n == 0 && size > 0;
    return n;
}

static ssize_t fill_buffer(struct relay *relay, struct buffers *buffers, uint64_t most)
{
    int r = buffers_take(buffers, &relay->buffer);
    if (r < 0)
        return r;
    ssize_t n = read_some(relay, relay->buffer.data, least(relay->buffer.size, most));
    relay->begin = 0;
    relay->end = n > 0 ? (size_t)n : 0;
    if (n <= 0)
        buffers_give(buffers, &relay->buffer);
    return n;
}

static ssize_t take_length(struct relay *relay, struct buffers *buffers, uint64_t *allowance)
{
    ssize_t n = fill_buffer(relay, buffers, least(relay->left, *allowance));
    if (n <= 0)
        return relay->at_end ? -ENODATA : n;
    account(relay, (size_t)n, allowance);
    relay->left -= (size_t)n;
    if (relay->left == 0)
        relay->source = RELAY_NOTHING;
    return n;
}

static ssize_t take_chunked(struct relay *relay, struct buffers *buffers, uint64_t *allowance)
{
    ssize_t n = fill_buffer(relay, buffers, *allowance);
    if (n <= 0)
        return relay->at_end ? -ENODATA : n;
    n = chunked_follow(&relay->chunked, relay->buffer.data, (size_t)n);
    if (n < 0)
        return n;
    account(relay, (size_t)n, allowance);
    if (chunked_is_done(&relay->chunked))
        relay->source = RELAY_NOTHING;
    relay->end = (size_t)n;
    return n;
}

/* Passes the first @size bytes of .head on, which are a whole head. */
static int pass_head(struct relay *relay, size_t size)
{
    struct http_response response;
    char text[HTTP_HEAD_MAX + HTTP_HEAD_GROWTH];

    if (http_response_parse(relay->head, size, &response) || response.status == 101)
        return -EBADMSG;
    int r = relay_put(relay, text, http_response_write(&response, text));
    if (r < 0)
        return r;
    relay->head_size -= size;
    relay->head_seen = 0;
    memmove(relay->head, relay->head + size, relay->head_size);
    if (response.status < 200)
        return 0;
    relay->source = RELAY_RAW;
    return relay_put(relay, relay->head, relay->head_size);
}

/* As many heads as have come. */
static int pass_heads(struct relay *relay)
{
    while (relay->source == RELAY_RESPONSE) {
        ssize_t size = http_head_size(relay->head, relay->head_size, relay->head_seen);
        if (size < 0)
            return -EBADMSG;
        if (size == 0) {
            relay->head_seen = relay->head_size;
            return 0;
        }
        int r = pass_head(relay, (size_t)size);
        if (r < 0)
            return r;
    }
    free(relay->head);
    relay->head = NULL;
    return 0;
}

static ssize_t take_response(struct relay *relay, uint64_t *allowance)
{
    if (!relay->head) {
        relay->head = malloc(HTTP_HEAD_MAX);
        if (!relay->head)
            return -ENOMEM;
    }
    ssize_t n = read_some(relay, relay->head + relay->head_size,
                          least(HTTP_HEAD_MAX - relay->head_size, *allowance));
    if (n <= 0)
        return relay->at_end ? -ENODATA : n;
    account(relay, (size_t)n, allowance);
    relay->head_size += (size_t)n;
    int r = pass_heads(relay);
    return r < 0 ? r : n;
}

static ssize_t take(struct relay *relay, struct buffers *buffers, uint64_t *allowance)
{
    ssize_t n;

    if (*allowance == 0)
        return -EDQUOT;
    switch (relay->source) {
    case RELAY_RAW:
        n = fill_buffer(relay, buffers, *allowance);
        if (n > 0)
            account(relay, (size_t)n, allowance);
        return n;
    case RELAY_LENGTH:
        return take_length(relay, buffers, allowance);
    case RELAY_CHUNKED:
        return take_chunked(relay, buffers, allowance);
    case RELAY_RESPONSE:
        return take_response(relay, allowance);
    case RELAY_NOTHING:
    default:
        return 0;
    }
}

/* ---- both */

static ssize_t move_once(struct relay *relay, struct buffers *buffers, uint64_t *allowance)
{
    if (relay->end > relay->begin)
        return write_out(relay, buffers);
    return relay_wants_input(relay) ? take(relay, buffers, allowance) : 0;
}

ssize_t relay_move(struct relay *relay, struct buffers *buffers, uint64_t *allowance)
{
    ssize_t n = 0, moved = 0;

    for (size_t i = 0; i < ROUNDS; i++) {
        n = move_once(relay, buffers, allowance);
        if (n <= 0)
            break;
        moved += n;
    }
    if (n < 0)
        return n;
    if (relay->at_end && !relay->passed_end && !relay_wants_output(relay)) {
        if (shutdown(relay->to, SHUT_WR) < 0)
            return -errno;
        relay->passed_end = true;
    }
    return moved;
}
