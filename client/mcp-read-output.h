/* Tool read_output: a part of what a run has written or made. Called by mcp-tools.c. */
#pragma once

#include "client/mcp-server.h"

/* Takes the call over. */
void mcp_read_output(struct mcp_call *call);

/* Of @size bytes of text, how many to give: a character that the end of the part cuts is left for
 * the next one, unless nothing came before it. */
size_t mcp_whole_characters(const char *data, size_t size, bool is_end);
