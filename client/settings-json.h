/* Adds a member to somebody else's JSON file without touching the rest of it: comments, order,
 * white space and trailing commas (as editors allow them) stay as they are. Called by
 * mcp-install.c. Pure. */
#pragma once

#include <stddef.h>

/* Puts @value (JSON, of one line) into @text as the member @name of the object that is the member
 * @group of the outermost object; that is made if it is missing, and an empty text is taken for an
 * empty object. Returns 1 with a new text in @ret, 0 if it is there already,
 * maybe with more in it, -EBADMSG if the text
 * is no such JSON, -EEXIST if the member is there and is another, -ENOTUNIQ if a name is there
 * twice, or -ENOMEM. */
int settings_json_add(const char *text, size_t size, const char *group, const char *name,
                      const char *value, char **ret);
