/* Removing a tree that its owner may change meanwhile. Called by the store's jobs. */
#pragma once

#include <sys/types.h>

#include "common/json.h"

/* The deepest tree that is removed; one fd is open per level. What is collected is never deeper
 * than a third. */
#define REMOVE_DEPTH_MAX 200
#define REMOVE_ANY_OWNER ((uid_t)-1)

/* Removes @name from the directory @parent with everything below it, through directory fds only: no
 * link is followed, no mount entered. Only directories that belong to @owner are emptied, so the
 * store removes nothing that the owner could not have removed too (a caller may move a foreign
 * folder in). What cannot be removed does not keep the rest. Returns 0; -ENOENT if there is no
 * @name; else the first failure as a negative errno, with "reason" and "name" in a new object
 * @ret_result (NULL out of memory): -ENAMETOOLONG for a tree that is too deep, -EPERM for a foreign
 * folder, -EBUSY for a mount, -ENOTEMPTY if someone fills it as fast as it is emptied. */
int remove_tree(int parent, const char *name, uid_t owner, json_object **ret_result);
/* The same for what is the store's own, of which nobody is told. */
int remove_leftover(int parent, const char *name);
