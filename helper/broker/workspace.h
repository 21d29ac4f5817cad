/* What an engine hands over as a run's workspace. Called once per sandbox; never changes it. */
#pragma once

/* The store copies what lies in a workspace to a user, and may read every file: so the wrong
 * directory, by an engine's mistake, would give away the machine's own files. Returns 0 for a
 * directory on a tmpfs that belongs to a sandbox; -ENOTDIR; -EXDEV for one of the machine's own
 * file systems; or another negative errno. */
int workspace_check(int fd);
