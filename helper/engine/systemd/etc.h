/* The /etc of the sandboxes: the skeleton's own few files, and copies of the host's that programs
 * expect. Made once, and again whenever one of the originals has changed; a bind mount for each of
 * them instead would cost every sandbox 1 ms apiece (measured: 18 of 58 ms). Called by sandbox.c;
 * copies only what anybody may read. */
#pragma once

#define ETC_PATH_MAX 128

/* Leaves the path of an up to date copy in @ret, making it if need be. It stays until the service
 * stops, as sandboxes may have it mounted. Returns 0 or a negative errno. */
int etc_get(char ret[ETC_PATH_MAX]);
