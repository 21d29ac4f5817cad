/* The tools and what is said about them, from mcp-tools.json. Called by mcp-server.c. */
#pragma once

#include <stdbool.h>

#include "client/mcp-server.h"

/* What a client may tell its model about all of them together. */
extern const char mcp_instructions[];

/* A new array of type Tool, or NULL. */
json_object *mcp_tools_list(void);

bool mcp_tool_exists(const char *name);
/* Takes the call over. */
void mcp_tool_call(struct mcp_call *call, const char *name);
