/* See network-use.h. Names and rules are of the egress process's making, out of what the program
 * said. */
#include "broker/network-use.h"
#include "common/cleanup.h"
#include "common/escape.h"

#include <stdio.h>
#include <string.h>

void network_use_release(struct network_use *use)
{
    struct egress_message message = { .type = EGRESS_FINISHED, .finished = use->told };

    egress_message_release(&message);
    use->told = (struct egress_finished){ 0 };
}

static void note_refusal(struct network_use *use, const char *name, uint32_t port, const char *rule)
{
    _cleanup_free_ char *host = escape_text(name, strlen(name), 80);
    _cleanup_free_ char *reason = escape_text(rule, strlen(rule), 120);
    bool is_ipv6 = strchr(name, ':') != NULL;

    if (host && reason && use->refusal[0] == '\0')
        snprintf(use->refusal, sizeof(use->refusal), "%s%s%s:%u was refused by %s",
                 is_ipv6 ? "[" : "", host, is_ipv6 ? "]" : "", port, reason);
}

/* Stays what an integer of the interface can be. */
static void add_bytes(uint64_t *sum, uint64_t bytes)
{
    *sum = bytes > INT64_MAX - *sum ? INT64_MAX : *sum + bytes;
}

void network_use_add(struct network_use *use, const struct egress_connection *connection)
{
    struct egress_finished *sum = &use->told;

    sum->connections++;
    sum->refused += connection->verdict == EGRESS_REFUSED;
    sum->failed += connection->verdict == EGRESS_FAILED;
    add_bytes(&sum->bytes_sent, connection->bytes_sent);
    add_bytes(&sum->bytes_received, connection->bytes_received);
    if (connection->verdict == EGRESS_REFUSED)
        note_refusal(use, connection->name, connection->port, connection->rule);
}

void network_use_finish(struct network_use *use, struct egress_finished *finished)
{
    network_use_release(use);
    use->told = *finished;
    *finished = (struct egress_finished){ 0 };
    use->finished = true;
    if (use->told.n_refused_hosts > 0)
        note_refusal(use, use->told.refused_hosts[0].name, use->told.refused_hosts[0].port,
                     use->told.refused_hosts[0].rule);
}

static json_object *host_object(const struct egress_host *host)
{
    _cleanup_json_ json_object *object = json_object_new_object();

    if (!object || json_add_string(object, "name", host->name) < 0 ||
        json_add_uint64(object, "port", host->port) < 0 ||
        json_add_uint64(object, "connections", host->connections) < 0 ||
        json_add_uint64(object, "bytesSent", host->bytes_sent) < 0 ||
        json_add_uint64(object, "bytesReceived", host->bytes_received) < 0 ||
        json_add_string(object, "rule", host->rule[0] ? host->rule : NULL) < 0)
        return NULL;
    return TAKE_PTR(object);
}

static json_object *hosts_array(const struct egress_host *hosts, size_t n)
{
    _cleanup_json_ json_object *array = json_object_new_array();

    for (size_t i = 0; array && i < n; i++)
        if (json_append(array, host_object(&hosts[i])) < 0)
            return NULL;
    return TAKE_PTR(array);
}

json_object *network_use_object(const struct network_use *use)
{
    const struct egress_finished *told = &use->told;
    _cleanup_json_ json_object *object = json_object_new_object();

    if (!object || json_add_uint64(object, "connections", told->connections) < 0 ||
        json_add_uint64(object, "refused", told->refused) < 0 ||
        json_add_uint64(object, "failed", told->failed) < 0 ||
        json_add_uint64(object, "bytesSent", told->bytes_sent) < 0 ||
        json_add_uint64(object, "bytesReceived", told->bytes_received) < 0 ||
        json_add(object, "hosts", hosts_array(told->hosts, told->n_hosts)) < 0 ||
        json_add(object, "refusedHosts", hosts_array(told->refused_hosts, told->n_refused_hosts)) <
            0 ||
        json_add_bool(object, "complete", use->finished && !told->more_hosts) < 0)
        return NULL;
    return TAKE_PTR(object);
}
