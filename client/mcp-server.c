/* Methods of both eras and the calls under way, see mcp-server.h. */
#include "client/mcp-server.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "client/mcp-run.h"
#include "client/mcp-tools.h"
#include "common/clock.h"
#include "config-paths.h"

#define MODERN "2026-07-28"
#define META "io.modelcontextprotocol/"
/* What may be kept of our lists (caching): they change with the program only. */
#define LIST_TTL_MSEC (60 * 60 * 1000)
#define CALLS_MAX 1000
/* Between two words on how a call goes on. */
#define PROGRESS_GAP_USEC (USEC_PER_SEC / 2)

/* Newest first, as initialize offers them. */
static const char *const legacy_revisions[] = { "2025-11-25", "2025-06-18", "2025-03-26",
                                                "2024-11-05" };

/* The answers to a batch (revision 2025-03-26), which go out together. */
struct mcp_batch {
    unsigned open; /* without an answer yet, and one while it is read */
    json_object *answers;
};

/* ---- Answers ---- */

static void send_message(struct mcp_server *server, json_object *message)
{
    if (message)
        (void)mcp_stream_send(server->stream, message);
}

static void batch_unref(struct mcp_server *server, struct mcp_batch *batch)
{
    if (!batch || --batch->open > 0)
        return;
    if (json_object_array_length(batch->answers) > 0)
        send_message(server, json_object_get(batch->answers));
    json_object_put(batch->answers);
    free(batch);
}

/* @answer is consumed. */
static void send_answer(struct mcp_server *server, struct mcp_batch *batch, json_object *answer)
{
    if (batch)
        (void)json_append(batch->answers, answer);
    else
        send_message(server, answer);
}

static json_object *answer_new(json_object *id)
{
    json_object *answer = json_object_new_object();

    if (json_add_string(answer, "jsonrpc", "2.0") < 0 ||
        (id && json_add(answer, "id", json_object_get(id)) < 0)) {
        json_object_put(answer);
        return NULL;
    }
    return answer;
}

/* @data is consumed and may be NULL. */
static void answer_error(struct mcp_server *server, struct mcp_batch *batch, json_object *id,
                         enum mcp_error error, const char *reason, json_object *data)
{
    json_object *answer = answer_new(id), *object = json_object_new_object();

    (void)json_add(object, "code", json_object_new_int(error));
    (void)json_add_string(object, "message", reason);
    if (data)
        (void)json_add(object, "data", data);
    (void)json_add(answer, "error", object);
    send_answer(server, batch, answer);
}

static json_object *implementation(void)
{
    json_object *object = json_object_new_object();

    (void)json_add_string(object, "name", "sbxctl");
    (void)json_add_string(object, "title", "sbxctl: sandboxed runs");
    (void)json_add_string(object, "version", SBXCTL_VERSION);
    return object;
}

/* @result is consumed; NULL stands for out of memory. */
static void answer_result(struct mcp_server *server, struct mcp_batch *batch, json_object *id,
                          bool modern, json_object *result)
{
    json_object *answer, *meta;

    if (!result) {
        answer_error(server, batch, id, MCP_ERROR_INTERNAL, "Out of memory.", NULL);
        return;
    }
    if (modern) {
        meta = json_object_new_object();
        (void)json_add(meta, META "serverInfo", implementation());
        (void)json_add(result, "_meta", meta);
        (void)json_add_string(result, "resultType", "complete");
    }
    answer = answer_new(id);
    (void)json_add(answer, "result", result);
    send_answer(server, batch, answer);
}

/* ---- Calls ---- */

static void call_free(struct mcp_call *call)
{
    struct mcp_call **at = &call->server->calls;

    while (*at != call)
        at = &(*at)->next;
    *at = call->next;
    sd_event_source_disable_unref(call->timer);
    mcp_link_free(call->link);
    json_object_put(call->id);
    json_object_put(call->token);
    json_object_put(call->arguments);
    batch_unref(call->server, call->batch);
    free(call);
}

void mcp_call_reply(struct mcp_call *call, json_object *result)
{
    answer_result(call->server, call->batch, call->id, call->modern, result);
    call_free(call);
}

void mcp_call_refuse(struct mcp_call *call, enum mcp_error error, const char *reason)
{
    answer_error(call->server, call->batch, call->id, error, reason, NULL);
    call_free(call);
}

void mcp_call_progress(struct mcp_call *call, const char *text)
{
    uint64_t now = clock_now();
    json_object *message, *params;

    /* A download tells of every piece. */
    if (!call->token || now < call->told_usec + PROGRESS_GAP_USEC)
        return;
    call->told_usec = now;
    message = answer_new(NULL);
    params = json_object_new_object();
    (void)json_add_string(message, "method", "notifications/progress");
    (void)json_add(params, "progressToken", json_object_get(call->token));
    (void)json_add_uint64(params, "progress", ++call->progress);
    (void)json_add_string(params, "message", text);
    (void)json_add(message, "params", params);
    send_message(call->server, message);
}

static struct mcp_call *find_call(struct mcp_server *server, json_object *id)
{
    for (struct mcp_call *call = server->calls; call; call = call->next)
        if (json_object_equal(call->id, id))
            return call;
    return NULL;
}

static unsigned count_calls(const struct mcp_server *server)
{
    unsigned n = 0;

    for (const struct mcp_call *call = server->calls; call; call = call->next)
        n++;
    return n;
}

/* ---- Methods ---- */

/* One request, as far as its method does not matter. */
struct request_context {
    struct mcp_server *server;
    struct mcp_batch *batch;
    const struct mcp_message *message;
    json_object *meta; /* an object, or NULL */
    bool modern;
};

static void refuse(const struct request_context *context, enum mcp_error error, const char *reason)
{
    answer_error(context->server, context->batch, context->message->id, error, reason, NULL);
}

static void reply(const struct request_context *context, json_object *result)
{
    answer_result(context->server, context->batch, context->message->id, context->modern, result);
}

static json_object *capabilities(void)
{
    json_object *object = json_object_new_object();

    (void)json_add(object, "tools", json_object_new_object());
    return object;
}

static void initialize(const struct request_context *context)
{
    json_object *result = json_object_new_object();
    const char *wanted = json_get_string(context->message->params, "protocolVersion");

    context->server->legacy = legacy_revisions[0];
    for (size_t i = 0; wanted && i < ELEMENTS(legacy_revisions); i++)
        if (strcmp(legacy_revisions[i], wanted) == 0)
            context->server->legacy = legacy_revisions[i];
    (void)json_add_string(result, "protocolVersion", context->server->legacy);
    (void)json_add(result, "capabilities", capabilities());
    (void)json_add(result, "serverInfo", implementation());
    (void)json_add_string(result, "instructions", mcp_instructions);
    reply(context, result);
}

static json_object *modern_revisions(void)
{
    json_object *array = json_object_new_array();

    (void)json_append(array, json_object_new_string(MODERN));
    return array;
}

static void add_ttl(json_object *result)
{
    (void)json_add_uint64(result, "ttlMs", LIST_TTL_MSEC);
    (void)json_add_string(result, "cacheScope", "public");
}

static void discover(const struct request_context *context)
{
    json_object *result = json_object_new_object();

    (void)json_add(result, "supportedVersions", modern_revisions());
    (void)json_add(result, "capabilities", capabilities());
    (void)json_add_string(result, "instructions", mcp_instructions);
    add_ttl(result);
    reply(context, result);
}

static void list_tools(const struct request_context *context)
{
    struct mcp_server *server = context->server;
    json_object *result = json_object_new_object();

    if (json_object_object_get(context->message->params, "cursor")) {
        json_object_put(result);
        refuse(context, MCP_ERROR_PARAMETERS, "There is no such cursor; the list has one page.");
        return;
    }
    if (!server->tools)
        server->tools = mcp_tools_list();
    (void)json_add(result, "tools", json_object_get(server->tools));
    if (context->modern)
        add_ttl(result);
    reply(context, server->tools ? result : (json_object_put(result), NULL));
}

static bool is_token(json_object *value)
{
    return json_object_is_type(value, json_type_string) ||
           json_object_is_type(value, json_type_int);
}

static void call_tool(const struct request_context *context)
{
    struct mcp_server *server = context->server;
    json_object *params = context->message->params, *token;
    json_object *arguments = json_object_object_get(params, "arguments");
    const char *name = json_get_string(params, "name");
    struct mcp_call *call;

    if (!name || !mcp_tool_exists(name)) {
        refuse(context, MCP_ERROR_PARAMETERS, "There is no such tool; tools/list has them all.");
        return;
    }
    if (arguments && !json_object_is_type(arguments, json_type_object)) {
        refuse(context, MCP_ERROR_PARAMETERS, "The arguments must be an object.");
        return;
    }
    if (count_calls(server) >= CALLS_MAX) {
        refuse(context, MCP_ERROR_INTERNAL, "Too many calls are unanswered; wait for some.");
        return;
    }
    call = calloc(1, sizeof(*call));
    if (!call) {
        refuse(context, MCP_ERROR_INTERNAL, "Out of memory.");
        return;
    }
    token = json_object_object_get(context->meta, "progressToken");
    *call = (struct mcp_call){
        .server = server,
        .next = server->calls,
        .id = json_object_get(context->message->id),
        .batch = context->batch,
        .modern = context->modern,
        .knows_links = context->modern || strcmp(server->legacy, "2025-06-18") >= 0,
        .token = is_token(token) ? json_object_get(token) : NULL,
        .arguments = json_object_get(arguments),
        .begun_usec = clock_now(),
    };
    if (call->batch)
        call->batch->open++;
    server->calls = call;
    mcp_tool_call(call, name);
}

/* Whether the request may be answered at all; if not, it has been. */
static bool admit(struct request_context *context)
{
    json_object *params = context->message->params, *version = NULL;
    const char *method = context->message->method;
    bool has_version;

    context->meta = json_object_object_get(params, "_meta");
    if (!json_object_is_type(context->meta, json_type_object))
        context->meta = NULL;
    has_version = json_object_object_get_ex(context->meta, META "protocolVersion", &version);
    if (!has_version && strcmp(method, "server/discover") == 0) {
        refuse(context, MCP_ERROR_PARAMETERS,
               "_meta must have " META "protocolVersion and " META "clientCapabilities.");
        return false;
    }
    if (!has_version) {
        if (context->server->legacy || strcmp(method, "initialize") == 0 ||
            strcmp(method, "ping") == 0)
            return true;
        refuse(context, MCP_ERROR_REQUEST,
               "Begin with initialize, or have " META "protocolVersion in _meta.");
        return false;
    }
    const char *wanted = json_get_string(context->meta, META "protocolVersion");
    if (!wanted ||
        !json_object_is_type(json_object_object_get(context->meta, META "clientCapabilities"),
                             json_type_object)) {
        refuse(context, MCP_ERROR_PARAMETERS,
               "_meta must have " META "protocolVersion and " META "clientCapabilities.");
        return false;
    }
    if (strcmp(wanted, MODERN) != 0) {
        json_object *data = json_object_new_object();
        (void)json_add(data, "supported", modern_revisions());
        (void)json_add_string(data, "requested", wanted);
        answer_error(context->server, context->batch, context->message->id, MCP_ERROR_VERSION,
                     "Unsupported protocol version", data);
        return false;
    }
    context->modern = true;
    return true;
}

static void take_request(struct mcp_server *server, struct mcp_batch *batch,
                         const struct mcp_message *message)
{
    struct request_context context = { .server = server, .batch = batch, .message = message };
    const char *method = message->method;

    if (find_call(server, message->id)) {
        refuse(&context, MCP_ERROR_REQUEST, "A request with this id is not answered yet.");
        return;
    }
    if (!admit(&context))
        return;
    if (!context.modern && strcmp(method, "initialize") == 0)
        initialize(&context);
    else if (!context.modern && strcmp(method, "ping") == 0)
        reply(&context, json_object_new_object());
    else if (context.modern && strcmp(method, "server/discover") == 0)
        discover(&context);
    else if (strcmp(method, "tools/list") == 0)
        list_tools(&context);
    else if (strcmp(method, "tools/call") == 0)
        call_tool(&context);
    else
        refuse(&context, MCP_ERROR_METHOD, "There is no such method.");
}

/* An id that is not known any more, or never was, is no mistake: answers cross notifications. */
static void take_notification(struct mcp_server *server, const struct mcp_message *message)
{
    json_object *id = json_object_object_get(message->params, "requestId");
    struct mcp_call *call;

    if (strcmp(message->method, "notifications/cancelled") != 0 || !id)
        return;
    call = find_call(server, id);
    if (!call)
        return;
    struct mcp_run *run = call->ends_run ? call->run : NULL;
    call_free(call); /* without an answer */
    if (run)
        mcp_run_end(run);
}

static void take_message(struct mcp_server *server, struct mcp_batch *batch,
                         const struct mcp_message *message)
{
    switch (message->kind) {
    case MCP_REQUEST:
        take_request(server, batch, message);
        break;
    case MCP_NOTIFICATION:
        take_notification(server, message);
        break;
    case MCP_RESPONSE:
        break;
    case MCP_BATCH:
    case MCP_BAD:
        answer_error(server, batch, message->id, message->error, message->reason, NULL);
        break;
    }
}

/* Only one revision has batches. */
static void take_batch(struct mcp_server *server, json_object *items)
{
    struct mcp_batch *batch = NULL;

    if (!server->legacy || strcmp(server->legacy, "2025-03-26") != 0 ||
        json_object_array_length(items) == 0) {
        answer_error(server, NULL, NULL, MCP_ERROR_REQUEST, "A message is an object.", NULL);
        return;
    }
    batch = calloc(1, sizeof(*batch));
    if (!batch)
        return;
    *batch = (struct mcp_batch){ .open = 1, .answers = json_object_new_array() };
    for (size_t i = 0; i < json_object_array_length(items); i++) {
        _cleanup_(mcp_message_release) struct mcp_message message = {};
        mcp_message_read(json_object_array_get_idx(items, i), &message);
        take_message(server, batch, &message);
    }
    batch_unref(server, batch);
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

/* ---- Life ---- */

static void on_too_long(json_object *id, void *userdata)
{
    answer_error(userdata, NULL, id, MCP_ERROR_REQUEST,
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
        call_free(server->calls);
    mcp_stream_free(server->stream);
    json_object_put(server->tools);
    sd_event_unref(server->event);
    free(server);
    return NULL;
}
