/* Pictures among files that a run made. Called by figures.c and mcp-image.c. A name may be a lie,
 * so a file is looked at: only formats that hold a picture and nothing that runs, which rules out
 * SVG and HTML. */
#pragma once

#include <stddef.h>

/* Reads the regular file @fd, of at most @max bytes. Returns 0 with its content in @ret (to be
 * freed), the number of its bytes in @ret_size and its type (static) in @ret_type; -EFBIG, -EBADMSG
 * for what is no image (PNG, JPEG, GIF, WebP), or another negative errno. */
int image_read(int fd, size_t max, char **ret, size_t *ret_size, const char **ret_type);
