/* sbxctl mcp install: tells an assistant's configuration of the server. Called by mcp.c. Never
 * loses what is in the file: what cannot be changed safely is left alone, and the piece to add is
 * shown. */
#pragma once

#include <stdbool.h>

/* The clients there are, for people. */
extern const char mcp_install_clients[];

bool mcp_install_knows(const char *client);
/* Adds the server to the configuration of @client, which is known; or only prints what the file
 * would be. Returns the exit status. */
int mcp_install(const char *client, bool print);
