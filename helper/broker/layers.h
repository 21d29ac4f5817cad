/* The layers of all users: which there are, which are in use, and which are being built. A run
 * claims the one it needs; it is found, or installed, once for all that wait for it. Called by
 * run-packages.c and layers-reply.c. */
#pragma once

#include "broker/install.h"
#include "broker/layer-key.h"

struct layers;
struct layer_claim;

/* What becomes of a claim. */
struct layer_result {
    const struct install_failure *failure; /* NULL: there is a layer */
    bool engine_failed;
    const char *key; /* NULL if not even that could be told */
    const char *image_digest;
    json_object *facts;    /* layer.json; borrowed; NULL with a failure */
    json_object *resolved; /* as far as it came; borrowed; may be NULL */
    bool installed;        /* it was not there before, but installed for this claim or another's */
    uint64_t usec;         /* that it took */
};

struct layer_callbacks {
    void (*progress)(const struct install_progress *progress, void *userdata);
    /* Exactly once, from the event loop, unless the claim is given up first; may do that. */
    void (*done)(const struct layer_result *result, void *userdata);
    void *userdata;
};

/* Removes what crashes left half made, in the background. Returns 0 or a negative errno. */
int layers_new(struct manager *manager, struct layers **ret);
struct layers *layers_free(struct layers *layers);

/* What @request says is copied. Returns 0 or a negative errno for a failure of ours. */
int layers_claim(struct layers *layers, const struct install_request *request,
                 const struct layer_callbacks *callbacks, struct layer_claim **ret);
/* Until then the layer is in use. An installation that nobody waits for any more is ended. NULL is
 * fine. */
struct layer_claim *layer_claim_free(struct layer_claim *claim);

bool layers_in_use(const struct layers *layers, uid_t uid, const char *key);
/* Removes a layer that is not in use. Returns 0, -EBUSY, -EAGAIN if the user has too many removed
 * at once, or another negative errno; else @done, if it is not NULL, is called with the store's
 * answer.
 */
int layers_remove(struct layers *layers, uid_t uid, const char *key,
                  void (*done)(int error, void *userdata), void *userdata);
