/* From a request to a connected socket: verdict on the name, its addresses, verdict on each of
 * them, see connection.h. The address that was judged is the one that is connected to. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "address.h"
#include "common/clock.h"
#include "connection.h"

#define RESOLVE_USEC (5 * USEC_PER_SEC)
#define CONNECT_USEC (10 * USEC_PER_SEC)

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
    connection_bound_remote(connection);
    int r = connect(remote->fd, (struct sockaddr *)&storage, size) < 0 ? -errno : 1;
    if (r < 0 && r != -EINPROGRESS)
        return r;
    int added = sd_event_add_io(connection->session->event, &remote->source, remote->fd, EPOLLOUT,
                                connection_on_remote, connection);
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
static uint64_t share_of_time(const struct connection *connection)
{
    uint64_t usec = connection_now(connection), end = connection->connect_end;
    size_t left = connection->addresses.n - connection->next_address + 1;

    return usec + (end > usec ? (end - usec) / left : 0);
}

void connect_failed(struct connection *connection, int error)
{
    connection->connect_error = error;
    side_close(&connection->remote);
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
            connection_set_deadline(connection, share_of_time(connection));
            return;
        }
        if (r > 0) {
            connection_start_relaying(connection);
            return;
        }
        connection->connect_error = r;
        side_close(&connection->remote);
    }
    if (connection->connect_error < 0)
        answer_failed(connection, connection->connect_error);
    else
        answer_refused(connection, &connection->refusal);
}

static void start_connecting(struct connection *connection)
{
    connection->phase = PHASE_CONNECTING;
    connection->connect_end = connection_now(connection) + CONNECT_USEC;
    connect_next(connection);
}

void connect_ready(struct connection *connection)
{
    int error = 0;
    socklen_t size = sizeof(error);

    if (getsockopt(connection->remote.fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0)
        error = errno;
    if (error > 0)
        connect_failed(connection, -error);
    else
        connection_start_relaying(connection);
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
    connection_set_deadline(connection, connection_now(connection) + RESOLVE_USEC);
    if (session_resolver(connection->session, &resolver) < 0 ||
        resolve(resolver, connection->target.host, on_resolved, connection, &connection->lookup) <
            0)
        answer_failed(connection, -ENOMEM);
}

void connect_begin(struct connection *connection)
{
    const struct egress_start *policy = &connection->session->policy;
    const struct request *request = connection->request;
    struct refusal refusal;

    side_wait(&connection->client, false, false);
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
