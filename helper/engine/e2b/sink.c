/* The pipe's writer, see sink.h. */
#include "sink.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>

#include "common/cleanup.h"

static void drop_pending(struct sink *sink)
{
    free(TAKE_PTR(sink->pending));
    sink->size = sink->at = 0;
    sink->watch->fd = -1;
}

/* Returns how much went out; all of it if nobody wants it. */
static size_t put_out(struct sink *sink, const char *data, size_t size)
{
    size_t done = 0;

    while (done < size && sink->fd >= 0 && !sink->is_left) {
        ssize_t n = write(sink->fd, data + done, size - done);
        if (n < 0 && errno == EAGAIN)
            return done;
        if (n < 0)
            sink->is_left = true;
        else
            done += (size_t)n;
    }
    return size;
}

static int on_left(struct sink *sink)
{
    drop_pending(sink);
    sink->fd = close_fd(sink->fd);
    sink->is_left = false;
    if (*sink->running)
        http_resume(*sink->running);
    return sink->left(sink->userdata);
}

static int on_room(void *userdata)
{
    struct sink *sink = userdata;

    if (sink->is_left)
        return on_left(sink);
    sink->at += put_out(sink, sink->pending + sink->at, sink->size - sink->at);
    if (sink->is_left)
        return on_left(sink);
    if (sink->at < sink->size)
        return 0;
    drop_pending(sink);
    if (*sink->running)
        http_resume(*sink->running);
    return 0;
}

int sink_open(struct sink *sink, int fd, struct http_watch *watch, struct http_transfer **running,
              sink_left_fn left, void *userdata)
{
    *sink = (struct sink){
        .fd = fd, .watch = watch, .running = running, .left = left, .userdata = userdata
    };
    *watch = (struct http_watch){ -1, POLLOUT, on_room, sink, false };
    int flags = fcntl(fd, F_GETFL);
    return flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 ? -errno : 0;
}

bool sink_is_full(const struct sink *sink)
{
    return sink->pending;
}

int sink_write(struct sink *sink, const char *data, size_t size)
{
    size_t done = sink->pending ? 0 : put_out(sink, data, size);

    /* Not from here, where libcurl may be busy: a pipe without a reader is always ready. */
    if (sink->is_left)
        sink->watch->fd = sink->fd;
    if (done == size)
        return 0;
    char *longer = realloc(sink->pending, sink->size + size - done);
    if (!longer)
        return -ENOMEM;
    memcpy(longer + sink->size, data + done, size - done);
    sink->pending = longer;
    sink->size += size - done;
    sink->watch->fd = sink->fd;
    return 0;
}

void sink_close(struct sink *sink)
{
    if (!sink->watch)
        return;
    drop_pending(sink);
    sink->fd = close_fd(sink->fd);
}
