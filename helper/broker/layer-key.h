/* The form of a layer's key. Everything that makes a file name of one checks it first. */
#pragma once

#include <stdbool.h>
#include <string.h>

#define LAYER_KEY_LENGTH 64

/* True for 64 lower-case hex digits; so never ".", "..", empty or with a slash. */
static inline bool layer_key_valid(const char *key)
{
    return key && strspn(key, "0123456789abcdef") == LAYER_KEY_LENGTH &&
           key[LAYER_KEY_LENGTH] == '\0';
}
