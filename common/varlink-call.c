/* Calls: from a message to a method, and the answers back. Called by a connection with what it
 * read, and by the methods. Nothing here waits, and what a method does wrong costs its caller the
 * connection, never the service. */
#include "memfd.h"
#include "varlink-connection.h"
#include "varlink-header.h"

#include <stdio.h>
#include <string.h>

/* ---- Answering ---- */

/* The call was answered for good. */
static void call_finish(struct varlink_call *call)
{
    call->open = false;
    varlink_connection_call_done(call->connection);
}

/* The final answer. If it cannot even be built the connection ends, or its caller would wait for
 * ever. */
static int call_answer(struct varlink_call *call, const char *error, json_object *parameters)
{
    _cleanup_json_ json_object *owned = parameters;
    struct varlink_connection *c = call->connection;
    int r;

    if (!call->open) {
        /* The method is done with it, so it need not hear of the end any more. */
        call->gone = NULL;
        return -ENOTCONN;
    }
    call_finish(call);
    if (call->oneway)
        return 0;
    r = varlink_connection_send(c, varlink_build_answer(error, TAKE_PTR(owned), false),
                                (struct varlink_fds){ 0 });
    if (r == -ENOMEM)
        varlink_connection_end(c);
    return r;
}

/* Answers for a method that did not, and closes. */
static void call_fail(struct varlink_call *call, const char *reason)
{
    _cleanup_(varlink_call_unrefp) struct varlink_call *held = varlink_call_ref(call);
    _cleanup_json_ json_object *parameters = json_object_new_object();
    _cleanup_free_ char *error = NULL;

    if (call->open) {
        if (!parameters || json_add_string(parameters, "reason", reason) < 0 || !call->interface ||
            asprintf(&error, "%s.Failed", call->interface->name) < 0)
            varlink_connection_end(call->connection);
        else
            call_answer(call, error, TAKE_PTR(parameters));
    }
    varlink_connection_end_sent(held->connection);
}

/* ---- Dispatching ---- */

/* Makes the call of a message. Consumes @fds always; returns 0, -EBADMSG with the reason in
 * @ret_why, or -ENOMEM. */
static int call_new(struct varlink_connection *c, const char *text, size_t size,
                    struct varlink_fds fds, struct varlink_call **ret, const char **ret_method,
                    const char **ret_why)
{
    _cleanup_(varlink_call_unrefp) struct varlink_call *call = calloc(1, sizeof(*call));
    struct varlink_call_header header;
    int r;

    if (!call) {
        varlink_fds_release(&fds);
        return -ENOMEM;
    }
    call->refs = 1;
    call->connection = varlink_connection_ref(c);
    call->fds = fds;
    r = json_parse_guarded(text, size, &call->message);
    if (r == -ENOMEM)
        return r;
    if (r < 0) {
        *ret_why = "A message is not strict JSON.";
        return -EBADMSG;
    }
    r = varlink_parse_call(call->message, &header);
    if (r < 0 || header.upgrade) {
        *ret_why = r < 0 ? "A message is not a varlink call." : "A call asks for an upgrade.";
        return -EBADMSG;
    }
    call->more = header.more;
    call->oneway = header.oneway;
    call->parameters =
        header.parameters ? json_object_get(header.parameters) : json_object_new_object();
    if (!call->parameters)
        return -ENOMEM;
    *ret_method = header.method;
    *ret = TAKE_PTR(call);
    return 0;
}

/* Answers a call that goes nowhere with an error that has one string. */
static void call_undeliverable(struct varlink_call *call, const char *why, const char *error,
                               const char *key, const char *value)
{
    _cleanup_json_ json_object *parameters = json_object_new_object();

    varlink_server_refused(call->connection->server, &call->connection->peer, why);
    if (!parameters || (key && json_add_string(parameters, key, value) < 0)) {
        varlink_connection_end(call->connection);
        return;
    }
    call_answer(call, error, TAKE_PTR(parameters));
}

static void call_dispatch(struct varlink_call *call, const char *name)
{
    struct varlink_connection *c = call->connection;
    struct varlink_target target = { 0 };
    _cleanup_free_ char *unknown = NULL;
    int r;

    if (varlink_server_find(c->server, name, &target) < 0) {
        varlink_connection_end(c);
        return;
    }
    unknown = target.unknown_interface;
    call->interface = target.interface;
    if (call->fds.n > 0 && !(target.method && target.method->flags & VARLINK_METHOD_TAKES_FDS))
        varlink_connection_refuse(c, "A call carries descriptors that its method does not take.");
    else if (unknown)
        call_undeliverable(call, "A call names an unknown interface.",
                           VARLINK_ERROR_INTERFACE_NOT_FOUND, "interface", unknown);
    else if (!target.method)
        call_undeliverable(call, "A call names an unknown method.", VARLINK_ERROR_METHOD_NOT_FOUND,
                           "method", name);
    else if (target.method->flags & VARLINK_METHOD_REQUIRES_MORE && !call->more)
        call_undeliverable(call, "A call lacks the flag 'more'.", VARLINK_ERROR_EXPECTED_MORE, NULL,
                           NULL);
    else if ((r = target.method->fn(call, c->server->options.userdata)) < 0)
        call_fail(call, strerrordesc_np(-r) ?: "unknown error");
}

void varlink_call_dispatch(struct varlink_connection *c, const char *text, size_t size,
                           struct varlink_fds fds)
{
    _cleanup_(varlink_call_unrefp) struct varlink_call *call = NULL;
    const char *name, *why;
    int r;

    r = call_new(c, text, size, fds, &call, &name, &why);
    if (r == -EBADMSG)
        varlink_connection_refuse(c, why);
    else if (r < 0)
        varlink_connection_end(c);
    if (r < 0)
        return;
    c->call = call;
    call->open = true;
    call_dispatch(call, name);
}

void varlink_call_gone(struct varlink_call *call)
{
    _cleanup_(varlink_call_unrefp) struct varlink_call *held = varlink_call_ref(call);
    void (*gone)(struct varlink_call *, void *) = call->gone;

    call->gone = NULL;
    if (gone)
        gone(held, held->gone_userdata);
}

void varlink_call_drained(struct varlink_call *call)
{
    _cleanup_(varlink_call_unrefp) struct varlink_call *held = varlink_call_ref(call);

    if (held->drained)
        held->drained(held, held->drained_userdata);
}

/* ---- What methods use ---- */

struct varlink_call *varlink_call_ref(struct varlink_call *call)
{
    call->refs++;
    return call;
}

struct varlink_call *varlink_call_unref(struct varlink_call *call)
{
    if (!call)
        return NULL;
    if (call->refs == 1 && call->open) {
        /* Nobody can answer any more, and the caller shall not wait for ever. */
        if (call->oneway)
            call_finish(call);
        else
            call_fail(call, "no answer");
    }
    if (--call->refs > 0)
        return NULL;
    if (call->connection->call == call)
        call->connection->call = NULL;
    varlink_fds_release(&call->fds);
    json_object_put(call->parameters);
    json_object_put(call->message);
    varlink_connection_unref(call->connection);
    free(call);
    return NULL;
}

json_object *varlink_call_parameters(const struct varlink_call *call)
{
    return call->parameters;
}

const struct peer *varlink_call_peer(const struct varlink_call *call)
{
    return &call->connection->peer;
}

bool varlink_call_wants_more(const struct varlink_call *call)
{
    return call->more;
}

bool varlink_call_is_oneway(const struct varlink_call *call)
{
    return call->oneway;
}

bool varlink_call_is_open(const struct varlink_call *call)
{
    return call->open;
}

int varlink_call_take_fd(struct varlink_call *call, uint64_t index)
{
    if (index >= call->fds.n || call->fds.fd[index] < 0)
        return -EINVAL;
    return TAKE_FD(call->fds.fd[index]);
}

int varlink_call_take_memfd(struct varlink_call *call, uint64_t index)
{
    if (index < call->fds.n && call->fds.fd[index] >= 0 && !memfd_is_sealed(call->fds.fd[index]))
        return -EPERM;
    return varlink_call_take_fd(call, index);
}

size_t varlink_call_n_fds(const struct varlink_call *call)
{
    return call->fds.n;
}

int varlink_reply(struct varlink_call *call, json_object *parameters)
{
    return call_answer(call, NULL, parameters);
}

int varlink_error(struct varlink_call *call, const char *error, json_object *parameters)
{
    return call_answer(call, error, parameters);
}

int varlink_error_invalid_parameter(struct varlink_call *call, const char *field)
{
    json_object *parameters = json_object_new_object();

    if (parameters)
        (void)json_add_string(parameters, "parameter", field);
    return call_answer(call, VARLINK_ERROR_INVALID_PARAMETER, parameters);
}

int varlink_notify(struct varlink_call *call, json_object *parameters, const int *fds, size_t n_fds)
{
    _cleanup_json_ json_object *owned = parameters;
    struct varlink_fds copies;
    int r;

    if (!call->open)
        return -ENOTCONN;
    if (call->oneway)
        return 0;
    if (!call->more)
        return -EBADE;
    r = varlink_fds_dup(fds, n_fds, &copies);
    if (r < 0)
        return r;
    return varlink_connection_send(call->connection,
                                   varlink_build_answer(NULL, TAKE_PTR(owned), true), copies);
}

size_t varlink_call_pending_output(const struct varlink_call *call)
{
    return call->connection->writer.size;
}

void varlink_call_on_gone(struct varlink_call *call, void (*fn)(struct varlink_call *, void *),
                          void *userdata)
{
    call->gone = fn;
    call->gone_userdata = userdata;
}

void varlink_call_on_drained(struct varlink_call *call, void (*fn)(struct varlink_call *, void *),
                             void *userdata)
{
    call->drained = fn;
    call->drained_userdata = userdata;
}
