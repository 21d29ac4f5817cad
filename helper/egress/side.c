/* The socket at one end of a connection, see side.h. */
#include "side.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "common/cleanup.h"

void side_wait(struct side *side, bool input, bool output)
{
    uint32_t events = (input ? EPOLLIN : 0) | (output ? EPOLLOUT : 0);

    if (!side->source)
        return;
    if (events)
        sd_event_source_set_io_events(side->source, events);
    sd_event_source_set_enabled(side->source, events ? SD_EVENT_ON : SD_EVENT_OFF);
}

void side_set_buffers(const struct side *side, int size)
{
    (void)setsockopt(side->fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
    (void)setsockopt(side->fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
}

void side_set_nodelay(const struct side *side)
{
    /* Only speed hangs on it. */
    (void)setsockopt(side->fd, IPPROTO_TCP, TCP_NODELAY, &(const int){ 1 }, sizeof(int));
}

void side_reset_on_close(const struct side *side)
{
    const struct linger linger = { .l_onoff = 1, .l_linger = 0 };

    if (side->fd >= 0)
        (void)setsockopt(side->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
}

size_t side_undelivered(const struct side *side)
{
    struct tcp_info info = { 0 };
    socklen_t size = sizeof(info);
    int n = 0;

    if (side->fd < 0 || getsockopt(side->fd, IPPROTO_TCP, TCP_INFO, &info, &size) < 0 ||
        info.tcpi_state == TCP_CLOSE || ioctl(side->fd, TIOCOUTQ, &n) < 0)
        return 0;
    return (size_t)n;
}

/* The kernel would go on with what is not delivered, for minutes, when the connection and its run
 * are over; and count it against the memory of all. An end of file alone is next to nothing. */
void side_close(struct side *side)
{
    if (side_undelivered(side) > 1)
        side_reset_on_close(side);
    side->source = sd_event_source_disable_unref(side->source);
    side->fd = close_fd(side->fd);
}
