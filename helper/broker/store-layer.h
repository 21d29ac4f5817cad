/* Layers: packages that were installed in one sandbox and are lent, read-only, to others of the
 * same user. Called by the store's jobs; see store.h for what comes in and goes out.
 *
 *   layers/<uid>/<key>/tree/       regular files (0644, 0755) and folders (0755) only
 *   layers/<uid>/<key>/layer.json  what it is; its modification time is the last use
 *
 * All of it is ours. layers/ is closed, so that nobody but those who mount it gets at a tree. A
 * layer comes into being by one rename and goes by one; what has any other name than a key is left
 * from a crash. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/json.h"

#define LAYER_DEPTH_MAX 64 /* folders below each other */
#define LAYER_FACTS_MAX (1024 * 1024)
/* So that all fit in one answer; the broker keeps far fewer of each user. */
#define LAYERS_LISTED_MAX 8000
#define LAYERS_LISTED_USER_MAX 256

struct layer_source {
    int workspace;      /* directory fd */
    const char *folder; /* of the workspace, that becomes the tree: one name */
    uint64_t files_max; /* folders count, too */
    uint64_t bytes_max;
};

/* Copies the folder and makes the layer of it, synced. Links, FIFOs, sockets and devices are left
 * out. @facts are the members of layer.json that the broker gives. @job is the job's socket, see
 * collect_workspace(). Returns 0, or a negative errno: -EFBIG if it breaks a limit, -EEXIST if
 * there is such a layer. @ret_result is a new object: { "bytes", "files", "entries" (files and
 * folders), "skipped" }, or with -EFBIG { "reason" }; else NULL. */
int layer_install(int state, uid_t uid, const char *key, const struct layer_source *source,
                  json_object *facts, int job, json_object **ret_result);

/* Removes one. Returns 0, -ENOENT, or another negative errno with what remove_tree() says. */
int layer_remove(int state, uid_t uid, const char *key, json_object **ret_result);

/* Marks it as used now and reads its layer.json, with "usedUSec". The broker calls it itself, since
 * it has to wait for the answer. Returns 0; -ENOENT; -EBADMSG if it is broken. */
int layer_use(int state, uid_t uid, const char *key, json_object **ret_layer);

/* All layers of all users, after what crashes left was removed. Not while anything is installed.
 * Returns 0 or a negative errno. */
int layer_load(int state, json_object **ret_result);

/* The layers of @uid. */
int layer_list(int state, uid_t uid, json_object **ret_result);
