/* What the readers of requirements share; for package*.c only. Each skip function takes the text
 * behind what it knows, or gives NULL. */
#pragma once

#include "broker/package.h"
#include "common/cleanup.h"

#define LOWER "abcdefghijklmnopqrstuvwxyz"
#define UPPER "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS "0123456789"
#define ALNUM LOWER UPPER DIGITS
#define SPACE " \t"

/* package.c */
const char *package_skip_space(const char *at);
/* Appends @more at @*at, which stays before @end. Returns false if there is no room. */
bool package_append(char **at, const char *end, const char *more);
/* pip and npm take what ends like an archive for a file, also behind a version
 * (pip._internal.utils.filetypes, npm-package-arg). */
bool package_is_archive(const char *text, size_t n);

/* package-python.c */
const char *package_skip_python_name(const char *at, char ret[PACKAGE_NAME_MAX + 1]);
/* Returns 0, -EINVAL or -ENOMEM; the hashes are to be released either way. */
int package_parse_python(const char *text, struct package *ret);

/* package-node.c */
const char *package_skip_node_name(const char *at, char ret[PACKAGE_NAME_MAX + 1]);
/* Returns 0 or -EINVAL. */
int package_parse_node(const char *text, struct package *ret);
