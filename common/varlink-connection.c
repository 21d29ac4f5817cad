/* One connection of a varlink server: reads one message, has it answered, sends the answer, and
 * only then looks at the next one. Called by the event loop and by the methods. Whatever a peer
 * sends can at worst end its own connection.
 *
 * A connection is in one of three states, and watches its socket accordingly:
 *   idle      no call, no output: readable → the next message
 *   in work   a call waits for its answer: nothing is read; only a full hang-up is noticed
 *   sending   output waits: writable → send; nothing is read either
 * It ends in two steps. varlink_connection_end() closes the socket, wherever the reason turns up,
 * deep inside an answer too; the wakeup source then tells the method and lets go, from the event
 * loop, so that no method is called back while it calls us. */
#include "varlink-connection.h"

#include <sys/epoll.h>

#include "foreign.h"

static void connection_watch(struct varlink_connection *c);

/* ---- Life ---- */

struct varlink_connection *varlink_connection_ref(struct varlink_connection *c)
{
    c->refs++;
    return c;
}

static void connection_drop_io(struct varlink_connection *c)
{
    c->io = sd_event_source_disable_unref(c->io);
    c->timer = sd_event_source_disable_unref(c->timer);
    foreign_close_socket(TAKE_FD(c->fd), c->peer.uid);
    varlink_reader_release(&c->reader);
    varlink_writer_release(&c->writer);
}

/* Not inlined, or gcc 12 believes that the references of one function's caller are gone too. */
__attribute__((noinline)) static void connection_free(struct varlink_connection *c)
{
    connection_drop_io(c);
    sd_event_source_disable_unref(c->wakeup);
    peer_release(&c->peer);
    free(c);
}

struct varlink_connection *varlink_connection_unref(struct varlink_connection *c)
{
    if (c && --c->refs == 0)
        connection_free(c);
    return NULL;
}

static void connection_unrefp(struct varlink_connection **c)
{
    varlink_connection_unref(*c);
}

static void connection_wake(struct varlink_connection *c)
{
    if (c->wakeup)
        sd_event_source_set_enabled(c->wakeup, SD_EVENT_ONESHOT);
}

void varlink_connection_end(struct varlink_connection *c)
{
    if (c->fd < 0)
        return;
    connection_drop_io(c);
    if (c->call)
        c->call->open = false;
    connection_wake(c);
}

void varlink_connection_refuse(struct varlink_connection *c, const char *why)
{
    if (c->fd < 0)
        return;
    varlink_server_refused(c->server, &c->peer, why);
    varlink_connection_end(c);
}

/* The second step of the end. */
static void connection_let_go(struct varlink_connection *c)
{
    struct varlink_call *call = c->call;

    c->call = NULL;
    if (call)
        varlink_call_gone(call);
    if (c->server) {
        varlink_server_forget(c->server, c);
        c->server = NULL;
        varlink_connection_unref(c);
    }
}

void varlink_connection_abandon(struct varlink_connection *c)
{
    connection_drop_io(c);
    c->wakeup = sd_event_source_disable_unref(c->wakeup);
    c->server = NULL;
    if (c->call) {
        c->call->open = false;
        c->call = NULL;
    }
    varlink_connection_unref(c);
}

/* ---- Sending ---- */

static bool connection_idle(const struct varlink_connection *c)
{
    return c->fd >= 0 && !c->call && !c->last_call && c->writer.size == 0;
}

int varlink_connection_send(struct varlink_connection *c, json_object *message,
                            struct varlink_fds fds)
{
    _cleanup_json_ json_object *owned = message;
    bool waiting = c->writer.size > 0;
    int r;

    if (!owned) {
        varlink_fds_release(&fds);
        return -ENOMEM;
    }
    r = varlink_writer_push(&c->writer, owned, fds);
    if (r < 0)
        return r;
    if (c->writer.size > VARLINK_OUTPUT_MAX) {
        varlink_connection_refuse(c, "The caller does not read its answers.");
        return -ENOBUFS;
    }
    if (!waiting && varlink_writer_flush(&c->writer, c->fd) < 0) {
        varlink_connection_end(c);
        return -ENOTCONN;
    }
    connection_watch(c);
    return 0;
}

void varlink_connection_call_done(struct varlink_connection *c)
{
    c->call = NULL;
    connection_wake(c);
}

void varlink_connection_end_sent(struct varlink_connection *c)
{
    c->last_call = true;
    connection_watch(c);
}

/* ---- Receiving ---- */

/* The clock of a message that has begun runs, and stops when it is complete. */
static void connection_time(struct varlink_connection *c)
{
    uint64_t timeout = c->server->options.message_timeout_usec;
    int enabled = SD_EVENT_OFF;

    if (varlink_reader_waiting(&c->reader) == 0) {
        sd_event_source_set_enabled(c->timer, SD_EVENT_OFF);
        return;
    }
    sd_event_source_get_enabled(c->timer, &enabled);
    if (enabled != SD_EVENT_OFF)
        return;
    if (sd_event_source_set_time_relative(c->timer, timeout) < 0 ||
        sd_event_source_set_enabled(c->timer, SD_EVENT_ONESHOT) < 0)
        varlink_connection_end(c);
}

/* Dispatches one waiting message, if there is one and nothing else has to be done first. Returns
 * true if it did. */
static bool connection_advance(struct varlink_connection *c)
{
    struct varlink_fds fds;
    const char *text;
    size_t size;

    if (!connection_idle(c))
        return false;
    if (!varlink_reader_next(&c->reader, &text, &size, &fds)) {
        connection_time(c);
        return false;
    }
    sd_event_source_set_enabled(c->timer, SD_EVENT_OFF);
    varlink_call_dispatch(c, text, size, fds);
    /* The next one has its own turn in the event loop, after other connections. */
    connection_wake(c);
    return true;
}

static void connection_read(struct varlink_connection *c)
{
    ssize_t n;

    /* What was read already comes first: reading on is only for a message that is not complete. */
    if (connection_advance(c) || !connection_idle(c))
        return;
    n = varlink_reader_fill(&c->reader, c->fd);
    if (n > 0)
        connection_advance(c);
    else if (n == 0 && varlink_reader_waiting(&c->reader) > 0)
        varlink_connection_refuse(c, "The caller hung up within a message.");
    else if (n == -EMSGSIZE)
        varlink_connection_refuse(c, "A message is too long.");
    else if (n == -EPROTO)
        varlink_connection_refuse(c, "Descriptors came in a way that cannot be told apart.");
    else if (n != -EAGAIN)
        varlink_connection_end(c);
}

/* ---- Events ---- */

static void connection_watch(struct varlink_connection *c)
{
    uint32_t events = 0;

    if (c->fd < 0)
        return;
    if (c->last_call && !c->call && c->writer.size == 0) {
        varlink_connection_end(c);
        return;
    }
    /* EPOLLHUP and EPOLLERR are always reported. EPOLLHUP on a unix socket means that both
     * directions are closed; a peer that only ended its own is EPOLLIN and EPOLLRDHUP, which we do
     * not ask for while we do not read. */
    if (c->writer.size > 0)
        events = EPOLLOUT;
    else if (connection_idle(c))
        events = EPOLLIN;
    if (sd_event_source_set_io_events(c->io, events) < 0)
        varlink_connection_end(c);
}

static int on_io(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
    _cleanup_(connection_unrefp) struct varlink_connection *c = varlink_connection_ref(userdata);

    if (c->writer.size > 0) {
        int r = varlink_writer_flush(&c->writer, c->fd);

        if (r < 0 || (r == 0 && revents & (EPOLLHUP | EPOLLERR)))
            varlink_connection_end(c);
        else if (r > 0) {
            if (c->call)
                varlink_call_drained(c->call);
            connection_wake(c);
        }
    } else if (connection_idle(c)) {
        /* A hang-up is found at the end of what the caller sent before it. */
        connection_read(c);
    } else if (revents & (EPOLLHUP | EPOLLERR)) {
        varlink_connection_end(c);
    }
    connection_watch(c);
    return 0;
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
    _cleanup_(connection_unrefp) struct varlink_connection *c = varlink_connection_ref(userdata);

    varlink_connection_refuse(c, "A message was not complete in time.");
    return 0;
}

static int on_wakeup(sd_event_source *source, void *userdata)
{
    _cleanup_(connection_unrefp) struct varlink_connection *c = varlink_connection_ref(userdata);

    if (c->fd < 0) {
        connection_let_go(c);
        return 0;
    }
    connection_advance(c);
    connection_watch(c);
    return 0;
}

int varlink_connection_new(struct varlink_server *server, int fd, struct peer *peer)
{
    _cleanup_(connection_unrefp) struct varlink_connection *c = calloc(1, sizeof(*c));
    int r;

    if (!c) {
        foreign_close_socket(fd, peer->uid);
        return -ENOMEM;
    }
    *c = (struct varlink_connection){
        .refs = 1,
        .fd = fd,
        .peer = *peer,
        .reader = { .message_max = VARLINK_MESSAGE_MAX, .strict = true, .stranger = peer->uid },
    };
    *peer = (struct peer)PEER_NULL;
    r = sd_event_add_io(server->event, &c->io, fd, EPOLLIN, on_io, c);
    if (r < 0)
        return r;
    r = sd_event_add_time_relative(server->event, &c->timer, CLOCK_MONOTONIC, 0, 0, on_timer, c);
    if (r < 0)
        return r;
    r = sd_event_add_defer(server->event, &c->wakeup, on_wakeup, c);
    if (r < 0)
        return r;
    sd_event_source_set_enabled(c->timer, SD_EVENT_OFF);
    sd_event_source_set_enabled(c->wakeup, SD_EVENT_OFF);

    c->server = server;
    c->next = server->connections;
    if (c->next)
        c->next->previous = c;
    server->connections = TAKE_PTR(c);
    return 0;
}
