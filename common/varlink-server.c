/* A varlink server: accepts, counts, knows the interfaces and answers org.varlink.service. The
 * connections themselves are in varlink-connection.c. */
#include "varlink-connection.h"

#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "foreign.h"

#include "common/org.varlink.service.h"

/* How long accepting rests when the process has no descriptor left; a listening socket stays
 * readable meanwhile. */
#define ACCEPT_AGAIN_USEC (100 * 1000)

/* ---- org.varlink.service ---- */

static int compare_strings(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int on_get_info(struct varlink_call *call, void *userdata);
static int on_get_interface_description(struct varlink_call *call, void *userdata);

static const struct varlink_method service_methods[] = {
    { "GetInfo", on_get_info, 0 },
    { "GetInterfaceDescription", on_get_interface_description, 0 },
};

static const struct varlink_interface service_interface = {
    .name = "org.varlink.service",
    .description = varlink_service_text,
    .methods = service_methods,
    .n_methods = ELEMENTS(service_methods),
};

/* The names of all interfaces, sorted, as a JSON array; NULL out of memory. */
static json_object *interface_names(const struct varlink_server *server)
{
    _cleanup_json_ json_object *array = json_object_new_array();
    _cleanup_free_ const char **names = calloc(server->n_interfaces + 1, sizeof(*names));

    if (!array || !names)
        return NULL;
    for (size_t i = 0; i < server->n_interfaces; i++)
        names[i] = server->interfaces[i]->name;
    names[server->n_interfaces] = service_interface.name;
    qsort(names, server->n_interfaces + 1, sizeof(*names), compare_strings);
    for (size_t i = 0; i <= server->n_interfaces; i++)
        if (json_append(array, json_object_new_string(names[i])) < 0)
            return NULL;
    return TAKE_PTR(array);
}

static int on_get_info(struct varlink_call *call, void *userdata)
{
    const struct varlink_server *server = call->connection->server;
    const struct varlink_server_options *o = &server->options;
    _cleanup_json_ json_object *info = NULL;
    const char *field;

    if (json_dispatch(varlink_call_parameters(call), NULL, 0, false, NULL, &field) < 0)
        return varlink_error_invalid_parameter(call, field);
    info = json_object_new_object();
    if (!info || json_add_string(info, "vendor", o->vendor ?: "") < 0 ||
        json_add_string(info, "product", o->product ?: "") < 0 ||
        json_add_string(info, "version", o->version ?: "") < 0 ||
        json_add_string(info, "url", o->url ?: "") < 0 ||
        json_add(info, "interfaces", interface_names(server)) < 0)
        return -ENOMEM;
    return varlink_reply(call, TAKE_PTR(info));
}

static const struct varlink_interface *find_interface(const struct varlink_server *server,
                                                      const char *name)
{
    if (strcmp(name, service_interface.name) == 0)
        return &service_interface;
    for (size_t i = 0; i < server->n_interfaces; i++)
        if (strcmp(name, server->interfaces[i]->name) == 0)
            return server->interfaces[i];
    return NULL;
}

static int on_get_interface_description(struct varlink_call *call, void *userdata)
{
    static const struct json_field fields[] = {
        { "interface", JSON_FIELD_STRING, 0, .mandatory = true },
    };
    _cleanup_json_ json_object *answer = NULL;
    const struct varlink_interface *interface;
    const char *name = NULL, *field;

    if (json_dispatch(varlink_call_parameters(call), fields, ELEMENTS(fields), false, &name,
                      &field) < 0)
        return varlink_error_invalid_parameter(call, field);
    answer = json_object_new_object();
    if (!answer)
        return -ENOMEM;
    interface = find_interface(call->connection->server, name);
    if (!interface) {
        if (json_add_string(answer, "interface", name) < 0)
            return -ENOMEM;
        return varlink_error(call, VARLINK_ERROR_INTERFACE_NOT_FOUND, TAKE_PTR(answer));
    }
    if (json_add_string(answer, "description", interface->description) < 0)
        return -ENOMEM;
    return varlink_reply(call, TAKE_PTR(answer));
}

int varlink_server_find(struct varlink_server *server, const char *name, struct varlink_target *ret)
{
    const char *dot = strrchr(name, '.');
    _cleanup_free_ char *interface_name = NULL;
    struct varlink_target target = { 0 };

    *ret = target;
    if (!dot || dot == name || !dot[1])
        return 0;
    interface_name = strndup(name, (size_t)(dot - name));
    if (!interface_name)
        return -ENOMEM;
    target.interface = find_interface(server, interface_name);
    if (!target.interface)
        target.unknown_interface = TAKE_PTR(interface_name);
    for (size_t i = 0; target.interface && i < target.interface->n_methods; i++)
        if (strcmp(dot + 1, target.interface->methods[i].name) == 0)
            target.method = &target.interface->methods[i];
    *ret = target;
    return 0;
}

/* ---- Connections ---- */

static unsigned connections_of(const struct varlink_server *server, uid_t uid)
{
    unsigned n = 0;

    for (struct varlink_connection *c = server->connections; c; c = c->next)
        if (c->peer.uid == uid)
            n++;
    return n;
}

static void tell_busy(struct varlink_server *server, bool busy)
{
    if (server->options.busy_changed)
        server->options.busy_changed(busy, server->options.userdata);
}

void varlink_server_refused(struct varlink_server *server, const struct peer *peer, const char *why)
{
    if (server->options.refused)
        server->options.refused(peer, why, server->options.userdata);
}

/* Whose connection it is, and whether there may be one more. */
static int admit(const struct varlink_server *server, int fd, struct peer *peer)
{
    const int on = 1;
    int r = peer_acquire(fd, peer);

    if (r < 0)
        return r;
    if (server->n_connections >= server->options.connections_max ||
        connections_of(server, peer->uid) >= server->options.connections_per_user_max)
        return -EUSERS;
    /* Out of band, the kernel would close the descriptors of a byte that is read past. */
    if (setsockopt(fd, SOL_SOCKET, SO_OOBINLINE, &on, sizeof(on)) < 0)
        return -errno;
    return varlink_prepare_socket(fd);
}

int varlink_server_add_connection(struct varlink_server *server, int fd)
{
    _cleanup_(peer_release) struct peer peer = PEER_NULL;
    int r = admit(server, fd, &peer);

    if (r < 0) {
        foreign_close_socket(fd, peer.uid);
        return r;
    }
    r = varlink_connection_new(server, fd, &peer);
    if (r < 0)
        return r;
    if (server->n_connections++ == 0)
        tell_busy(server, true);
    return 0;
}

void varlink_server_forget(struct varlink_server *server, struct varlink_connection *connection)
{
    if (connection->next)
        connection->next->previous = connection->previous;
    if (connection->previous)
        connection->previous->next = connection->next;
    else
        server->connections = connection->next;
    connection->next = connection->previous = NULL;
    if (--server->n_connections == 0)
        tell_busy(server, false);
}

/* ---- Listening ---- */

static void set_listening(struct varlink_server *server, bool on)
{
    for (size_t i = 0; i < server->n_listeners; i++)
        sd_event_source_set_enabled(server->listeners[i], on ? SD_EVENT_ON : SD_EVENT_OFF);
}

static int on_accept_again(sd_event_source *source, uint64_t usec, void *userdata)
{
    set_listening(userdata, true);
    return 0;
}

/* Accepts one; others wait their turn in the event loop. Nothing that goes wrong here stops the
 * service. */
static int on_accept(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
    struct varlink_server *server = userdata;
    int connection = accept4(fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

    if (connection >= 0) {
        (void)varlink_server_add_connection(server, connection);
        return 0;
    }
    if (errno != EMFILE && errno != ENFILE && errno != ENOBUFS && errno != ENOMEM)
        return 0;
    if (sd_event_source_set_time_relative(server->accept_again, ACCEPT_AGAIN_USEC) >= 0 &&
        sd_event_source_set_enabled(server->accept_again, SD_EVENT_ONESHOT) >= 0)
        set_listening(server, false);
    return 0;
}

int varlink_server_listen(struct varlink_server *server, int fd)
{
    _cleanup_(sd_event_source_unrefp) sd_event_source *source = NULL;
    _cleanup_close_ int owned = fd;
    int listening = 0, r;
    socklen_t length = sizeof(listening);

    if (server->n_listeners == ELEMENTS(server->listeners))
        return -ENOSPC;
    if (getsockopt(owned, SOL_SOCKET, SO_ACCEPTCONN, &listening, &length) < 0)
        return -errno;
    if (!listening)
        return -EINVAL;
    r = varlink_prepare_socket(owned);
    if (r < 0)
        return r;
    r = sd_event_add_io(server->event, &source, owned, EPOLLIN, on_accept, server);
    if (r < 0)
        return r;
    r = sd_event_source_set_io_fd_own(source, true);
    if (r < 0)
        return r;
    (void)TAKE_FD(owned);
    server->listeners[server->n_listeners++] = TAKE_PTR(source);
    return 0;
}

/* ---- Life ---- */

static void server_unrefp(struct varlink_server **server)
{
    varlink_server_unref(*server);
}

int varlink_server_new(sd_event *event, const struct varlink_server_options *options,
                       const struct varlink_interface *const *interfaces, size_t n_interfaces,
                       struct varlink_server **ret)
{
    _cleanup_(server_unrefp) struct varlink_server *server = calloc(1, sizeof(*server));
    int r;

    if (!server)
        return -ENOMEM;
    server->event = sd_event_ref(event);
    server->options = *options;
    if (server->options.message_timeout_usec == 0)
        server->options.message_timeout_usec = VARLINK_MESSAGE_TIMEOUT_USEC;
    server->interfaces = interfaces;
    server->n_interfaces = n_interfaces;
    r = sd_event_add_time_relative(event, &server->accept_again, CLOCK_MONOTONIC, 0, 0,
                                   on_accept_again, server);
    if (r < 0)
        return r;
    r = sd_event_source_set_enabled(server->accept_again, SD_EVENT_OFF);
    if (r < 0)
        return r;
    *ret = TAKE_PTR(server);
    return 0;
}

struct varlink_server *varlink_server_unref(struct varlink_server *server)
{
    if (!server)
        return NULL;
    while (server->connections) {
        struct varlink_connection *c = server->connections;

        server->connections = c->next;
        varlink_connection_abandon(c);
    }
    for (size_t i = 0; i < server->n_listeners; i++)
        sd_event_source_disable_unref(server->listeners[i]);
    sd_event_source_disable_unref(server->accept_again);
    sd_event_unref(server->event);
    free(server);
    return NULL;
}

unsigned varlink_server_connections(const struct varlink_server *server)
{
    return server->n_connections;
}
