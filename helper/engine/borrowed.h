/* Directories of the machine that one sandbox sees bound into itself, read-only: a layer of its
 * owner's packages, or the administrator's index of wheels. Called by the engines of this machine,
 * which ask others to mount; nothing here opens what is in them. */
#pragma once

#include "engine/protocol.h"

/* Where the broker's store keeps them, see broker/store-layer.h. */
#define BORROWED_LAYERS "/var/lib/sbxctl/layers"
#define BORROWED_SOURCE_MAX (sizeof(BORROWED_LAYERS "/4294967295//tree") + ENGINE_LAYER_LENGTH)
#define BORROWED_WHEELS_TARGET "/wheels"

/* Where the start's layer lies on this machine. The caller has seen that there is one. */
void borrowed_layer_source(const struct engine_start *start, char ret[BORROWED_SOURCE_MAX]);

/* What to say when the check fails: the path, and strerror(). */
#define BORROWED_WHEELS_ERROR                                                                    \
    "The index of packages %.300s cannot be used (%s). It has to be a directory of root's, and " \
    "so "                                                                                        \
    "do all above it, with no link among them and nobody else allowed to write."

/* Sees to it that @path is a directory of root's that only root could replace: no link on the way,
 * and nothing that others may write to. Returns 0 or a negative errno: -EPERM, -ENOTDIR, -ENOENT, …
 */
int borrowed_check_wheels(const char *path);
