/* Tool read_output: a part of what a run has written or made. Called by mcp-tools.c. */
#pragma once

#include "client/mcp-server.h"

/* Takes the call over. */
void mcp_read_output(struct mcp_call *call);
