/* What each key of sbxctl.conf means, and what holds without it. Called by config.c. */
#pragma once

#include "broker/config.h"

/* What holds if nothing is said. Returns 0 or a negative errno; to be released. */
int config_set_built_in(struct config *ret);
/* Sets one key; a config_file_fn of config_file_load() for a struct config. Returns 0; -ENOENT for
 * a key that there is not, -EINVAL or -ERANGE for a value that does not fit it, or another negative
 * errno. */
int config_set_key(void *userdata, const char *section, const char *name, const char *value);
