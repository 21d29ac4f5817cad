/* Images: what a reference means on this machine, and getting what is missing. Called by
 * sandbox-image.c. */
#pragma once

#include "api.h"

struct image {
    char id[ENGINE_TEXT_MAX + 1];    /* "sha256:...", what runs */
    char layer[ENGINE_TEXT_MAX + 1]; /* where its topmost layer lies; empty: the daemon tells not */
    char digest[ENGINE_TEXT_MAX + 1]; /* of the registry, or the id if it came from none */
};

/* Finds the image on this machine. Returns 0, or a negative errno with a sentence in the api's
 * error: -ENOENT if it is missing, -EPERM if it is one that we do not run. */
int image_find(struct api *api, const char *reference, struct image *ret);

/* Bytes over all layers, as far as the daemon knows by now. Returns whether to go on. */
typedef bool (*image_progress_fn)(uint64_t current, uint64_t total, void *userdata);

/* Pulls it, because it is missing or, with @newest, in any case; the daemon joins equal pulls.
 * @progress is called for what happens, and also once a second, for @userdata's sake, without a
 * change. Returns 0, -ECANCELED, or a negative errno with a sentence in the api's error. */
int image_pull(struct api *api, const char *reference, bool newest, uint64_t timeout_usec,
               image_progress_fn progress, void *userdata);
