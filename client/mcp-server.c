/* What comes from the client, see mcp-server.h. */
#include "client/mcp-server.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/mcp-answer.h"
#include "client/mcp-methods.h"
#include "client/mcp-run.h"

/* An id that is not known any more, or never was, is no mistake: answers cross notifications. */
static void take_notification(struct mcp_server *server, const struct mcp_message *message)
{
    json_object *id = json_object_object_get(message->params, "requestId");
    struct mcp_call *call;

    if (strcmp(message->method, "notifications/cancelled") != 0 || !id)
        return;
    call = mcp_call_find(server, id);
    if (!call)
        return;
    struct mcp_run *run = call->ends_run ? call->run : NULL;
    mcp_call_free(call); /* without an answer */
    if (run)
        mcp_run_end(run);
}

static void take_message(struct mcp_server *server, struct mcp_batch *batch,
                         const struct mcp_message *message)
{
    switch (message->kind) {
    case MCP_REQUEST:
        mcp_take_request(server, batch, message);
        break;
    case MCP_NOTIFICATION:
        take_notification(server, message);
        break;
    case MCP_RESPONSE:
        break;
    case MCP_BATCH:
    case MCP_BAD:
        mcp_answer_error(server, batch, message->id, message->error, message->reason, NULL);
        break;
    }
}

/* Only one revision has batches. */
static void take_batch(struct mcp_server *server, json_object *items)
{
    struct mcp_batch *batch = NULL;

    if (!server->legacy || strcmp(server->legacy, "2025-03-26") != 0 ||
        json_object_array_length(items) == 0) {
        mcp_answer_error(server, NULL, NULL, MCP_ERROR_REQUEST, "A message is an object.", NULL);
        return;
    }
    batch = mcp_batch_new();
    if (!batch)
        return;
    for (size_t i = 0; i < json_object_array_length(items); i++) {
        _cleanup_(mcp_message_release) struct mcp_message message = {};
        mcp_message_read(json_object_array_get_idx(items, i), &message);
        take_message(server, batch, &message);
    }
    mcp_batch_unref(server, batch);
}

static void on_line(const char *line, size_t size, void *userdata)
{
    struct mcp_server *server = userdata;
    _cleanup_(mcp_message_release) struct mcp_message message = {};

    mcp_message_parse(line, size, &message);
    if (message.kind == MCP_BATCH)
        take_batch(server, message.items);
    else
        take_message(server, NULL, &message);
}

static void on_too_long(json_object *id, void *userdata)
{
    mcp_answer_error(userdata, NULL, id, MCP_ERROR_REQUEST,
                     "The message is larger than 16 MiB; give large files by their path.", NULL);
}

static void on_end(void *userdata)
{
    struct mcp_server *server = userdata;
    sd_event_exit(server->event, 0);
}

int mcp_server_new(sd_event *event, struct mcp_server **ret)
{
    struct mcp_server *server = calloc(1, sizeof(*server));

    if (!server)
        return -ENOMEM;
    server->event = sd_event_ref(event);
    server->links.event = event;
    int r = mcp_stream_new(
        event,
        &(const struct mcp_stream_handlers){
            .line = on_line, .too_long = on_too_long, .end = on_end, .userdata = server },
        &server->stream);
    if (r < 0) {
        mcp_server_free(server);
        return r;
    }
    *ret = server;
    return 0;
}

struct mcp_server *mcp_server_free(struct mcp_server *server)
{
    if (!server)
        return NULL;
    if (server->stream)
        mcp_stream_flush(server->stream);
    /* With their connections closed the helper ends the runs. */
    while (server->runs)
        mcp_run_free(server->runs);
    while (server->calls)
        mcp_call_free(server->calls);
    mcp_stream_free(server->stream);
    json_object_put(server->tools);
    sd_event_unref(server->event);
    free(server);
    return NULL;
}
