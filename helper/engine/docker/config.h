/* The engine's own small configuration, /etc/sbxctl/engine-docker.conf. Read once, at start. */
#pragma once

#include <stdint.h>

struct config {
    char *socket;
    char *runtime; /* NULL: the daemon's default */
    uint64_t pull_timeout_usec;
};

/* The built-in values, and what the file @path has, if there is one. Returns 0, or a negative errno
 * with a sentence in @ret_error, to be freed. */
int config_load(const char *path, struct config *ret, char **ret_error);
void config_release(struct config *config);
