/* Opening a kept file of a published run. Called by an open job of the store. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

/* Opens "stdout", "stderr", "script", "run.json" or "files/NAME" (NAME escaped) of users/<uid>/<id>
 * for reading. Returns a blocking read-only fd and the file's length, or a negative errno: -EINVAL
 * for any other name, -ENOENT if there is no such file, -EPERM if what is there is not a regular
 * file of that user (a planted link, a FIFO). */
int open_kept_file(int state, uid_t uid, const char *run_id, const char *name, uint64_t *ret_size);
