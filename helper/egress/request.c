/* What a program in the sandbox wants: HTTP or SOCKS5 by the first byte, see connection.h. */
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "common/cleanup.h"
#include "common/escape.h"
#include "connection.h"
#include "socks.h"

static const char connected[] = "HTTP/1.1 200 Connection established\r\n\r\n";

/* What is told of the request in records; a name of any bytes, escaped and cut. */
static bool note(struct connection *connection)
{
    struct request *request = connection->request;
    _cleanup_free_ char *name = escape_text(request->host, request->host_size, EGRESS_NAME_MAX);

    if (!name)
        return false;
    request->known = true;
    snprintf(connection->record.name, sizeof(connection->record.name), "%s", name);
    connection->record.port = request->port;
    return true;
}

/* ---- HTTP */

static enum request_state malformed(struct connection *connection, const char *why)
{
    answer_malformed(connection, why);
    return REQUEST_ANSWERED;
}

static enum request_state read_http(struct connection *connection)
{
    struct request *request = connection->request;
    struct http_request *http = &request->http;

    connection->record.service = EGRESS_SERVICE_HTTP;
    ssize_t size = http_head_size(connection->input, connection->n_input, connection->seen);
    connection->seen = connection->n_input;
    if (size < 0)
        return malformed(connection, size == -E2BIG ? "a head of more than 16 KiB"
                                                    : "a line that does not end in CRLF");
    if (size == 0)
        return REQUEST_INCOMPLETE;
    const char *wrong = http_request_parse(connection->input, (size_t)size, http);
    if (wrong)
        return malformed(connection, wrong);
    if (http->is_connect)
        connection->record.service = EGRESS_SERVICE_CONNECT;
    request->host = http->host.data;
    request->host_size = http->host.size;
    request->port = http->port;
    request->size = (size_t)size;
    return note(connection) ? REQUEST_COMPLETE : REQUEST_DROPPED;
}

/* How the body goes on that follows the head. What came of it with the head is in the input. */
static int begin_body(struct connection *connection)
{
    const struct request *request = connection->request;
    const char *rest = connection->input + request->size;
    size_t n = connection->n_input - request->size;
    struct relay *up = &connection->up;
    ssize_t taken;

    switch (request->http.body) {
    case HTTP_BODY_LENGTH:
        n = n < request->http.length ? n : (size_t)request->http.length;
        up->left = request->http.length - n;
        up->source = up->left > 0 ? RELAY_LENGTH : RELAY_NOTHING;
        break;
    case HTTP_BODY_CHUNKED:
        taken = chunked_follow(&up->chunked, rest, n);
        if (taken < 0)
            return (int)taken;
        n = (size_t)taken;
        up->source = chunked_is_done(&up->chunked) ? RELAY_NOTHING : RELAY_CHUNKED;
        break;
    case HTTP_BODY_NONE:
    default:
        n = 0;
        up->source = RELAY_NOTHING;
    }
    return relay_put(up, rest, n);
}

static int start_http(struct connection *connection)
{
    _cleanup_free_ char *head = malloc(connection->request->size + HTTP_HEAD_GROWTH);

    if (!head)
        return -ENOMEM;
    size_t size = http_request_write(&connection->request->http, head);
    int r = relay_put(&connection->up, head, size);
    r = r < 0 ? r : begin_body(connection);
    connection->up.moved = connection->up.end;
    connection->down.source = RELAY_RESPONSE;
    return r;
}

/* ---- SOCKS */

static enum request_state greet(struct connection *connection)
{
    uint8_t choice[SOCKS_CHOICE_SIZE];
    bool no_authentication;

    ssize_t size = socks_greeting_parse((const uint8_t *)connection->input, connection->n_input,
                                        &no_authentication);
    if (size == 0)
        return REQUEST_INCOMPLETE;
    if (size < 0)
        return REQUEST_DROPPED;
    socks_choice_write(no_authentication, choice);
    /* Nothing was sent so far: there is room for two bytes. */
    if (send(connection->client.fd, choice, sizeof(choice), MSG_NOSIGNAL | MSG_DONTWAIT) !=
            sizeof(choice) ||
        !no_authentication)
        return REQUEST_DROPPED;
    connection->request->greeted = true;
    connection->n_input -= (size_t)size;
    memmove(connection->input, connection->input + size, connection->n_input);
    return REQUEST_COMPLETE;
}

static enum request_state read_socks(struct connection *connection)
{
    struct request *request = connection->request;

    connection->record.service = EGRESS_SERVICE_SOCKS5;
    enum request_state state = request->greeted ? REQUEST_COMPLETE : greet(connection);
    if (state != REQUEST_COMPLETE)
        return state;
    if (!request->socks && !(request->socks = calloc(1, sizeof(*request->socks))))
        return REQUEST_DROPPED;
    ssize_t size = socks_request_parse((const uint8_t *)connection->input, connection->n_input,
                                       request->socks);
    if (size == 0)
        return REQUEST_INCOMPLETE;
    if (size < 0) {
        answer_command(connection, (int)size);
        return REQUEST_ANSWERED;
    }
    request->host = request->socks->host;
    request->host_size = request->socks->host_size;
    request->port = request->socks->port;
    request->size = (size_t)size;
    if (!note(connection))
        return REQUEST_DROPPED;
    if (request->socks->command == SOCKS_CONNECT)
        return REQUEST_COMPLETE;
    answer_command(connection, -EOPNOTSUPP);
    return REQUEST_ANSWERED;
}

/* ---- both */

enum request_state request_read(struct connection *connection)
{
    if (connection->n_input == 0 && !connection->request->greeted)
        return REQUEST_INCOMPLETE;
    if (connection->request->greeted || connection->input[0] == SOCKS_VERSION)
        return read_socks(connection);
    return read_http(connection);
}

/* The tunnel is open; what the client sent without waiting goes through it. */
static int start_tunnel(struct connection *connection)
{
    size_t size = connection->request->size;
    uint8_t reply[SOCKS_REPLY_SIZE];
    int r;

    connection->up.source = RELAY_RAW;
    connection->down.source = RELAY_RAW;
    if (connection->record.service == EGRESS_SERVICE_SOCKS5) {
        socks_reply_write(SOCKS_SUCCEEDED, reply);
        r = relay_put(&connection->down, (const char *)reply, sizeof(reply));
    } else {
        r = relay_put(&connection->down, connected, strlen(connected));
    }
    if (r < 0 || connection->n_input == size)
        return r;
    connection->up.moved = connection->n_input - size;
    return relay_put(&connection->up, connection->input + size, connection->n_input - size);
}

int request_start_relay(struct connection *connection)
{
    connection->up.from = connection->down.to = connection->client.fd;
    connection->up.to = connection->down.from = connection->remote.fd;
    if (connection->record.service == EGRESS_SERVICE_HTTP)
        return start_http(connection);
    return start_tunnel(connection);
}
