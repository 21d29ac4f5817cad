/* JSON-RPC messages of an MCP client, from a line to a struct, and the id of a line that is no such
 * message, so that whoever waits for an answer gets one. Called by mcp-server.c; knows no method.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/json.h"

/* Of one line; more than any script and its small inputs take. */
#define MCP_MESSAGE_MAX (16 * 1024 * 1024)

/* https://www.jsonrpc.org/specification, section 5.1 */
enum mcp_error {
    MCP_ERROR_PARSE = -32700,
    MCP_ERROR_REQUEST = -32600,
    MCP_ERROR_METHOD = -32601,
    MCP_ERROR_PARAMETERS = -32602,
    MCP_ERROR_INTERNAL = -32603,
    MCP_ERROR_VERSION = -32022, /* MCP 2026-07-28, basic/index, "Error Codes" */
};

enum mcp_kind {
    MCP_REQUEST,
    MCP_NOTIFICATION,
    MCP_RESPONSE, /* to what we never asked */
    MCP_BATCH,    /* @items has its messages */
    MCP_BAD,      /* @error and @reason say why; @id is what an answer may name, or NULL */
};

struct mcp_message {
    json_object *object; /* all that is borrowed below belongs to it, but @id of a bad message */
    enum mcp_kind kind;
    json_object *id; /* a string or an integer, owned */
    const char *method;
    json_object *params; /* an object, or NULL */
    json_object *items;  /* an array */
    enum mcp_error error;
    const char *reason; /* static */
};

/* Never fails: what is wrong with the line is in the message, which is to be released. */
void mcp_message_parse(const char *line, size_t size, struct mcp_message *ret);
/* The same of one message of a batch, which stays the batch's. */
void mcp_message_read(json_object *object, struct mcp_message *ret);
void mcp_message_release(struct mcp_message *message);

/* Finds the member "id" of an object that comes in pieces and need not be JSON to its end. Memory
 * is the struct's. */
#define MCP_ID_MAX 256
struct mcp_id_finder {
    unsigned depth;
    bool in_string, is_escaped;
    bool is_key, is_value; /* a string that may be "id"; its value */
    bool found, is_ambiguous;
    char text[MCP_ID_MAX], found_text[MCP_ID_MAX];
    size_t n;
};
void mcp_id_finder_feed(struct mcp_id_finder *finder, const char *data, size_t size);
/* A new string or integer, or NULL: there is none, there are several, or it is too long. */
json_object *mcp_id_finder_id(const struct mcp_id_finder *finder);
