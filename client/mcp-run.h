/* Runs of this server, each with its own connection to the helper, which the run lives by. */
#pragma once

#include "client/mcp-server.h"

/* A call is answered before this many seconds, with or without the end of what it waits for: many
 * clients give up at 60. */
#define MCP_WAIT_MAX 45

/* Tool run_code. Takes the call over. */
void mcp_run_code(struct mcp_call *call);

/* The run with that id; NULL if it is not this server's, or has ended. */
struct mcp_run *mcp_run_find(struct mcp_server *server, const char *id);
/* Has the call wait for the end of the run, for call->wait_usec; then it is answered with how the
 * run stands. */
void mcp_run_wait(struct mcp_run *run, struct mcp_call *call);
/* Ends the run, by its connection. Calls that wait for it are told. */
void mcp_run_end(struct mcp_run *run);
/* The same, and nobody is told. */
void mcp_run_free(struct mcp_run *run);
