/* The broker's end of a connection to an egress process, see egress.h. */
#include "broker/egress.h"
#include "common/cleanup.h"

#include <sys/epoll.h>
#include <sys/socket.h>

struct egress {
    int sock;
    sd_event_source *source;
    bool started, ready, finishing;
    unsigned records;
    egress_fn fn;
    void *userdata;
};

struct egress *egress_free(struct egress *egress)
{
    if (!egress)
        return NULL;
    sd_event_source_disable_unref(egress->source);
    close_fd(egress->sock);
    free(egress);
    return NULL;
}

bool egress_exists(void)
{
    return access(EGRESS_SOCKET, F_OK) == 0;
}

/* What is not due is nonsense, and so are more records than there may be. */
static struct egress_event understand(struct egress *egress, struct egress_message *message)
{
    switch (message->type) {
    case EGRESS_READY:
        if (!egress->started || egress->ready)
            break;
        egress->ready = true;
        return (struct egress_event){ .type = EGRESS_EVENT_READY };
    case EGRESS_ERROR:
        if (egress->ready)
            break;
        return (struct egress_event){ EGRESS_EVENT_FAILED, .failed = &message->error };
    case EGRESS_CONNECTION:
        if (!egress->ready || egress->records == EGRESS_RECORDS_MAX)
            break;
        egress->records++;
        return (struct egress_event){ EGRESS_EVENT_CONNECTION, .connection = &message->connection };
    case EGRESS_FINISHED:
        if (!egress->ready || !egress->finishing)
            break;
        return (struct egress_event){ EGRESS_EVENT_FINISHED, .finished = &message->finished };
    case EGRESS_START:
    case EGRESS_FINISH:
    default:
        break;
    }
    return (struct egress_event){ EGRESS_EVENT_GONE, .error = -EBADMSG };
}

static int on_egress(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
    struct egress *egress = userdata;
    struct egress_event event = { EGRESS_EVENT_GONE, .error = -EBADMSG };
    struct egress_message message;
    int fds[PACKET_FDS_MAX];
    size_t n_fds;
    int r = egress_recv(fd, &message, fds, &n_fds);

    if (r == -EAGAIN)
        return 0;
    if (r <= 0)
        event.error = r;
    else if (n_fds == 0)
        event = understand(egress, &message);
    if (event.type != EGRESS_EVENT_READY && event.type != EGRESS_EVENT_CONNECTION)
        egress->source = sd_event_source_disable_unref(egress->source);
    egress->fn(&event, egress->userdata);
    if (r > 0) {
        packet_close_fds(fds);
        egress_message_release(&message);
    }
    return 0;
}

int egress_new(sd_event *loop, int sock, egress_fn fn, void *userdata, struct egress **ret)
{
    struct egress *egress;
    int r;

    if (sock < 0)
        return sock;
    egress = calloc(1, sizeof(*egress));
    if (!egress) {
        close_fd(sock);
        return -ENOMEM;
    }
    *egress = (struct egress){ .sock = sock, .fn = fn, .userdata = userdata };
    r = sd_event_add_io(loop, &egress->source, sock, EPOLLIN, on_egress, egress);
    if (r < 0) {
        egress_free(egress);
        return r;
    }
    *ret = egress;
    return 0;
}

int egress_restore(sd_event *loop, int sock, egress_fn fn, void *userdata, struct egress **ret)
{
    int r = egress_new(loop, sock, fn, userdata, ret);

    if (r >= 0)
        (*ret)->started = (*ret)->ready = true;
    return r;
}

int egress_descriptor(const struct egress *egress)
{
    return egress->sock;
}

int egress_start(struct egress *egress, const struct egress_start *start, int listener)
{
    const struct egress_message message = { .type = EGRESS_START, .start = *start };

    egress->started = true;
    return egress_send(egress->sock, &message, &listener, 1);
}

int egress_finish(struct egress *egress)
{
    const struct egress_message message = { .type = EGRESS_FINISH };

    egress->finishing = true;
    return egress_send(egress->sock, &message, NULL, 0);
}
