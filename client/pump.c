/* Bytes between our streams and the run's, see pump.h. */
#include "client/pump.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"

static const struct sink no_sink = { .fd = -1 };

void sink_close(struct sink *sink)
{
    if (sink->owned)
        close_fd(sink->fd);
    *sink = no_sink;
}

static void channel_close_source(struct channel *channel)
{
    if (channel->source_is_owned)
        close_fd(channel->source);
    channel->source = -1;
}

static void channel_close(struct channel *channel)
{
    channel_close_source(channel);
    sink_close(&channel->sink);
    channel->begin = channel->end = 0;
}

struct pump *pump_new(void)
{
    struct pump *pump = calloc(1, sizeof(*pump));

    for (size_t i = 0; pump && i < PUMP_DIRECTIONS; i++) {
        pump->channels[i].source = -1;
        pump->channels[i].sink = no_sink;
    }
    return pump;
}

struct pump *pump_free(struct pump *pump)
{
    for (size_t i = 0; pump && i < PUMP_DIRECTIONS; i++)
        channel_close(&pump->channels[i]);
    free(pump);
    return NULL;
}

/* One of our own streams. Its description may be shared with the shell, so O_NONBLOCK must not be
 * set on it; a pipe or terminal is opened anew through /proc instead, which gives a description of
 * our own (proc_pid_fd(5)). Where that is not permitted, a pipe takes PIPE_BUF bytes without
 * blocking after poll() said so (pipe(7)), and a file never blocks for long. */
struct sink sink_open(int fd)
{
    struct sink sink = { .fd = fd, .chunk = PUMP_BUFFER };
    char path[32];
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0)
        return sink;
    if (S_ISSOCK(st.st_mode))
        sink.is_socket = true;
    sink.is_terminal = isatty(fd);
    if (!S_ISFIFO(st.st_mode) && !sink.is_terminal)
        return sink;

    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    int again = open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (again < 0) {
        sink.chunk = PIPE_BUF;
        return sink;
    }
    sink.fd = again;
    sink.owned = true;
    return sink;
}

ssize_t sink_write(const struct sink *sink, const char *data, size_t size)
{
    if (size > sink->chunk)
        size = sink->chunk;
    return sink->is_socket ? send(sink->fd, data, size, MSG_DONTWAIT | MSG_NOSIGNAL)
                           : write(sink->fd, data, size);
}

/* Our end of a pipe of the run; the description is ours alone. */
static int own_pipe(int fd)
{
    (void)fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    return fd;
}

void pump_start(struct pump *pump, const int run[PUMP_DIRECTIONS], const int own[PUMP_DIRECTIONS])
{
    struct channel *in = &pump->channels[PUMP_STDIN];

    in->source = own[PUMP_STDIN];
    in->sink = (struct sink){ own_pipe(run[PUMP_STDIN]), .owned = true, .chunk = PUMP_BUFFER };
    if (in->source < 0)
        channel_close(in);
    for (int i = PUMP_STDOUT; i <= PUMP_STDERR; i++) {
        struct channel *out = &pump->channels[i];
        out->source = own_pipe(run[i]);
        out->source_is_owned = true;
        out->sink = sink_open(own[i]);
    }
}

static bool channel_is_empty(const struct channel *channel)
{
    return channel->begin == channel->end;
}

void pump_prepare(const struct pump *pump, struct pollfd fds[PUMP_POLL_FDS])
{
    for (int i = 0; i < PUMP_DIRECTIONS; i++) {
        const struct channel *channel = &pump->channels[i];
        bool empty = channel_is_empty(channel);
        fds[2 * i] = (struct pollfd){ empty ? channel->source : -1, POLLIN, 0 };
        fds[2 * i + 1] = (struct pollfd){ empty ? -1 : channel->sink.fd, POLLOUT, 0 };
    }
}

/* The sink is gone: who writes to us is to feel that too, by SIGPIPE. */
static void channel_fail(struct channel *channel, int error)
{
    if (error != EPIPE && error != ECONNRESET)
        channel->error = error;
    channel_close(channel);
}

static void channel_read(struct pump *pump, struct channel *channel)
{
    ssize_t n = read(channel->source, channel->buffer, sizeof(channel->buffer));

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        /* An error of reading ends it like an end of file: a terminal that hung up gives EIO. */
        channel_close(channel);
        return;
    }
    channel->begin = 0;
    channel->end = channel->sink.fd < 0 ? 0 : (size_t)n;
    if (channel == &pump->channels[PUMP_STDIN])
        pump->was_typed = pump->was_typed || isatty(channel->source);
}

static void note_written(struct pump *pump, const char *data, size_t size)
{
    if (size == 0)
        return;
    pump->in_line = data[size - 1] != '\n';
    pump->has_escapes = pump->has_escapes || memchr(data, '\033', size);
}

static void channel_write(struct pump *pump, struct channel *channel)
{
    ssize_t n =
        sink_write(&channel->sink, channel->buffer + channel->begin, channel->end - channel->begin);

    if (n > 0 && channel->sink.is_terminal)
        note_written(pump, channel->buffer + channel->begin, (size_t)n);
    if (n >= 0)
        channel->begin += (size_t)n;
    else if (errno != EAGAIN && errno != EINTR)
        channel_fail(channel, errno);
}

void pump_dispatch(struct pump *pump, const struct pollfd fds[PUMP_POLL_FDS])
{
    for (int i = 0; i < PUMP_DIRECTIONS; i++) {
        struct channel *channel = &pump->channels[i];
        if (fds[2 * i].fd >= 0 && fds[2 * i].revents && channel->source == fds[2 * i].fd)
            channel_read(pump, channel);
        else if (fds[2 * i + 1].fd >= 0 && fds[2 * i + 1].revents)
            channel_write(pump, channel);
    }
}

bool pump_has_output(const struct pump *pump)
{
    return !channel_is_empty(&pump->channels[PUMP_STDOUT]) ||
           !channel_is_empty(&pump->channels[PUMP_STDERR]);
}

bool pump_leaves_room(const struct pump *pump)
{
    return !pump->in_line && !pump->has_escapes && !pump->was_typed && !pump_has_output(pump);
}

void pump_close_stdin(struct pump *pump)
{
    channel_close(&pump->channels[PUMP_STDIN]);
}

bool pump_is_drained(const struct pump *pump)
{
    return pump->channels[PUMP_STDOUT].source < 0 && pump->channels[PUMP_STDERR].source < 0;
}

int pump_error(const struct pump *pump)
{
    int error = pump->channels[PUMP_STDOUT].error;
    return error ? error : pump->channels[PUMP_STDERR].error;
}
