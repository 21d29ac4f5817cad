/* Base64: read as protojson, notebooks and assistants write it, padded or not, of either alphabet;
 * written padded, of the first alphabet (RFC 4648, section 4). Pure. */
#pragma once

#include <stddef.h>

/* Decodes in place. Returns 0 with the number of bytes, or -EBADMSG. White space is skipped. */
int base64_decode(char *text, size_t size, size_t *ret);

/* Returns a new NUL-terminated string with its length in @ret_size (may be NULL), or NULL out of
 * memory. */
char *base64_encode(const void *data, size_t size, size_t *ret_size);
