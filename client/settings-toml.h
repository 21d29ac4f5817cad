/* Adds a table to somebody else's TOML file, at its end, where it changes nothing of what is there
 * (toml.io/en/v1.0.0, "Table"). Called by mcp-install.c. Pure. */
#pragma once

#include <stddef.h>

/* Adds the table [@group.@name] with the lines @body. Returns 1 with a new text in @ret, 0 if the
 * very same is there already, -EEXIST if there is something that may be that table or its group
 * in a form that a table cannot be added to, -EBADMSG for what is no text, or -ENOMEM. */
int settings_toml_add(const char *text, size_t size, const char *group, const char *name,
                      const char *body, char **ret);
