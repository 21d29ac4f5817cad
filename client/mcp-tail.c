/* See mcp-tail.h. */
#include "client/mcp-tail.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/escape.h"
#include "common/json.h"

#define READ_SIZE (64 * 1024)

static void take(struct mcp_tail *tail, const char *data, size_t size)
{
    tail->bytes += size;
    if (size >= sizeof(tail->data)) {
        memcpy(tail->data, data + size - sizeof(tail->data), sizeof(tail->data));
        tail->size = sizeof(tail->data);
        return;
    }
    if (tail->size + size > sizeof(tail->data)) {
        size_t gone = tail->size + size - sizeof(tail->data);
        tail->size -= gone;
        memmove(tail->data, tail->data + gone, tail->size);
    }
    memcpy(tail->data + tail->size, data, size);
    tail->size += size;
}

static int on_readable(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
    struct mcp_tail *tail = userdata;
    char buffer[READ_SIZE];
    ssize_t n = read(fd, buffer, sizeof(buffer));

    if (n > 0)
        take(tail, buffer, (size_t)n);
    else if (n == 0 || (errno != EAGAIN && errno != EINTR))
        mcp_tail_end(tail);
    return 0;
}

int mcp_tail_start(struct mcp_tail *tail, sd_event *event, int fd)
{
    tail->fd = fd;
    /* The description is ours alone. */
    (void)fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    int r = sd_event_add_io(event, &tail->source, fd, EPOLLIN, on_readable, tail);
    if (r < 0)
        mcp_tail_end(tail);
    return r < 0 ? r : 0;
}

void mcp_tail_end(struct mcp_tail *tail)
{
    tail->source = sd_event_source_disable_unref(tail->source);
    tail->fd = close_fd(tail->fd);
}

json_object *mcp_tail_object(const struct mcp_tail *tail)
{
    _cleanup_free_ char *text = utf8_text(tail->data, tail->size);
    _cleanup_json_ json_object *object = json_object_new_object();

    if (!text || json_add_string(object, "text", text) < 0 ||
        json_add_uint64(object, "bytes", tail->bytes) < 0 ||
        json_add_uint64(object, "keptBytes", tail->bytes) < 0 ||
        json_add_bool(object, "truncated", false) < 0 ||
        json_add_bool(object, "textShortened", tail->bytes > tail->size) < 0)
        return NULL;
    return TAKE_PTR(object);
}
