/* Reading and writing whole, holes, and paths that stay below where they begin. Called by all
 * programs, the launcher too; never opens anything and never allocates. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Write all @size bytes, at the file's position or at @offset. Return 0 or a negative errno; then
 * some of it may be written. For descriptors that block. */
int write_all(int fd, const void *data, size_t size);
int pwrite_all(int fd, const void *data, size_t size, off_t offset);

/* Reads up to @size bytes from @offset on. Returns how many there were, fewer than @size only at
 * the end of the file, or a negative errno. */
ssize_t pread_full(int fd, void *data, size_t size, off_t offset);

/* Finds the next data at or after @offset in the first @size bytes of the file: from @ret_start to
 * before @ret_end. Where the file system knows no holes all of it is data. Returns false if only a
 * hole is left. Moves the file's position. */
bool file_next_data(int fd, off_t offset, off_t size, off_t *ret_start, off_t *ret_end);

/* Whether @path is relative and each of its components is a name: none of them empty, "." or "..",
 * or longer than NAME_MAX. */
bool path_is_plain(const char *path);
