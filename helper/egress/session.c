/* The conversation with the broker and the accepting of connections, see session.h. */
#include "session.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <systemd/sd-daemon.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "connection.h"

/* How long the broker may take to make room for the last word. */
#define LAST_WORD_USEC USEC_PER_SEC

static int set_nonblocking(int fd)
{
    int flags = fcntl(fd, F_GETFL);

    return flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 ? -errno : 0;
}

/* ---- for the connections */

int session_resolver(struct session *session, struct resolver **ret)
{
    int r = session->resolver ? 0 : resolver_new(session->event, &session->resolver);

    *ret = session->resolver;
    return r;
}

/* Nobody is there to write the record: so it is at least in the journal of this service. */
static void tell_journal(const struct session *session, const struct egress_connection *connection)
{
    fprintf(stderr,
            SD_WARNING "Run %s: connection without a record, since the helper is gone: %s [%s] "
                       "port %u, %s, %llu bytes sent, %llu received\n",
            session->policy.run_id, connection->name, connection->address, connection->port,
            egress_verdict_name(connection->verdict), (unsigned long long)connection->bytes_sent,
            (unsigned long long)connection->bytes_received);
}

void session_record(struct session *session, const struct egress_connection *connection)
{
    struct egress_message message = { .type = EGRESS_CONNECTION, .connection = *connection };
    bool is_first = tally_is_first(&session->tally, connection);
    bool is_due = is_first || session->n_records < EGRESS_RECORDS_ANY;
    int r = is_due ? egress_send(session->sock, &message, NULL, 0) : 0;
    bool recorded = is_due && r == 0;

    if (r == -EPIPE || r == -ECONNRESET)
        tell_journal(session, connection);
    session->n_records += recorded && !is_first;
    tally_add(&session->tally, connection, recorded);
}

static size_t room(const struct session *session)
{
    size_t most = session->policy.connections + SESSION_EXCESS_MAX;

    return session->n_connections < most ? most - session->n_connections : 0;
}

void session_made_room(struct session *session)
{
    if (session->listener_source && room(session) > 0)
        sd_event_source_set_enabled(session->listener_source, SD_EVENT_ON);
}

/* ---- accepting */

static int on_listener(sd_event_source *source, int fd, uint32_t events, void *data)
{
    struct session *session = data;

    while (room(session) > 0) {
        int client = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

        if (client < 0) {
            /* Nobody there, hung up meanwhile, or short of descriptors: a connection that ends
             * gives some back, and until then this is not asked again and again. */
            if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)
                break;
            return 0;
        }
        connection_begin(session, client, session->n_connections >= session->policy.connections);
    }
    sd_event_source_set_enabled(source, session->n_connections > 0 ? SD_EVENT_OFF : SD_EVENT_ON);
    return 0;
}

static bool is_listener(int fd)
{
    int domain = 0, type = 0, accepts = 0;
    socklen_t size = sizeof(int);

    return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 && domain == AF_INET &&
           getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_STREAM &&
           getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &accepts, &size) == 0 && accepts;
}

/* ---- the broker */

static void end_connections(struct session *session)
{
    session->listener_source = sd_event_source_disable_unref(session->listener_source);
    session->listener = close_fd(session->listener);
    while (session->connections)
        connection_end(session->connections);
}

static int finish(struct session *session)
{
    end_connections(session);
    struct egress_message message = tally_message(&session->tally);
    uint64_t deadline = clock_now() + LAST_WORD_USEC;
    struct pollfd room = { .fd = session->sock, .events = POLLOUT };
    int r;

    while ((r = egress_send(session->sock, &message, NULL, 0)) == -EAGAIN)
        if (poll_until(&room, 1, deadline) <= 0)
            break;
    return r;
}

/* A broker that hangs up is none of our troubles. */
static int on_broker(sd_event_source *source, int fd, uint32_t events, void *data)
{
    struct session *session = data;
    struct egress_message message;
    int fds[PACKET_FDS_MAX];
    size_t n_fds;

    int r = egress_recv(fd, &message, fds, &n_fds);
    if (r == -EAGAIN)
        return 0;
    if (r > 0) {
        packet_close_fds(fds);
        r = message.type == EGRESS_FINISH ? finish(session) : -EPROTO;
        egress_message_release(&message);
    }
    return sd_event_exit(session->event, r == -ECONNRESET || r == -EPIPE ? 0 : r);
}

/* Returns 0: the broker knows, and nobody else has to. */
static int refuse_start(int sock, const char *why)
{
    struct egress_message message = { .type = EGRESS_ERROR };

    snprintf(message.error.message, sizeof(message.error.message), "%s", why);
    fprintf(stderr, SD_WARNING "%s\n", why);
    egress_send(sock, &message, NULL, 0);
    return 0;
}

/* Waits for the first message. Returns 1 with the policy and the listener in @session, 0 if it is
 * the end of file or was refused. */
static int take_start(struct session *session)
{
    struct egress_message message;
    int fds[PACKET_FDS_MAX];
    size_t n_fds;

    int r = egress_recv(session->sock, &message, fds, &n_fds);
    if (r == 0)
        return 0;
    if (r < 0)
        return refuse_start(session->sock, "The way out was asked for in words that it does not "
                                           "know; the helper and sbxctl-egress are of different "
                                           "versions.");
    if (message.type != EGRESS_START || n_fds != 1 || !is_listener(fds[0])) {
        packet_close_fds(fds);
        egress_message_release(&message);
        return refuse_start(session->sock,
                            "The way out was asked for without a socket to listen on.");
    }
    session->policy = message.start;
    session->bytes_left = message.start.bytes;
    session->listener = fds[0];
    return 1;
}

/* Room for all records, while the broker is busy with something else; as much as may be had. */
static void make_room_for_records(int sock)
{
    (void)setsockopt(sock, SOL_SOCKET, SO_SNDBUF, &(const int){ EGRESS_RECORDS_MAX * 4096 },
                     sizeof(int));
}

static int begin(struct session *session)
{
    static const struct egress_message ready = { .type = EGRESS_READY };

    make_room_for_records(session->sock);
    int r = set_nonblocking(session->sock);
    r = r < 0 ? r : set_nonblocking(session->listener);
    r = r < 0 ? r : sd_event_default(&session->event);
    r = r < 0 ? r
              : sd_event_add_io(session->event, &session->listener_source, session->listener,
                                EPOLLIN, on_listener, session);
    r = r < 0 ? r
              : sd_event_add_io(session->event, NULL, session->sock, EPOLLIN, on_broker, session);
    return r < 0 ? r : egress_send(session->sock, &ready, NULL, 0);
}

int session_serve(int sock)
{
    struct session session = { .sock = sock, .listener = -1 };

    int r = take_start(&session);
    if (r > 0) {
        r = begin(&session);
        r = r < 0 ? r : sd_event_loop(session.event);
        if (r < 0)
            fprintf(stderr, SD_ERR "Run %s lost its network: %s\n", session.policy.run_id,
                    strerror(-r));
        end_connections(&session);
        resolver_free(session.resolver);
        buffers_release(&session.buffers);
        sd_event_unref(session.event);
        struct egress_message message = { .type = EGRESS_START, .start = session.policy };
        egress_message_release(&message);
    }
    close_fd(sock);
    return r;
}
