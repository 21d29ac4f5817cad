/* Keeping and passing on of a program's output, see stream.h. */
#include "broker/stream.h"
#include "common/base64.h"
#include "common/cleanup.h"

#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>

#define CHUNK (64 * 1024)
/* A pipe holds 1 MiB at most (fs.pipe-max-size for users); with what already waited for the caller.
 */
#define DRAIN_MAX (2 * 1024 * 1024)
/* Replies that may wait in the caller's connection before the stream pauses. */
#define MESSAGES_PENDING_MAX (256 * 1024)

const char *const stream_names[2] = { "stdout", "stderr" };

struct stream {
    struct stream_options options;
    sd_event_source *source_event, *sink_event;
    uint64_t bytes, kept;
    char *buffer; /* read and kept, not yet passed on: from @start to @end */
    size_t start, end, size;
    bool draining, ended;
};

static void close_source(struct stream *stream)
{
    stream->source_event = sd_event_source_disable_unref(stream->source_event);
    stream->options.source = close_fd(stream->options.source);
}

static void close_sink(struct stream *stream)
{
    stream->sink_event = sd_event_source_disable_unref(stream->sink_event);
    stream->options.sink = close_fd(stream->options.sink);
    stream->start = stream->end = 0;
}

struct stream *stream_free(struct stream *stream)
{
    if (!stream)
        return NULL;
    close_source(stream);
    close_sink(stream);
    free(stream->buffer);
    free(stream);
    return NULL;
}

bool stream_ended(const struct stream *stream)
{
    return stream->ended;
}

bool stream_flushed(const struct stream *stream)
{
    return stream->ended && stream->start == stream->end;
}

int stream_source(const struct stream *stream)
{
    return stream->options.source;
}

uint64_t stream_bytes(const struct stream *stream)
{
    return stream->bytes;
}

uint64_t stream_kept(const struct stream *stream)
{
    return stream->kept;
}

static void keep(struct stream *stream, const char *data, size_t size)
{
    uint64_t room = stream->options.kept_max - stream->kept;
    size_t done = 0;

    size = size < room ? size : (size_t)room;
    while (done < size) {
        ssize_t n = write(stream->options.kept, data + done, size - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            /* Disk full: from here on it is counted and passed on; the result says "truncated". */
            stream->options.kept_max = stream->kept + done;
            break;
        }
        done += (size_t)n;
    }
    stream->kept += done;
}

json_object *stream_message(const char *id, const char *name, const char *data, size_t size,
                            uint64_t offset)
{
    _cleanup_free_ char *text = base64_encode(data, size, NULL);
    json_object *message = text ? json_object_new_object() : NULL;

    if (!message || json_add_string(message, "event", "output") < 0 ||
        (id && json_add_string(message, "id", id) < 0) ||
        json_add_string(message, "stream", name) < 0 ||
        json_add_string(message, "data", text) < 0 ||
        json_add_uint64(message, "offset", offset) < 0) {
        json_object_put(message);
        return NULL;
    }
    return message;
}

static void send_messages(struct stream *stream)
{
    while (stream->start < stream->end) {
        size_t left = stream->end - stream->start, n = left < CHUNK ? left : CHUNK;
        json_object *message = stream_message(
            NULL, stream->options.name, stream->buffer + stream->start, n, stream->bytes - left);

        stream->start += n;
        if (!message || varlink_notify(stream->options.call, message, NULL, 0) < 0)
            break;
    }
    stream->start = stream->end = 0;
}

/* Passes on what waits, as far as the caller takes it now. */
static void pass_on(struct stream *stream)
{
    if (stream->options.call)
        send_messages(stream);
    if (stream->options.sink < 0)
        stream->start = stream->end = 0;
    while (stream->start < stream->end) {
        ssize_t n = write(stream->options.sink, stream->buffer + stream->start,
                          stream->end - stream->start);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return;
        if (n < 0) {
            /* Nobody reads any more: the program sees a closed pipe, as it would in a shell. */
            close_sink(stream);
            close_source(stream);
            stream->ended = true;
            return;
        }
        stream->start += (size_t)n;
    }
    stream->start = stream->end = 0;
    if (stream->ended && stream->options.sink >= 0)
        close_sink(stream); /* the caller's end of file */
}

static bool may_read(const struct stream *stream)
{
    if (stream->ended)
        return false;
    if (stream->draining)
        return true;
    if (stream->start < stream->end)
        return false;
    return !stream->options.call ||
           varlink_call_pending_output(stream->options.call) < MESSAGES_PENDING_MAX;
}

static void update_events(struct stream *stream)
{
    if (stream->source_event)
        sd_event_source_set_enabled(stream->source_event,
                                    may_read(stream) ? SD_EVENT_ON : SD_EVENT_OFF);
    if (stream->sink_event)
        sd_event_source_set_enabled(stream->sink_event,
                                    stream->start < stream->end ? SD_EVENT_ON : SD_EVENT_OFF);
}

static int make_room(struct stream *stream)
{
    if (stream->size - stream->end >= CHUNK)
        return 0;
    char *bigger = realloc(stream->buffer, stream->end + CHUNK);
    if (!bigger)
        return -ENOMEM;
    stream->buffer = bigger;
    stream->size = stream->end + CHUNK;
    return 0;
}

/* Reads once. Returns 1 if there may be more, 0 if not now, and ends the stream at its end. */
static int read_source(struct stream *stream)
{
    if (stream->end - stream->start > DRAIN_MAX || make_room(stream) < 0) {
        stream->ended = true;
        close_source(stream);
        return 0;
    }
    ssize_t n = read(stream->options.source, stream->buffer + stream->end, CHUNK);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (n <= 0) {
        stream->ended = true;
        close_source(stream);
        return 0;
    }
    stream->bytes += (uint64_t)n;
    keep(stream, stream->buffer + stream->end, (size_t)n);
    if (stream->options.came)
        stream->options.came(stream, stream->buffer + stream->end, (size_t)n,
                             stream->bytes - (uint64_t)n, stream->options.userdata);
    stream->end += (size_t)n;
    return 1;
}

/* Calls back if something came to its end; @stream may be gone afterwards. */
static void report(struct stream *stream, bool was_ended, bool was_flushed)
{
    if (stream_ended(stream) != was_ended || stream_flushed(stream) != was_flushed)
        stream->options.changed(stream->options.userdata);
}

static int on_source(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
    struct stream *stream = userdata;
    bool was_ended = stream_ended(stream), was_flushed = stream_flushed(stream);

    read_source(stream);
    pass_on(stream);
    update_events(stream);
    report(stream, was_ended, was_flushed);
    return 0;
}

static int on_sink(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
    struct stream *stream = userdata;
    bool was_ended = stream_ended(stream), was_flushed = stream_flushed(stream);

    pass_on(stream);
    update_events(stream);
    report(stream, was_ended, was_flushed);
    return 0;
}

void stream_drain(struct stream *stream)
{
    stream->draining = true;
    while (!stream->ended && read_source(stream) > 0)
        ;
    pass_on(stream);
    update_events(stream);
}

void stream_end(struct stream *stream)
{
    stream->ended = true;
    close_source(stream);
    pass_on(stream);
    update_events(stream);
}

void stream_resume(struct stream *stream)
{
    update_events(stream);
}

void stream_forget_caller(struct stream *stream)
{
    stream->options.call = NULL;
    close_sink(stream);
    update_events(stream);
}

int stream_new(sd_event *event, const struct stream_options *options, struct stream **ret)
{
    struct stream *stream = calloc(1, sizeof(*stream));
    int r = 0;

    if (!stream) {
        close_fd(options->source);
        close_fd(options->sink);
        return -ENOMEM;
    }
    stream->options = *options;
    stream->bytes = options->bytes;
    stream->kept = options->kept_bytes;
    if (stream->options.kept_max < stream->kept)
        stream->options.kept_max = stream->kept;
    if (fcntl(options->source, F_SETFL, O_NONBLOCK) < 0 ||
        (options->sink >= 0 && fcntl(options->sink, F_SETFL, O_NONBLOCK) < 0))
        r = -errno;
    if (r >= 0)
        r = sd_event_add_io(event, &stream->source_event, options->source, EPOLLIN, on_source,
                            stream);
    if (r >= 0 && options->sink >= 0) {
        r = sd_event_add_io(event, &stream->sink_event, options->sink, EPOLLOUT, on_sink, stream);
        if (r >= 0)
            r = sd_event_source_set_enabled(stream->sink_event, SD_EVENT_OFF);
    }
    if (r < 0) {
        stream_free(stream);
        return r;
    }
    *ret = stream;
    return 0;
}
