/* The life of one connection, see connection.h. */
#include "connection.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "common/cleanup.h"
#include "common/clock.h"

#define REQUEST_USEC (10 * USEC_PER_SEC)
/* For an answer to be read. */
#define ANSWER_USEC (2 * USEC_PER_SEC)
#define SCRAP_SIZE (16 * 1024)
/* What the kernel keeps for a program that does not read. Loopback needs no more, and it would grow
 * to ten times that. */
#define CLIENT_BUFFER (256 * 1024)
/* The same of connections that are not large, and what it keeps for their servers, each way. */
#define CLIENT_BUFFER_SMALL (64 * 1024)
#define REMOTE_BUFFER_SMALL (128 * 1024)
/* How often is looked whether everything was delivered: the kernel does not tell. */
#define DELIVERY_USEC (USEC_PER_SEC / 20)
/* Timers need not be exact, so that many fire at once. */
#define ACCURACY_USEC (USEC_PER_SEC / 10)

static int on_client(sd_event_source *source, int fd, uint32_t events, void *data);
static int on_timer(sd_event_source *source, uint64_t usec, void *data);

uint64_t connection_now(const struct connection *connection)
{
    uint64_t usec = 0;

    sd_event_now(connection->session->event, CLOCK_MONOTONIC, &usec);
    return usec;
}

void connection_set_deadline(struct connection *connection, uint64_t usec)
{
    sd_event_source_set_time(connection->timer, usec);
    sd_event_source_set_enabled(connection->timer, SD_EVENT_ONESHOT);
}

void connection_bound_remote(const struct connection *connection)
{
    if (!connection->large)
        side_set_buffers(&connection->remote, REMOTE_BUFFER_SMALL);
}

/* ---- beginning and end */

static void free_request(struct connection *connection)
{
    if (connection->request)
        free(connection->request->socks);
    free(connection->request);
    free(connection->input);
    connection->request = NULL;
    connection->input = NULL;
}

static void connection_free(struct connection *connection)
{
    relay_release(&connection->up, &connection->session->buffers);
    relay_release(&connection->down, &connection->session->buffers);
    connection->session->n_large -= connection->large;
    resolve_cancel(connection->lookup);
    side_close(&connection->client);
    side_close(&connection->remote);
    sd_event_source_disable_unref(connection->timer);
    free_request(connection);
    free(connection);
}

void connection_begin(struct session *session, int client, bool excess)
{
    struct connection *connection = calloc(1, sizeof(*connection));

    if (!connection) {
        close_fd(client);
        return;
    }
    *connection = (struct connection){
        .session = session,
        .client.fd = client,
        .remote.fd = -1,
        .excess = excess,
        .large = session->n_large < SESSION_LARGE_MAX,
        .record.verdict = EGRESS_FAILED,
        .up = RELAY_NULL,
        .down = RELAY_NULL,
        .input = malloc(CONNECTION_INPUT_MAX),
        .request = calloc(1, sizeof(*connection->request)),
    };
    session->n_large += connection->large;
    connection->began = connection_now(connection);
    if (!connection->input || !connection->request ||
        sd_event_add_io(session->event, &connection->client.source, client, EPOLLIN, on_client,
                        connection) < 0 ||
        sd_event_add_time(session->event, &connection->timer, CLOCK_MONOTONIC,
                          connection->began + REQUEST_USEC, ACCURACY_USEC, on_timer,
                          connection) < 0) {
        connection_free(connection);
        return;
    }
    side_set_nodelay(&connection->client);
    side_set_buffers(&connection->client, connection->large ? CLIENT_BUFFER : CLIENT_BUFFER_SMALL);
    connection->next = session->connections;
    connection->place = &session->connections;
    if (connection->next)
        connection->next->place = &connection->next;
    session->connections = connection;
    session->n_connections++;
}

/* A client that hung up before it said anything wanted nothing. */
static bool is_worth_a_record(const struct connection *connection)
{
    return connection->phase != PHASE_READING || connection->n_input > 0 ||
           (connection->request && connection->request->greeted);
}

void connection_end(struct connection *connection)
{
    struct session *session = connection->session;

    connection->record.bytes_sent = connection->up.moved;
    connection->record.bytes_received = connection->down.moved;
    connection->record.duration_usec = connection_now(connection) - connection->began;
    if (is_worth_a_record(connection)) {
        if (connection->record.verdict == EGRESS_FAILED && connection->record.rule[0] == '\0')
            strcpy(connection->record.rule, "ended before it was connected");
        session_record(session, &connection->record);
    }
    *connection->place = connection->next;
    if (connection->next)
        connection->next->place = connection->place;
    session->n_connections--;
    connection_free(connection);
    session_made_room(session);
}

/* Ends it in the middle, for both sides to see. */
static void abort_connection(struct connection *connection)
{
    side_reset_on_close(&connection->client);
    side_reset_on_close(&connection->remote);
    connection_end(connection);
}

/* Ends it when nothing is left of it, not even in the kernel: until then it is one of those that
 * may be at once. Of an HTTP exchange, the response is what counts. The client's kernel is this
 * one, which needs no waiting for to confirm an end of file. */
static void deliver(struct connection *connection)
{
    bool is_http = connection->record.service == EGRESS_SERVICE_HTTP;
    size_t down = side_undelivered(&connection->client);
    size_t left = (down > 1 ? down : 0) + (is_http ? 0 : side_undelivered(&connection->remote));

    if (left == 0) {
        connection_end(connection);
        return;
    }
    if (connection->phase != PHASE_DELIVERING || left < connection->undelivered)
        connection->active = connection_now(connection);
    connection->phase = PHASE_DELIVERING;
    connection->undelivered = left;
    side_wait(&connection->client, false, false);
    side_wait(&connection->remote, false, false);
    connection_set_deadline(connection, connection_now(connection) + DELIVERY_USEC);
}

/* ---- answering */

/* Closing with something unread would make the kernel send a reset, which overtakes the answer. So
 * the client is read out, and is expected to close. */
static void go_on_answering(struct connection *connection)
{
    char scrap[SCRAP_SIZE];
    uint64_t no_limit = UINT64_MAX;

    if (relay_move(&connection->down, &connection->session->buffers, &no_limit) < 0) {
        connection_end(connection);
        return;
    }
    ssize_t n = recv(connection->client.fd, scrap, sizeof(scrap), MSG_DONTWAIT);
    bool gone = n == 0 || (n < 0 && errno != EAGAIN);
    if (gone && !relay_wants_output(&connection->down)) {
        deliver(connection);
        return;
    }
    side_wait(&connection->client, !gone, relay_wants_output(&connection->down));
}

void connection_answer(struct connection *connection, const char *data, size_t size)
{
    side_close(&connection->remote);
    relay_release(&connection->down, &connection->session->buffers);
    connection->down.to = connection->client.fd;
    connection->phase = PHASE_ANSWERING;
    if (relay_put(&connection->down, data, size) < 0) {
        connection_end(connection);
        return;
    }
    /* Its end of file follows the answer. */
    connection->down.at_end = true;
    connection_set_deadline(connection, connection_now(connection) + ANSWER_USEC);
    go_on_answering(connection);
}

/* ---- relaying */

static void update_sides(struct connection *connection)
{
    const struct relay *up = &connection->up, *down = &connection->down;

    side_wait(&connection->client, relay_wants_input(up), relay_wants_output(down));
    side_wait(&connection->remote, relay_wants_input(down), relay_wants_output(up));
}

/* The sandbox was connected to something, so that stays its verdict. */
static void end_by_limit(struct connection *connection, const char *key, uint64_t limit,
                         const char *unit)
{
    struct refusal refusal;

    refusal_by_limit(key, limit, &refusal);
    snprintf(connection->record.rule, sizeof(connection->record.rule), "%.*s%s",
             EGRESS_RULE_MAX - 1, refusal.rule, unit);
    abort_connection(connection);
}

/* A client that still waits for its response gets one of ours. */
static void relay_failed(struct connection *connection, bool upwards, int error)
{
    bool waits = connection->down.source == RELAY_RESPONSE;

    if (error == -EDQUOT)
        end_by_limit(connection, "Bytes", connection->session->policy.bytes, "");
    else if (waits && upwards && error == -EBADMSG)
        answer_malformed(connection, "a chunk that is none");
    else if (waits && !upwards)
        answer_failed(connection, error);
    else
        abort_connection(connection);
}

/* A server may answer and hang up before it has read all of a request. */
static bool may_have_answered(const struct connection *connection, ssize_t error)
{
    return connection->record.service == EGRESS_SERVICE_HTTP &&
           (error == -EPIPE || error == -ECONNRESET);
}

/* @moves_up, @moves_down: what there is reason to try. */
static void go_on_relaying(struct connection *connection, bool moves_up, bool moves_down)
{
    struct session *session = connection->session;
    ssize_t up = 0, down = 0;

    if (moves_up)
        up = relay_move(&connection->up, &session->buffers, &session->bytes_left);
    if (may_have_answered(connection, up)) {
        relay_release(&connection->up, &session->buffers);
        up = 0;
    }
    if (up < 0) {
        relay_failed(connection, true, (int)up);
        return;
    }
    if (moves_down)
        down = relay_move(&connection->down, &session->buffers, &session->bytes_left);
    if (down < 0) {
        relay_failed(connection, false, (int)down);
        return;
    }
    if (up > 0 || down > 0)
        connection->active = connection_now(connection);
    if (relay_is_over(&connection->down) &&
        (relay_is_over(&connection->up) || connection->record.service == EGRESS_SERVICE_HTTP)) {
        deliver(connection);
        return;
    }
    update_sides(connection);
}

void connection_start_relaying(struct connection *connection)
{
    struct ip_address *address = &connection->addresses.items[connection->next_address - 1];

    ip_address_format(address, connection->record.address);
    connection->record.verdict = EGRESS_ALLOWED;
    side_set_nodelay(&connection->remote);
    int r = request_start_relay(connection);
    if (r == -EBADMSG) {
        side_close(&connection->remote);
        answer_malformed(connection, "a chunk that is none");
        return;
    }
    if (r < 0) {
        abort_connection(connection);
        return;
    }
    /* What came with the request is on its way already. */
    uint64_t *left = &connection->session->bytes_left;
    *left -= connection->up.moved < *left ? connection->up.moved : *left;
    free_request(connection);
    connection->phase = PHASE_RELAYING;
    connection->active = connection_now(connection);
    connection_set_deadline(connection, connection->active + connection->session->policy.idle_usec);
    go_on_relaying(connection, true, true);
}

/* ---- events */

/* Of the socket at the one end of a relay: both for what is wrong with it. */
static bool may_read(uint32_t events)
{
    return events & (EPOLLIN | EPOLLERR | EPOLLHUP);
}

static bool may_write(uint32_t events)
{
    return events & (EPOLLOUT | EPOLLERR | EPOLLHUP);
}

static void read_request(struct connection *connection)
{
    ssize_t n = recv(connection->client.fd, connection->input + connection->n_input,
                     CONNECTION_INPUT_MAX - connection->n_input, MSG_DONTWAIT);

    if (n < 0 && errno == EAGAIN)
        return;
    if (n <= 0) {
        connection_end(connection);
        return;
    }
    connection->n_input += (size_t)n;
    switch (request_read(connection)) {
    case REQUEST_COMPLETE:
        connect_begin(connection);
        return;
    case REQUEST_DROPPED:
        connection_end(connection);
        return;
    case REQUEST_INCOMPLETE:
    case REQUEST_ANSWERED:
    default:
        return;
    }
}

static int on_client(sd_event_source *source, int fd, uint32_t events, void *data)
{
    struct connection *connection = data;

    if (connection->phase == PHASE_READING)
        read_request(connection);
    else if (connection->phase == PHASE_ANSWERING)
        go_on_answering(connection);
    else
        go_on_relaying(connection, may_read(events), may_write(events));
    return 0;
}

int connection_on_remote(sd_event_source *source, int fd, uint32_t events, void *data)
{
    struct connection *connection = data;

    if (connection->phase == PHASE_CONNECTING)
        connect_ready(connection);
    else
        go_on_relaying(connection, may_write(events), may_read(events));
    return 0;
}

static bool is_idle(const struct connection *connection)
{
    return connection_now(connection) >= connection->active + connection->session->policy.idle_usec;
}

static void end_idle(struct connection *connection)
{
    uint64_t idle_usec = connection->session->policy.idle_usec;

    end_by_limit(connection, "IdleTimeout", idle_usec / USEC_PER_SEC, "s");
}

static int on_timer(sd_event_source *source, uint64_t usec, void *data)
{
    struct connection *connection = data;

    switch (connection->phase) {
    case PHASE_READING:
        strcpy(connection->record.rule, "no request within 10 s");
        abort_connection(connection);
        return 0;
    case PHASE_RESOLVING:
        resolve_cancel(connection->lookup);
        connection->lookup = NULL;
        answer_failed(connection, -ETIME);
        return 0;
    case PHASE_CONNECTING:
        connect_failed(connection, -ETIMEDOUT);
        return 0;
    case PHASE_RELAYING:
        if (is_idle(connection))
            end_idle(connection);
        else
            connection_set_deadline(connection,
                                    connection->active + connection->session->policy.idle_usec);
        return 0;
    case PHASE_DELIVERING:
        if (is_idle(connection) && connection->record.rule[0] == '\0')
            end_idle(connection);
        else if (is_idle(connection))
            connection_end(connection);
        else
            deliver(connection);
        return 0;
    case PHASE_ANSWERING:
    default:
        connection_end(connection);
        return 0;
    }
}
