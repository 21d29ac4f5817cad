/* Sums and lists of hosts, see tally.h. */
#include "tally.h"

#include <string.h>

/* Where its name and port are in a list of @n, or @n. */
static size_t position(const struct egress_host *hosts, size_t n,
                       const struct egress_connection *connection)
{
    size_t i = 0;

    while (i < n &&
           (hosts[i].port != connection->port || strcmp(hosts[i].name, connection->name) != 0))
        i++;
    return i;
}

bool tally_is_first(const struct tally *tally, const struct egress_connection *connection)
{
    size_t n = tally->sums.n_hosts;

    return connection->verdict == EGRESS_ALLOWED && n < EGRESS_HOSTS_MAX &&
           position(tally->hosts, n, connection) == n;
}

/* The entry of a name and port in a list of @n, a new one if need be; NULL if the list is full. */
static struct egress_host *find(struct egress_host *hosts, size_t *n,
                                const struct egress_connection *connection)
{
    size_t i = position(hosts, *n, connection);

    if (i < *n)
        return &hosts[i];
    if (*n == EGRESS_HOSTS_MAX)
        return NULL;
    struct egress_host *host = &hosts[(*n)++];
    *host = (struct egress_host){ .port = connection->port };
    strcpy(host->name, connection->name);
    return host;
}

static void add_to_host(struct egress_host *host, const struct egress_connection *connection)
{
    host->connections++;
    host->bytes_sent += connection->bytes_sent;
    host->bytes_received += connection->bytes_received;
    if (connection->rule[0] != '\0')
        strcpy(host->rule, connection->rule);
}

void tally_add(struct tally *tally, const struct egress_connection *connection, bool recorded)
{
    struct egress_finished *sums = &tally->sums;
    struct egress_host *host = NULL;

    sums->connections++;
    sums->bytes_sent += connection->bytes_sent;
    sums->bytes_received += connection->bytes_received;
    sums->unrecorded += !recorded;
    switch (connection->verdict) {
    case EGRESS_ALLOWED:
        host = find(tally->hosts, &sums->n_hosts, connection);
        break;
    case EGRESS_REFUSED:
        sums->refused++;
        host = find(tally->refused_hosts, &sums->n_refused_hosts, connection);
        break;
    case EGRESS_FAILED:
    default:
        sums->failed++;
        return;
    }
    if (host)
        add_to_host(host, connection);
    else
        sums->more_hosts = true;
}

struct egress_message tally_message(struct tally *tally)
{
    struct egress_message message = { .type = EGRESS_FINISHED, .finished = tally->sums };

    message.finished.hosts = tally->hosts;
    message.finished.refused_hosts = tally->refused_hosts;
    return message;
}
