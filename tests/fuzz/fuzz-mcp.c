/* A line of an MCP client. What is taken for a message is one, and an answer can name its id; the
 * id of what is none is found the same in two pieces as in one. */
#include "client/mcp-message.h"

#include <string.h>

#include "check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_message(const struct mcp_message *message)
{
    check(!message->id || json_object_is_type(message->id, json_type_string) ||
          json_object_is_type(message->id, json_type_int));
    switch (message->kind) {
    case MCP_REQUEST:
        check(message->id && message->method);
        check(!message->params || json_object_is_type(message->params, json_type_object));
        break;
    case MCP_NOTIFICATION:
        check(!message->id && message->method);
        break;
    case MCP_RESPONSE:
        check(!message->method);
        break;
    case MCP_BATCH:
        check(json_object_is_type(message->items, json_type_array));
        break;
    case MCP_BAD:
        check(message->reason && message->error < 0);
        break;
    }
}

static void check_items(json_object *items)
{
    for (size_t i = 0; i < json_object_array_length(items); i++) {
        _cleanup_(mcp_message_release) struct mcp_message message = {};
        mcp_message_read(json_object_array_get_idx(items, i), &message);
        check(message.kind != MCP_BATCH);
        check_message(&message);
    }
}

static void check_pieces(const char *data, size_t size)
{
    struct mcp_id_finder whole = {}, parts = {};
    size_t half = size / 2;

    mcp_id_finder_feed(&whole, data, size);
    mcp_id_finder_feed(&parts, data, half);
    mcp_id_finder_feed(&parts, data + half, size - half);
    _cleanup_json_ json_object *one = mcp_id_finder_id(&whole), *two = mcp_id_finder_id(&parts);
    check(json_object_equal(one, two));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    _cleanup_(mcp_message_release) struct mcp_message message = {};

    mcp_message_parse((const char *)data, size, &message);
    check_message(&message);
    if (message.kind == MCP_BATCH)
        check_items(message.items);
    check_pieces((const char *)data, size);
    return 0;
}
