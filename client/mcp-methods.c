/* Methods of both eras, see mcp-methods.h. */
#include "client/mcp-methods.h"

#include <stdlib.h>
#include <string.h>

#include "client/mcp-answer.h"
#include "client/mcp-tools.h"
#include "common/clock.h"

#define MODERN "2026-07-28"
/* What may be kept of our lists (caching): they change with the program only. */
#define LIST_TTL_MSEC (60 * 60 * 1000)
#define CALLS_MAX 1000

/* Newest first, as initialize offers them. */
static const char *const legacy_revisions[] = { "2025-11-25", "2025-06-18", "2025-03-26",
                                                "2024-11-05" };

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
    mcp_answer_error(context->server, context->batch, context->message->id, error, reason, NULL);
}

static void reply(const struct request_context *context, json_object *result)
{
    mcp_answer_result(context->server, context->batch, context->message->id, context->modern,
                      result);
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
    (void)json_add(result, "serverInfo", mcp_implementation());
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

static unsigned count_calls(const struct mcp_server *server)
{
    unsigned n = 0;

    for (const struct mcp_call *call = server->calls; call; call = call->next)
        n++;
    return n;
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
    has_version = json_object_object_get_ex(context->meta, MCP_META "protocolVersion", &version);
    if (!has_version && strcmp(method, "server/discover") == 0) {
        refuse(context, MCP_ERROR_PARAMETERS,
               "_meta must have " MCP_META "protocolVersion and " MCP_META "clientCapabilities.");
        return false;
    }
    if (!has_version) {
        if (context->server->legacy || strcmp(method, "initialize") == 0 ||
            strcmp(method, "ping") == 0)
            return true;
        refuse(context, MCP_ERROR_REQUEST,
               "Begin with initialize, or have " MCP_META "protocolVersion in _meta.");
        return false;
    }
    const char *wanted = json_get_string(context->meta, MCP_META "protocolVersion");
    if (!wanted ||
        !json_object_is_type(json_object_object_get(context->meta, MCP_META "clientCapabilities"),
                             json_type_object)) {
        refuse(context, MCP_ERROR_PARAMETERS,
               "_meta must have " MCP_META "protocolVersion and " MCP_META "clientCapabilities.");
        return false;
    }
    if (strcmp(wanted, MODERN) != 0) {
        json_object *data = json_object_new_object();
        (void)json_add(data, "supported", modern_revisions());
        (void)json_add_string(data, "requested", wanted);
        mcp_answer_error(context->server, context->batch, context->message->id, MCP_ERROR_VERSION,
                         "Unsupported protocol version", data);
        return false;
    }
    context->modern = true;
    return true;
}

void mcp_take_request(struct mcp_server *server, struct mcp_batch *batch,
                      const struct mcp_message *message)
{
    struct request_context context = { .server = server, .batch = batch, .message = message };
    const char *method = message->method;

    if (mcp_call_find(server, message->id)) {
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
