/* The key of a layer: its form, which everything that makes a file name of one checks first, and
 * what it is made of. Pure but for layer_interpreter(). */
#pragma once

#include <stdbool.h>
#include <string.h>

#include "broker/package.h"

#define LAYER_KEY_LENGTH 64

/* True for 64 lower-case hex digits; so never ".", "..", empty or with a slash. */
static inline bool layer_key_valid(const char *key)
{
    return key && strspn(key, "0123456789abcdef") == LAYER_KEY_LENGTH &&
           key[LAYER_KEY_LENGTH] == '\0';
}

/* Two runs with the same of all these can share a layer. */
struct layer_parts {
    enum ecosystem ecosystem;
    const char *engine;
    const char *system; /* digest of the image; else which interpreter this machine has */
    const char *index;
    bool only_binary, require_hashes;
    const struct package *packages; /* sorted by their text */
    size_t n_packages;
};

/* Returns 0 or -EIO. */
int layer_key_make(const struct layer_parts *parts, char ret[LAYER_KEY_LENGTH + 1]);

/* Which program @name is on this machine: "/usr/bin/python3.13" where the path has the version,
 * else with the file's size and time, which another version has not: "/usr/bin/node 98304 1743434".
 * Looks below @root. Returns 0 with a string to be freed, or a negative errno. */
int layer_interpreter(const char *root, const char *name, char **ret);
