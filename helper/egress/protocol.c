/* The egress protocol's messages as JSON and back, see protocol.h. Called by the broker and by the
 * egress process; must never interpret a message beyond its form. */
#include "protocol.h"

#include <stdio.h>
#include <string.h>

#include "common/message.h"
#include "protocol-lists.h"

/* A message on its way in: numbers go where they belong at once, texts and lists are copied when
 * the types of all members are known to be right. */
struct incoming {
    struct egress_message message;
    const char *run_id, *text, *name, *address, *service, *verdict, *rule;
    json_object *granted, *allowed_names, *denied_names, *allowed_addresses, *denied_addresses;
    json_object *ports, *hosts, *refused_hosts;
};

struct incoming_host {
    struct egress_host host;
    const char *name, *rule;
};

static const char *const service_names[] = {
    [EGRESS_SERVICE_CONNECT] = "connect",
    [EGRESS_SERVICE_HTTP] = "http",
    [EGRESS_SERVICE_SOCKS5] = "socks5",
};
static const char *const verdict_names[] = {
    [EGRESS_ALLOWED] = "allowed",
    [EGRESS_REFUSED] = "refused",
    [EGRESS_FAILED] = "failed",
};

static const struct json_field start_fields[] = {
    FIELD_TEXT(incoming, "runId", run_id, EGRESS_RUN_ID_MAX, MANDATORY),
    FIELD_ARRAY(incoming, "granted", granted),
    FIELD_ARRAY(incoming, "allowedNames", allowed_names),
    FIELD_ARRAY(incoming, "deniedNames", denied_names),
    FIELD_ARRAY(incoming, "ports", ports),
    FIELD_ARRAY(incoming, "allowedAddresses", allowed_addresses),
    FIELD_ARRAY(incoming, "deniedAddresses", denied_addresses),
    FIELD_UINT32(incoming, "connections", message.start.connections, 1, EGRESS_CONNECTIONS_MAX,
                 MANDATORY),
    FIELD_UINT64(incoming, "bytes", message.start.bytes, 1, MANDATORY),
    FIELD_UINT64(incoming, "idleUSec", message.start.idle_usec, 1, MANDATORY),
};
static const struct json_field error_fields[] = {
    FIELD_TEXT(incoming, "message", text, EGRESS_TEXT_MAX, MANDATORY),
};
static const struct json_field connection_fields[] = {
    FIELD_TEXT(incoming, "name", name, EGRESS_NAME_MAX, MANDATORY),
    FIELD_TEXT(incoming, "address", address, INET6_ADDRSTRLEN - 1),
    FIELD_UINT32(incoming, "port", message.connection.port, 0, UINT16_MAX, MANDATORY),
    FIELD_TEXT(incoming, "protocol", service, 16, MANDATORY),
    FIELD_TEXT(incoming, "verdict", verdict, 16, MANDATORY),
    FIELD_TEXT(incoming, "rule", rule, EGRESS_RULE_MAX),
    FIELD_UINT64(incoming, "bytesSent", message.connection.bytes_sent, 0, MANDATORY),
    FIELD_UINT64(incoming, "bytesReceived", message.connection.bytes_received, 0, MANDATORY),
    FIELD_UINT64(incoming, "durationUSec", message.connection.duration_usec, 0, MANDATORY),
};
static const struct json_field finished_fields[] = {
    FIELD_UINT64(incoming, "connections", message.finished.connections, 0, MANDATORY),
    FIELD_UINT64(incoming, "refused", message.finished.refused, 0, MANDATORY),
    FIELD_UINT64(incoming, "failed", message.finished.failed, 0, MANDATORY),
    FIELD_UINT64(incoming, "unrecorded", message.finished.unrecorded, 0, MANDATORY),
    FIELD_UINT64(incoming, "bytesSent", message.finished.bytes_sent, 0, MANDATORY),
    FIELD_UINT64(incoming, "bytesReceived", message.finished.bytes_received, 0, MANDATORY),
    FIELD_ARRAY(incoming, "hosts", hosts),
    FIELD_ARRAY(incoming, "refusedHosts", refused_hosts),
    FIELD_BOOL(incoming, "moreHosts", message.finished.more_hosts),
};
static const struct json_field host_fields[] = {
    FIELD_TEXT(incoming_host, "name", name, EGRESS_NAME_MAX, MANDATORY),
    FIELD_UINT32(incoming_host, "port", host.port, 0, UINT16_MAX, MANDATORY),
    FIELD_UINT64(incoming_host, "connections", host.connections, 0, MANDATORY),
    FIELD_UINT64(incoming_host, "bytesSent", host.bytes_sent, 0, MANDATORY),
    FIELD_UINT64(incoming_host, "bytesReceived", host.bytes_received, 0, MANDATORY),
    FIELD_TEXT(incoming_host, "rule", rule, EGRESS_RULE_MAX),
};

static const struct message_type types[] = {
    [EGRESS_START] = { "start", start_fields, ELEMENTS(start_fields) },
    [EGRESS_READY] = { "ready", NULL, 0 },
    [EGRESS_ERROR] = { "error", error_fields, ELEMENTS(error_fields) },
    [EGRESS_CONNECTION] = { "connection", connection_fields, ELEMENTS(connection_fields) },
    [EGRESS_FINISH] = { "finish", NULL, 0 },
    [EGRESS_FINISHED] = { "finished", finished_fields, ELEMENTS(finished_fields) },
};

static const struct message_protocol protocol = {
    EGRESS_PROTOCOL_VERSION,
    EGRESS_PACKET_MAX,
    types,
    ELEMENTS(types),
};

const char *egress_service_name(enum egress_service service)
{
    return service_names[service];
}

const char *egress_verdict_name(enum egress_verdict verdict)
{
    return verdict_names[verdict];
}

void egress_message_release(struct egress_message *message)
{
    if (message->type == EGRESS_START) {
        host_list_release(&message->start.granted);
        host_list_release(&message->start.allowed_names);
        host_list_release(&message->start.denied_names);
        ip_prefix_list_release(&message->start.allowed_addresses);
        ip_prefix_list_release(&message->start.denied_addresses);
    } else if (message->type == EGRESS_FINISHED) {
        free(message->finished.hosts);
        free(message->finished.refused_hosts);
        message->finished = (struct egress_finished){ 0 };
    }
}

/* ---- in */

static int take_host(json_object *object, struct egress_host *ret)
{
    struct incoming_host in = { 0 };
    const char *field;

    if (json_dispatch(object, host_fields, ELEMENTS(host_fields), true, &in, &field) < 0)
        return -EBADMSG;
    *ret = in.host;
    message_copy_text(ret->name, in.name);
    message_copy_text(ret->rule, in.rule);
    return 0;
}

static int take_hosts(json_object *array, struct egress_host **ret, size_t *ret_n)
{
    size_t n = array ? json_object_array_length(array) : 0;

    if (n > EGRESS_HOSTS_MAX)
        return -EBADMSG;
    if (n == 0)
        return 0;
    *ret = calloc(n, sizeof(**ret));
    if (!*ret)
        return -ENOMEM;
    for (; *ret_n < n; (*ret_n)++) {
        int r = take_host(json_object_array_get_idx(array, *ret_n), &(*ret)[*ret_n]);
        if (r < 0)
            return r;
    }
    return 0;
}

static int finish_start(struct incoming *in)
{
    struct egress_start *start = &in->message.start;

    if (*in->run_id == '\0' || in->run_id[strspn(in->run_id, "0123456789abcdef")] != '\0')
        return -EBADMSG;
    message_copy_text(start->run_id, in->run_id);
    int r = egress_names_read(in->granted, &start->granted);
    r = r < 0 ? r : egress_names_read(in->allowed_names, &start->allowed_names);
    r = r < 0 ? r : egress_names_read(in->denied_names, &start->denied_names);
    r = r < 0 ? r : egress_ports_read(in->ports, &start->ports);
    r = r < 0 ? r : egress_addresses_read(in->allowed_addresses, &start->allowed_addresses);
    return r < 0 ? r : egress_addresses_read(in->denied_addresses, &start->denied_addresses);
}

static int finish_connection(struct incoming *in)
{
    struct egress_connection *connection = &in->message.connection;
    int service = message_find_name(service_names, ELEMENTS(service_names), in->service);
    int verdict = message_find_name(verdict_names, ELEMENTS(verdict_names), in->verdict);

    if (service < 0 || verdict < 0)
        return -EBADMSG;
    connection->service = (enum egress_service)service;
    connection->verdict = (enum egress_verdict)verdict;
    message_copy_text(connection->name, in->name);
    message_copy_text(connection->address, in->address);
    message_copy_text(connection->rule, in->rule);
    return 0;
}

/* Copies texts and lists, and checks what a table cannot say. */
static int finish(struct incoming *in)
{
    struct egress_message *m = &in->message;
    int r;

    switch (m->type) {
    case EGRESS_START:
        return finish_start(in);
    case EGRESS_ERROR:
        message_copy_text(m->error.message, in->text);
        return 0;
    case EGRESS_CONNECTION:
        return finish_connection(in);
    case EGRESS_FINISHED:
        r = take_hosts(in->hosts, &m->finished.hosts, &m->finished.n_hosts);
        return r < 0 ? r
                     : take_hosts(in->refused_hosts, &m->finished.refused_hosts,
                                  &m->finished.n_refused_hosts);
    case EGRESS_READY:
    case EGRESS_FINISH:
    default:
        return 0;
    }
}

int egress_message_parse(const char *data, size_t size, struct egress_message *ret)
{
    _cleanup_json_ json_object *object = NULL;
    struct incoming in = { 0 };
    int type;

    int r = message_open(&protocol, data, size, &object, &type);
    if (r < 0)
        return r;
    in.message.type = (enum egress_type)type;
    r = message_dispatch(&protocol, type, object, &in);
    if (r < 0)
        return r;
    r = finish(&in);
    if (r < 0) {
        egress_message_release(&in.message);
        return r;
    }
    *ret = in.message;
    return 0;
}

/* ---- out */

/* Each returns 0 or the first negative error of the calls that are joined here. */
static int add_start(json_object *o, const struct egress_start *m)
{
    int r = json_add_string(o, "runId", m->run_id);
    r = r < 0 ? r : json_add(o, "granted", egress_names_array(&m->granted));
    r = r < 0 ? r : json_add(o, "allowedNames", egress_names_array(&m->allowed_names));
    r = r < 0 ? r : json_add(o, "deniedNames", egress_names_array(&m->denied_names));
    r = r < 0 ? r : json_add(o, "ports", egress_ports_array(&m->ports));
    r = r < 0 ? r : json_add(o, "allowedAddresses", egress_addresses_array(&m->allowed_addresses));
    r = r < 0 ? r : json_add(o, "deniedAddresses", egress_addresses_array(&m->denied_addresses));
    r = r < 0 ? r : json_add_uint64(o, "connections", m->connections);
    r = r < 0 ? r : json_add_uint64(o, "bytes", m->bytes);
    return r < 0 ? r : json_add_uint64(o, "idleUSec", m->idle_usec);
}

static int add_connection(json_object *o, const struct egress_connection *m)
{
    int r = json_add_string(o, "name", m->name);
    r = r < 0 ? r : json_add_string(o, "address", m->address);
    r = r < 0 ? r : json_add_uint64(o, "port", m->port);
    r = r < 0 ? r : json_add_string(o, "protocol", service_names[m->service]);
    r = r < 0 ? r : json_add_string(o, "verdict", verdict_names[m->verdict]);
    r = r < 0 ? r : json_add_string(o, "rule", m->rule);
    r = r < 0 ? r : json_add_uint64(o, "bytesSent", m->bytes_sent);
    r = r < 0 ? r : json_add_uint64(o, "bytesReceived", m->bytes_received);
    return r < 0 ? r : json_add_uint64(o, "durationUSec", m->duration_usec);
}

static int add_host(json_object *array, const struct egress_host *host)
{
    json_object *o = json_object_new_object();

    int r = json_append(array, o);
    r = r < 0 ? r : json_add_string(o, "name", host->name);
    r = r < 0 ? r : json_add_uint64(o, "port", host->port);
    r = r < 0 ? r : json_add_uint64(o, "connections", host->connections);
    r = r < 0 ? r : json_add_uint64(o, "bytesSent", host->bytes_sent);
    r = r < 0 ? r : json_add_uint64(o, "bytesReceived", host->bytes_received);
    return r < 0 ? r : json_add_string(o, "rule", host->rule);
}

/* At most @most of them. */
static int add_hosts(json_object *o, const char *key, const struct egress_host *hosts, size_t n,
                     size_t most)
{
    json_object *array = json_object_new_array();

    int r = json_add(o, key, array);
    for (size_t i = 0; r == 0 && i < n && i < most; i++)
        r = add_host(array, &hosts[i]);
    return r;
}

static int add_finished(json_object *o, const struct egress_finished *m, size_t most)
{
    int r = json_add_uint64(o, "connections", m->connections);
    r = r < 0 ? r : json_add_uint64(o, "refused", m->refused);
    r = r < 0 ? r : json_add_uint64(o, "failed", m->failed);
    r = r < 0 ? r : json_add_uint64(o, "unrecorded", m->unrecorded);
    r = r < 0 ? r : json_add_uint64(o, "bytesSent", m->bytes_sent);
    r = r < 0 ? r : json_add_uint64(o, "bytesReceived", m->bytes_received);
    r = r < 0 ? r : add_hosts(o, "hosts", m->hosts, m->n_hosts, most);
    r = r < 0 ? r : add_hosts(o, "refusedHosts", m->refused_hosts, m->n_refused_hosts, most);
    return r < 0 ? r
                 : json_add_bool(o, "moreHosts",
                                 m->more_hosts || m->n_hosts > most || m->n_refused_hosts > most);
}

static int add_body(json_object *o, const struct egress_message *m, size_t most)
{
    switch (m->type) {
    case EGRESS_START:
        return add_start(o, &m->start);
    case EGRESS_ERROR:
        return json_add_string(o, "message", m->error.message);
    case EGRESS_CONNECTION:
        return add_connection(o, &m->connection);
    case EGRESS_FINISHED:
        return add_finished(o, &m->finished, most);
    case EGRESS_READY:
    case EGRESS_FINISH:
        return 0;
    default:
        return -EINVAL;
    }
}

/* With at most @most hosts in a list. */
static int format(const struct egress_message *message, size_t most, char **ret, size_t *ret_size)
{
    _cleanup_json_ json_object *object = NULL;

    int r = message_new(&protocol, (int)message->type, &object);
    r = r < 0 ? r : add_body(object, message, most);
    return r < 0 ? r : message_write(&protocol, object, ret, ret_size);
}

int egress_message_format(const struct egress_message *message, char **ret, size_t *ret_size)
{
    int r = -EMSGSIZE;

    for (size_t most = EGRESS_HOSTS_MAX; r == -EMSGSIZE && most > 0; most /= 2)
        r = format(message, most, ret, ret_size);
    return r;
}

/* ---- on the socket */

int egress_send(int sock, const struct egress_message *message, const int *fds, size_t n_fds)
{
    _cleanup_free_ char *text = NULL;
    size_t size;

    int r = egress_message_format(message, &text, &size);
    return r < 0 ? r : packet_send(sock, text, size, fds, n_fds);
}

int egress_recv(int sock, struct egress_message *ret, int fds[PACKET_FDS_MAX], size_t *ret_n_fds)
{
    _cleanup_free_ char *data = malloc(EGRESS_PACKET_MAX);

    if (!data)
        return -ENOMEM;
    ssize_t n = packet_recv(sock, data, EGRESS_PACKET_MAX, fds, ret_n_fds);
    if (n <= 0)
        return (int)n;
    int r = egress_message_parse(data, (size_t)n, ret);
    if (r < 0) {
        packet_close_fds(fds);
        *ret_n_fds = 0;
        return r;
    }
    return 1;
}
