/* How much lies in each of a user's published runs. Called by the store's jobs. */
#pragma once

#include <sys/types.h>

#include "common/json.h"

/* The result is { "runs": { "<id>": { "bytes", "files" } } }, of directories of the user's that
 * have a run's id for a name. Where there is too much to count, it is not all counted. Returns 0 or
 * a negative errno: -ENOENT, the user has nothing here. */
int survey_user(int state, uid_t uid, json_object **ret);
