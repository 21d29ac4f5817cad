/* Output files as content for a model. Called by mcp-result.c. Assistants fail as a whole with an
 * image that is none. */
#pragma once

#include <stddef.h>

#define MCP_IMAGE_MAX (1024 * 1024)

/* Reads the image at @path, of at most @max bytes. Returns 0 with new base64 in @ret and its type
 * (static) in @ret_type and its size in @ret_size, or a negative errno of open(2) or image_read().
 * No link is followed in the last part of the path. */
int mcp_image_read(const char *path, size_t max, char **ret, const char **ret_type,
                   size_t *ret_size);

/* A new URI "file://...", or NULL out of memory. */
char *mcp_file_uri(const char *path);
