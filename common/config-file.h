/* One INI file of the administrator's: who may have written it, and its lines. The syntax is
 * inih's; what a key means is the caller's affair. Called by the programs that are configured. */
#pragma once

#include <stdbool.h>
#include <sys/stat.h>

/* Returns 0; -ENOENT for a key that is unknown, -ERANGE, or another negative errno for a value that
 * cannot be read. */
typedef int (*config_file_fn)(void *userdata, const char *section, const char *key,
                              const char *value);

/* Whether a file or directory belongs to root, or to us, and nobody else may write to it. */
bool config_file_is_trusted(const struct stat *st);

/* Reads a whole file, of at most 64 KiB. Returns 0, -ENOENT if there is none, or another negative
 * errno with a sentence that names file and line in @ret_error, to be freed. */
int config_file_load(const char *path, config_file_fn fn, void *userdata, char **ret_error);

/* Makes such a sentence, and returns @error. */
int config_file_fail(char **ret_error, int error, const char *path, const char *why);

/* Puts a copy of a value in the place of @target's, which is freed, if it is @valid. Returns 0,
 * -EINVAL or -ENOMEM. */
int config_file_replace(char **target, const char *value, bool valid);
