/* From a line to a message, see mcp-message.h. */
#include "client/mcp-message.h"

#include <string.h>

static bool is_id(json_object *value)
{
    return json_object_is_type(value, json_type_string) ||
           json_object_is_type(value, json_type_int);
}

static void refuse(struct mcp_message *message, enum mcp_error error, const char *reason)
{
    message->kind = MCP_BAD;
    message->error = error;
    message->reason = reason;
}

/* What does not parse may be told whose it was all the same. */
static void refuse_text(struct mcp_message *message, const char *line, size_t size, int r)
{
    struct mcp_id_finder finder = {};

    mcp_id_finder_feed(&finder, line, size);
    message->id = mcp_id_finder_id(&finder);
    refuse(message, MCP_ERROR_PARSE,
           r == -ENOMEM  ? "Out of memory."
           : r == -E2BIG ? "The message has too many members."
                         : "The message is not strict JSON in UTF-8: each key once, no NUL or "
                           "half a surrogate pair, at most 32 levels.");
}

void mcp_message_read(json_object *object, struct mcp_message *ret)
{
    const char *version = json_get_string(object, "jsonrpc");
    json_object *id = NULL;
    bool has_id;

    *ret = (struct mcp_message){};
    if (!json_object_is_type(object, json_type_object)) {
        refuse(ret, MCP_ERROR_REQUEST, "A message is an object.");
        return;
    }
    has_id = json_object_object_get_ex(object, "id", &id);
    if (has_id && is_id(id))
        ret->id = json_object_get(id);
    ret->method = json_get_string(object, "method");
    ret->params = json_object_object_get(object, "params");

    if (!version || strcmp(version, "2.0") != 0)
        refuse(ret, MCP_ERROR_REQUEST, "The member jsonrpc must be \"2.0\".");
    else if (!ret->method && (json_object_object_get_ex(object, "result", NULL) ||
                              json_object_object_get_ex(object, "error", NULL)))
        ret->kind = MCP_RESPONSE;
    else if (!ret->method)
        refuse(ret, MCP_ERROR_REQUEST, "The member method must be a string.");
    else if (has_id && !ret->id)
        refuse(ret, MCP_ERROR_REQUEST, "The id must be a string or an integer.");
    else if (ret->params && !json_object_is_type(ret->params, json_type_object))
        refuse(ret, MCP_ERROR_PARAMETERS, "The member params must be an object.");
    else
        ret->kind = has_id ? MCP_REQUEST : MCP_NOTIFICATION;
}

void mcp_message_parse(const char *line, size_t size, struct mcp_message *ret)
{
    _cleanup_json_ json_object *object = NULL;

    *ret = (struct mcp_message){};
    while (size > 0 && strchr(" \t\r", *line) && *line) {
        line++;
        size--;
    }
    int r = json_parse_items(line, size, &object);
    if (r < 0) {
        refuse_text(ret, line, size, r);
        return;
    }
    if (*line == '[') {
        ret->kind = MCP_BATCH;
        ret->items = json_object_object_get(object, "items");
    } else {
        mcp_message_read(object, ret);
    }
    ret->object = TAKE_PTR(object);
}

void mcp_message_release(struct mcp_message *message)
{
    json_object_put(message->id);
    json_object_put(message->object);
    *message = (struct mcp_message){};
}
