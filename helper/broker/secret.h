/* Whether a text seems to hold a credential: by the formats that the issuers of keys gave them so
 * that they can be found. Pure; called for scripts and arguments before they run or are recorded.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct secret {
    const char *what; /* "a GitHub token" */
    size_t offset, size;
    unsigned line; /* from 1 */
};

/* Finds the first credential in @text. What documents use as an example, and what consists of few
 * letters, is none. */
bool secret_find(const char *text, size_t size, struct secret *ret);

/* A copy of @text with "[...]" for each credential; NULL out of memory. */
char *secret_mask(const char *text);
