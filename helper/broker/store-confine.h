/* What the store process may still do, and everything else taken away. Called once, at the start of
 * that process, and once more by each job. */
#pragma once

#include <stddef.h>
#include <sys/types.h>

/* Closes every fd from 3 on that is not in @keep. Returns 0 or a negative errno. */
int confine_fds(const int *keep, size_t n_keep);

/* Dies with the process @parent from here on. Returns 0 or a negative errno: -ESRCH if that is gone
 * already. */
int confine_to_parent(pid_t parent);

/* Keeps of the capabilities at most CAP_CHOWN, CAP_DAC_OVERRIDE and CAP_FOWNER (fewer, if fewer
 * were given; then what needs the others fails later, with EPERM), forbids new ones, and allows no
 * system call but those for files, children and the sockets that are there. Not undone by anything.
 * Returns 0 or a negative errno. */
int confine_self(void);
