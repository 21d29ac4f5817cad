/* The run's workspace on this machine: a tmpfs of its own, of the run's size, that no path leads to
 * and that is gone with the last descriptor of it. Called by sandbox.c. */
#pragma once

#include <stdint.h>

/* Returns the directory's descriptor, or a negative errno: -EPERM where nobody but root may have a
 * user namespace. */
int workspace_make(uint64_t bytes, uint32_t inodes);
