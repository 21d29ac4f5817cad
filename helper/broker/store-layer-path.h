/* Where layers are. Called by the files that make, list and remove them. */
#pragma once

#include <sys/types.h>

#include "broker/layer-key.h"

#define LAYERS "layers"
#define LAYER_FACTS "layer.json"
/* A key, and ".new" while it is made or ".old" while it is removed. */
#define LAYER_NAME_MAX (LAYER_KEY_LENGTH + sizeof(".new"))

/* Opens layers/<uid>. Returns an fd or a negative errno: -ENOENT if the user has none. */
int layer_open_user(int state, uid_t uid);
/* The same; it is made when it is missing. */
int layer_make_user(int state, uid_t uid);
