/* The form of a run's id. Everything that makes a file name of one checks it first. */
#pragma once

#include <stdbool.h>
#include <string.h>

#define RUN_ID_LENGTH_MIN 8
#define RUN_ID_LENGTH_MAX 32

/* True for 8 to 32 lower-case hex digits; so never ".", "..", empty or with a slash. */
static inline bool run_id_valid(const char *id)
{
    size_t n = id ? strspn(id, "0123456789abcdef") : 0;

    return n >= RUN_ID_LENGTH_MIN && n <= RUN_ID_LENGTH_MAX && id[n] == '\0';
}
