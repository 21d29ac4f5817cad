/* Output files as content for a model. Called by mcp-result.c. What a file is named may be a lie,
 * so an image is looked at: assistants fail as a whole with one that is none. */
#pragma once

#include <stddef.h>

#define MCP_IMAGE_MAX (1024 * 1024)

/* Reads the image at @path, of at most @max bytes. Returns 0 with new base64 in @ret and its type
 * (static) in @ret_type and its size in @ret_size; -EFBIG, -EBADMSG for what is no image (PNG,
 * JPEG, GIF, WebP), or another negative errno. No link is followed in the last part of the path. */
int mcp_image_read(const char *path, size_t max, char **ret, const char **ret_type,
                   size_t *ret_size);

/* A new URI "file://...", or NULL out of memory. */
char *mcp_file_uri(const char *path);
