/* The life of one connection, see connection.h. */
#include "connection.h"

#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "address.h"
#include "common/cleanup.h"
#include "common/clock.h"

#define REQUEST_USEC (10 * USEC_PER_SEC)
#define RESOLVE_USEC (5 * USEC_PER_SEC)
#define CONNECT_USEC (10 * USEC_PER_SEC)
/* For an answer to be read. */
#define ANSWER_USEC (2 * USEC_PER_SEC)
/* Timers need not be exact, so that many fire at once. */
#define ACCURACY_USEC (USEC_PER_SEC / 10)

static int on_client(sd_event_source *source, int fd, uint32_t events, void *data);
static int on_remote(sd_event_source *source, int fd, uint32_t events, void *data);
static int on_timer(sd_event_source *source, uint64_t usec, void *data);

static uint64_t now(const struct connection *connection)
{
    uint64_t usec = 0;

    sd_event_now(connection->session->event, CLOCK_MONOTONIC, &usec);
    return usec;
}

/* ---- sources */

/* What is not waited for is not asked about: the kernel would tell of a hangup for ever. */
static void wait_for(struct side *side, bool input, bool output)
{
    uint32_t events = (input ? EPOLLIN : 0) | (output ? EPOLLOUT : 0);

    if (!side->source)
        return;
    if (events)
        sd_event_source_set_io_events(side->source, events);
    sd_event_source_set_enabled(side->source, events ? SD_EVENT_ON : SD_EVENT_OFF);
}

static void set_deadline(struct connection *connection, uint64_t usec)
{
    connection->deadline = usec;
    sd_event_source_set_time(connection->timer, usec);
    sd_event_source_set_enabled(connection->timer, SD_EVENT_ONESHOT);
}

static void close_side(struct side *side)
{
    side->source = sd_event_source_disable_unref(side->source);
    side->fd = close_fd(side->fd);
}

static void set_nodelay(int fd)
{
    /* Only speed hangs on it. */
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(const int){ 1 }, sizeof(int));
}

/* The other end learns that something is missing: an end of file would look like a success. */
static void reset_on_close(const struct side *side)
{
    const struct linger linger = { .l_onoff = 1, .l_linger = 0 };

    if (side->fd >= 0)
        (void)setsockopt(side->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
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
    relay_release(&connection->up);
    relay_release(&connection->down);
    resolve_cancel(connection->lookup);
    close_side(&connection->client);
    close_side(&connection->remote);
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
        .record.verdict = EGRESS_FAILED,
        .up = RELAY_NULL,
        .down = RELAY_NULL,
        .input = malloc(CONNECTION_INPUT_MAX),
        .request = calloc(1, sizeof(*connection->request)),
    };
    connection->began = now(connection);
    if (!connection->input || !connection->request ||
        sd_event_add_io(session->event, &connection->client.source, client, EPOLLIN, on_client,
                        connection) < 0 ||
        sd_event_add_time(session->event, &connection->timer, CLOCK_MONOTONIC,
                          connection->began + REQUEST_USEC, ACCURACY_USEC, on_timer,
                          connection) < 0) {
        connection_free(connection);
        return;
    }
    set_nodelay(client);
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
    connection->record.duration_usec = now(connection) - connection->began;
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
    reset_on_close(&connection->client);
    reset_on_close(&connection->remote);
    connection_end(connection);
}

/* ---- answering */

/* Closing with something unread would make the kernel send a reset, which overtakes the answer. So
 * the client is read out, and is expected to close. */
static void go_on_answering(struct connection *connection)
{
    char scrap[4096];
    uint64_t no_limit = UINT64_MAX;
    ssize_t n;

    if (relay_move(&connection->down, &connection->session->pipes, &no_limit) < 0) {
        connection_end(connection);
        return;
    }
    while ((n = recv(connection->client.fd, scrap, sizeof(scrap), MSG_DONTWAIT)) > 0)
        ;
    bool gone = n == 0 || (n < 0 && errno != EAGAIN);
    if (gone && !relay_wants_output(&connection->down)) {
        connection_end(connection);
        return;
    }
    wait_for(&connection->client, !gone, relay_wants_output(&connection->down));
}

void connection_answer(struct connection *connection, const char *data, size_t size)
{
    uint64_t moved = connection->down.moved;

    close_side(&connection->remote);
    relay_release(&connection->down);
    connection->down.moved = moved;
    connection->down.to = connection->client.fd;
    connection->phase = PHASE_ANSWERING;
    if (relay_put(&connection->down, data, size) < 0) {
        connection_end(connection);
        return;
    }
    /* Its end of file follows the answer. */
    connection->down.at_end = true;
    set_deadline(connection, now(connection) + ANSWER_USEC);
    go_on_answering(connection);
}

/* ---- relaying */

static void update_sides(struct connection *connection)
{
    const struct relay *up = &connection->up, *down = &connection->down;

    wait_for(&connection->client, relay_wants_input(up), relay_wants_output(down));
    wait_for(&connection->remote, relay_wants_input(down), relay_wants_output(up));
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

static void stop_sending(struct connection *connection)
{
    uint64_t moved = connection->up.moved;

    relay_release(&connection->up);
    connection->up.moved = moved;
}

static void go_on_relaying(struct connection *connection)
{
    struct session *session = connection->session;

    ssize_t up = relay_move(&connection->up, &session->pipes, &session->bytes_left);
    if (may_have_answered(connection, up)) {
        stop_sending(connection);
        up = 0;
    }
    if (up < 0) {
        relay_failed(connection, true, (int)up);
        return;
    }
    ssize_t down = relay_move(&connection->down, &session->pipes, &session->bytes_left);
    if (down < 0) {
        relay_failed(connection, false, (int)down);
        return;
    }
    if (up > 0 || down > 0)
        connection->active = now(connection);
    /* Of an HTTP exchange, the response is the end. */
    if (relay_is_over(&connection->down) &&
        (relay_is_over(&connection->up) || connection->record.service == EGRESS_SERVICE_HTTP)) {
        connection_end(connection);
        return;
    }
    update_sides(connection);
}

static void start_relaying(struct connection *connection)
{
    struct ip_address *address = &connection->addresses.items[connection->next_address - 1];

    ip_address_format(address, connection->record.address);
    connection->record.verdict = EGRESS_ALLOWED;
    set_nodelay(connection->remote.fd);
    int r = request_start_relay(connection);
    if (r == -EBADMSG) {
        close_side(&connection->remote);
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
    connection->active = now(connection);
    set_deadline(connection, connection->active + connection->session->policy.idle_usec);
    go_on_relaying(connection);
}

/* ---- connecting */

static void connect_next(struct connection *connection);

/* Returns 0 if it is under way, 1 if it is there already, or a negative errno. */
static int begin_connect(struct connection *connection, const struct ip_address *address)
{
    struct side *remote = &connection->remote;
    struct sockaddr_storage storage;
    socklen_t size = ip_address_to_sockaddr(address, connection->target.port, &storage);

    remote->fd = socket(address->family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (remote->fd < 0)
        return -errno;
    int r = connect(remote->fd, (struct sockaddr *)&storage, size) < 0 ? -errno : 1;
    if (r < 0 && r != -EINPROGRESS)
        return r;
    int added = sd_event_add_io(connection->session->event, &remote->source, remote->fd, EPOLLOUT,
                                on_remote, connection);
    return added < 0 ? added : r == 1;
}

/* Whether the address may be connected to; the first that may not is what a refusal is about. */
static bool is_allowed(struct connection *connection, const struct ip_address *address)
{
    struct refusal refusal;

    if (verdict_on_address(&connection->session->policy, address, address_is_own(address),
                           &refusal))
        return true;
    if (connection->refusal.rule[0] == '\0') {
        connection->refusal = refusal;
        if (connection->record.address[0] == '\0')
            ip_address_format(address, connection->record.address);
    }
    return false;
}

/* Each address has its share of the time that is left. */
static uint64_t share_of_time(const struct connection *connection, uint64_t end)
{
    uint64_t usec = now(connection);
    size_t left = connection->addresses.n - connection->next_address + 1;

    return usec + (end > usec ? (end - usec) / left : 0);
}

static void connect_failed(struct connection *connection, int error)
{
    connection->connect_error = error;
    close_side(&connection->remote);
    connect_next(connection);
}

static void connect_next(struct connection *connection)
{
    while (connection->next_address < connection->addresses.n) {
        const struct ip_address *address = &connection->addresses.items[connection->next_address++];

        if (!is_allowed(connection, address))
            continue;
        ip_address_format(address, connection->record.address);
        int r = begin_connect(connection, address);
        if (r == 0) {
            set_deadline(connection, share_of_time(connection, connection->active));
            return;
        }
        if (r > 0) {
            start_relaying(connection);
            return;
        }
        connection->connect_error = r;
        close_side(&connection->remote);
    }
    if (connection->connect_error < 0)
        answer_failed(connection, connection->connect_error);
    else
        answer_refused(connection, &connection->refusal);
}

static void start_connecting(struct connection *connection)
{
    connection->phase = PHASE_CONNECTING;
    /* Until there is something to relay: the time when all of it is over. */
    connection->active = now(connection) + CONNECT_USEC;
    connect_next(connection);
}

static void connect_ready(struct connection *connection)
{
    int error = 0;
    socklen_t size = sizeof(error);

    if (getsockopt(connection->remote.fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0)
        error = errno;
    if (error > 0)
        connect_failed(connection, -error);
    else
        start_relaying(connection);
}

/* ---- name */

static void on_resolved(void *data, int error, const struct addresses *addresses)
{
    struct connection *connection = data;

    connection->lookup = NULL;
    if (error < 0) {
        answer_failed(connection, error);
        return;
    }
    connection->addresses = *addresses;
    start_connecting(connection);
}

static void start_resolving(struct connection *connection)
{
    struct resolver *resolver;

    connection->phase = PHASE_RESOLVING;
    if (connection->target.is_address) {
        on_resolved(connection, 0,
                    &(const struct addresses){ .items = { connection->target.address }, .n = 1 });
        return;
    }
    set_deadline(connection, now(connection) + RESOLVE_USEC);
    if (session_resolver(connection->session, &resolver) < 0 ||
        resolve(resolver, connection->target.host, on_resolved, connection, &connection->lookup) <
            0)
        answer_failed(connection, -ENOMEM);
}

static void judge(struct connection *connection)
{
    const struct egress_start *policy = &connection->session->policy;
    const struct request *request = connection->request;
    struct refusal refusal;

    wait_for(&connection->client, false, false);
    if (connection->excess) {
        refusal_by_limit("Connections", policy->connections, &refusal);
        answer_excess(connection, &refusal);
    } else if (connection->session->bytes_left == 0) {
        refusal_by_limit("Bytes", policy->bytes, &refusal);
        answer_refused(connection, &refusal);
    } else if (!verdict_on_name(policy, request->host, request->host_size, request->port,
                                &connection->target, &refusal)) {
        answer_refused(connection, &refusal);
    } else {
        strcpy(connection->record.name, connection->target.host);
        start_resolving(connection);
    }
}

/* ---- events */

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
        judge(connection);
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
        go_on_relaying(connection);
    return 0;
}

static int on_remote(sd_event_source *source, int fd, uint32_t events, void *data)
{
    struct connection *connection = data;

    if (connection->phase == PHASE_CONNECTING)
        connect_ready(connection);
    else
        go_on_relaying(connection);
    return 0;
}

static void end_idle(struct connection *connection)
{
    uint64_t end = connection->active + connection->session->policy.idle_usec;

    if (now(connection) < end)
        set_deadline(connection, end);
    else
        end_by_limit(connection, "IdleTimeout",
                     connection->session->policy.idle_usec / USEC_PER_SEC, "s");
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
        end_idle(connection);
        return 0;
    case PHASE_ANSWERING:
    default:
        connection_end(connection);
        return 0;
    }
}
