/* The methods of both eras. Called by mcp-server.c. */
#pragma once

#include "client/mcp-server.h"

#define MCP_META "io.modelcontextprotocol/"

/* Answers a request, or has it answered by its tool. @batch may be NULL. */
void mcp_take_request(struct mcp_server *server, struct mcp_batch *batch,
                      const struct mcp_message *message);
