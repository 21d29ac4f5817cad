/* A frozen request on its way to the next broker: as JSON, and its files as descriptors beside it.
 * What comes back is what went, or nothing. Called by run-stored.c and run-restore-*.c. */
#pragma once

#include "broker/request.h"

/* All but the descriptors; those of files are told by their inode. A new reference, or NULL out of
 * memory. */
json_object *request_freeze(const struct request *request);
/* The descriptors, borrowed, to go beside it; @ret has room for VARLINK_FDS_MAX. Returns how many
 * there are. */
size_t request_fds(const struct request *request, int ret[VARLINK_FDS_MAX]);
/* The opposite, without descriptors: they are -1. Returns 0 or a negative errno: -EBADMSG for what
 * request_freeze() did not make. */
int request_thaw(json_object *object, struct request *ret);
/* Gives the request those of @fds that are its own, each sealed as it was; they are taken, the
 * others stay. Returns 0, or -ENOENT if one is not there. */
int request_thaw_fds(json_object *object, struct request *request, int *fds, size_t n);
