/* Base64 as protojson, notebooks and our own helper write it: padded or not, of either alphabet.
 * Pure. */
#pragma once

#include <stddef.h>

/* Decodes in place. Returns 0 with the number of bytes, or -EBADMSG. White space is skipped. */
int base64_decode(char *text, size_t size, size_t *ret);

/* Encodes with padding, as a new string; NULL out of memory. */
char *base64_encode(const void *data, size_t size);
