/* A question to the helper on behalf of a call of a tool. Called by mcp-runs.c and
 * mcp-read-output.c. */
#pragma once

#include "client/mcp-server.h"

/* Takes the call over: answers it, waits for something else, or asks again. */
typedef void (*mcp_query_fn)(struct mcp_call *call, json_object *parameters);

/* Asks @method; @parameters are consumed. @fn gets the answer, unless it is an error or there is
 * none, which answers the call. */
void mcp_query(struct mcp_call *call, const char *method, json_object *parameters, mcp_query_fn fn);

/* Answers the call with the failure that has been told. */
void mcp_query_fail(struct mcp_call *call);
