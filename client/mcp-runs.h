/* The tools that look at runs, of this server or not: each asks the helper. All take the call over.
 * Called by mcp-tools.c. */
#pragma once

#include "client/mcp-server.h"

void mcp_get_run(struct mcp_call *call);
void mcp_cancel_run(struct mcp_call *call);
void mcp_list_runs(struct mcp_call *call);
