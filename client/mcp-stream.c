/* Reading and writing lines without being held up, see mcp-stream.h. */
#include "client/mcp-stream.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "client/mcp-message.h"
#include "client/pump.h"
#include "common/clock.h"
#include "common/json.h"

#define READ_SIZE (64 * 1024)
/* Above this no more is read; below half of it again. */
#define PENDING_MAX (32 * 1024 * 1024)
#define FLUSH_USEC (5 * USEC_PER_SEC)

struct output {
    struct output *next;
    size_t size, done;
    char data[];
};

struct mcp_stream {
    struct mcp_stream_handlers handlers;
    sd_event_source *input, *output;
    struct sink sink;

    char *line; /* what has come of it */
    size_t allocated, size, scanned;
    bool is_too_long; /* it is passed over, but for its id */
    struct mcp_id_finder finder;

    struct output *first, *last;
    size_t pending;
    bool is_paused, is_over;
};

/* ---- Input ---- */

/* The rest of a long line, up to its end. */
static void pass_over(struct mcp_stream *stream, const char *data, size_t size)
{
    mcp_id_finder_feed(&stream->finder, data, size);
}

static void end_long_line(struct mcp_stream *stream)
{
    _cleanup_json_ json_object *id = mcp_id_finder_id(&stream->finder);

    stream->is_too_long = false;
    stream->finder = (struct mcp_id_finder){};
    stream->handlers.too_long(id, stream->handlers.userdata);
}

static void forget(struct mcp_stream *stream, size_t n)
{
    stream->size -= n;
    stream->scanned = 0;
    memmove(stream->line, stream->line + n, stream->size);
    /* A large message is rare, and the server lives long. */
    if (stream->allocated > 4 * READ_SIZE && stream->size < READ_SIZE) {
        char *smaller = realloc(stream->line, 2 * READ_SIZE);
        if (smaller) {
            stream->line = smaller;
            stream->allocated = 2 * READ_SIZE;
        }
    }
}

static void take_line(struct mcp_stream *stream, const char *line, size_t size)
{
    if (stream->is_too_long) {
        pass_over(stream, line, size);
        end_long_line(stream);
        return;
    }
    if (size > 0 && line[size - 1] == '\r')
        size--;
    if (size > 0)
        stream->handlers.line(line, size, stream->handlers.userdata);
}

static void take_lines(struct mcp_stream *stream)
{
    size_t begin = 0;

    for (;;) {
        char *at = stream->line + begin;
        size_t left = stream->size - begin, skip = begin ? 0 : stream->scanned;
        char *end = memchr(at + skip, '\n', left - skip);
        if (!end || stream->is_over)
            break;
        take_line(stream, at, (size_t)(end - at));
        begin += (size_t)(end - at) + 1;
    }
    if (begin > 0)
        forget(stream, begin);
    stream->scanned = stream->size;
    if (stream->is_too_long || stream->size > MCP_MESSAGE_MAX) {
        stream->is_too_long = true;
        pass_over(stream, stream->line, stream->size);
        forget(stream, stream->size);
    }
}

static void end(struct mcp_stream *stream)
{
    if (stream->is_over)
        return;
    stream->is_over = true;
    sd_event_source_set_enabled(stream->input, SD_EVENT_OFF);
    stream->handlers.end(stream->handlers.userdata);
}

static int make_room(struct mcp_stream *stream)
{
    if (stream->allocated - stream->size >= READ_SIZE)
        return 0;
    size_t want = stream->allocated < 2 * READ_SIZE ? 2 * READ_SIZE : 2 * stream->allocated;
    char *larger = realloc(stream->line, want);
    if (!larger)
        return -ENOMEM;
    stream->line = larger;
    stream->allocated = want;
    return 0;
}

static void read_input(struct mcp_stream *stream)
{
    if (make_room(stream) < 0) {
        end(stream);
        return;
    }
    ssize_t n = read(STDIN_FILENO, stream->line + stream->size, READ_SIZE);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        end(stream);
        return;
    }
    stream->size += (size_t)n;
    take_lines(stream);
}

static int on_input(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
    read_input(userdata);
    return 0;
}

static int on_input_file(sd_event_source *source, void *userdata)
{
    read_input(userdata);
    return 0;
}

/* ---- Output ---- */

static void drop_output(struct mcp_stream *stream)
{
    for (struct output *next; stream->first; stream->first = next) {
        next = stream->first->next;
        free(stream->first);
    }
    stream->last = NULL;
    stream->pending = 0;
}

/* Reads no more from a client that does not read, and goes on when it does. */
static void balance(struct mcp_stream *stream)
{
    bool pause = stream->pending > (stream->is_paused ? PENDING_MAX / 2 : PENDING_MAX);

    if (pause == stream->is_paused || stream->is_over)
        return;
    stream->is_paused = pause;
    sd_event_source_set_enabled(stream->input, pause ? SD_EVENT_OFF : SD_EVENT_ON);
}

static void write_output(struct mcp_stream *stream)
{
    struct output *output = stream->first;

    if (!output)
        return;
    ssize_t n = sink_write(&stream->sink, output->data + output->done, output->size - output->done);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n < 0) {
        drop_output(stream);
        end(stream);
    } else {
        output->done += (size_t)n;
        stream->pending -= (size_t)n;
        if (output->done == output->size) {
            stream->first = output->next;
            if (!stream->first)
                stream->last = NULL;
            free(output);
        }
    }
    balance(stream);
    if (!stream->first)
        sd_event_source_set_enabled(stream->output, SD_EVENT_OFF);
}

static int on_output(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
    write_output(userdata);
    return 0;
}

static int on_output_file(sd_event_source *source, void *userdata)
{
    write_output(userdata);
    return 0;
}

int mcp_stream_send(struct mcp_stream *stream, json_object *message)
{
    _cleanup_json_ json_object *owned = message;
    size_t size;
    const char *text = json_text(owned, &size);
    struct output *output = text ? malloc(sizeof(*output) + size + 1) : NULL;

    if (!output)
        return -ENOMEM;
    *output = (struct output){ .size = size + 1 };
    memcpy(output->data, text, size);
    output->data[size] = '\n';
    if (stream->last)
        stream->last->next = output;
    else
        stream->first = output;
    stream->last = output;
    stream->pending += output->size;
    balance(stream);
    sd_event_source_set_enabled(stream->output, SD_EVENT_ON);
    return 0;
}

void mcp_stream_flush(struct mcp_stream *stream)
{
    uint64_t deadline = clock_now() + FLUSH_USEC;

    stream->is_over = true;
    while (stream->first) {
        struct pollfd p = { stream->sink.fd, POLLOUT, 0 };
        if (poll_until(&p, 1, deadline) <= 0)
            return;
        write_output(stream);
    }
}

/* ---- Both ---- */

/* A regular file cannot be waited for (epoll_ctl(2), EPERM), and need not be. */
static int add_source(sd_event *event, sd_event_source **ret, int fd, uint32_t events,
                      sd_event_io_handler_t on_io, sd_event_handler_t on_file, void *userdata)
{
    int r = sd_event_add_io(event, ret, fd, events, on_io, userdata);
    return r == -EPERM ? sd_event_add_defer(event, ret, on_file, userdata) : r;
}

int mcp_stream_new(sd_event *event, const struct mcp_stream_handlers *handlers,
                   struct mcp_stream **ret)
{
    struct mcp_stream *stream = calloc(1, sizeof(*stream));

    if (!stream)
        return -ENOMEM;
    stream->handlers = *handlers;
    stream->sink = sink_open(STDOUT_FILENO);
    int r =
        add_source(event, &stream->input, STDIN_FILENO, EPOLLIN, on_input, on_input_file, stream);
    if (r >= 0)
        r = add_source(event, &stream->output, stream->sink.fd, EPOLLOUT, on_output, on_output_file,
                       stream);
    if (r >= 0)
        r = sd_event_source_set_enabled(stream->input, SD_EVENT_ON);
    if (r >= 0)
        r = sd_event_source_set_enabled(stream->output, SD_EVENT_OFF);
    if (r < 0) {
        mcp_stream_free(stream);
        return r;
    }
    *ret = stream;
    return 0;
}

struct mcp_stream *mcp_stream_free(struct mcp_stream *stream)
{
    if (!stream)
        return NULL;
    sd_event_source_disable_unref(stream->input);
    sd_event_source_disable_unref(stream->output);
    drop_output(stream);
    sink_close(&stream->sink);
    free(stream->line);
    free(stream);
    return NULL;
}
