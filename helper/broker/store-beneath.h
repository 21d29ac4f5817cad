/* The store's only door into trees that others can change: every open below a directory fd goes
 * through here and cannot leave it, by a link, a mount or "..". Called by the store's jobs. */
#pragma once

#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

/* openat2(2) of @path below @dirfd with RESOLVE_BENEATH, NO_SYMLINKS, NO_MAGICLINKS and NO_XDEV
 * (Linux 5.6), never blocking, never taking a terminal. Returns an O_CLOEXEC fd or a negative
 * errno: -ELOOP for a link on the way (with O_PATH | O_NOFOLLOW a final link itself is opened),
 * -EXDEV for what lies outside or on another mount, -EAGAIN if the owner holds a lease on the file.
 */
int beneath_open(int dirfd, const char *path, int flags);
/* The directory @path, for reading its entries. */
int beneath_open_directory(int dirfd, const char *path);
/* Makes the directory @name, closed to others, and opens it. Returns an fd or a negative errno:
 * -EEXIST if there is something. */
int beneath_make_directory(int dirfd, const char *name);

/* Looks at @path without opening it for good, so no FIFO, device or lease takes notice. Returns 0
 * or as above. */
int beneath_stat(int dirfd, const char *path, struct stat *ret);
/* The same of @name, an entry of the directory itself, by one system call instead of three. Only
 * where nobody can mount anything: a mount shows when the entry is opened, and who serves it could
 * let this wait (fuse(4)). */
int beneath_stat_entry(int dirfd, const char *name, struct stat *ret);

/* Opens the file or directory that @expected was taken of by one of these. Returns an fd with its
 * fresh stat in @ret, or a negative errno as above: -ESTALE if something else stands there now. */
int beneath_open_same(int dirfd, const char *path, const struct stat *expected, struct stat *ret);

/* Opens users/<uid> below @state. Returns an fd, -ENOENT if it does not exist, -EPERM if it is not
 * a directory of that user. */
int beneath_open_user(int state, uid_t uid);
