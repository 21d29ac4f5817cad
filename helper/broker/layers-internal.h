/* What the keeping of layers consists of; for layers.c and layer-*.c only. */
#pragma once

#include <string.h>

#include "broker/layer-list.h"
#include "broker/layers.h"
#include "broker/store-layer.h"

struct layer_build;
struct layer_removal;

struct layers {
    struct manager *manager;
    int state; /* directory fd */
    struct known *known;
    struct known *stale; /* of .known: who from here on is to be looked at */
    struct layer_build *builds;
    struct layer_removal *removals;
    struct layer_claim *claims;
    struct store_job *loading; /* NULL: all are known */
};

enum claim_state {
    CLAIM_PREPARING, /* what its image is */
    CLAIM_LOOKING,   /* whether there is such a layer */
    CLAIM_STALLED,   /* until the store has told of all, or a removal or a build is over */
    CLAIM_BUILDING,
    CLAIM_SETTLED,
};

struct layer_claim {
    struct layers *layers;
    struct layer_claim *next;
    enum claim_state state;
    struct layer_callbacks callbacks;
    struct install_request request; /* all of it ours */
    char key[LAYER_KEY_LENGTH + 1];
    char *system; /* digest of the image, or the interpreter */
    struct prepare *prepare;
    sd_event_source *deferred;
    struct layer_build *build;
    bool has_replaced; /* what was there, with what is to be built */
};

#define REMOVE_FROM(list, item)            \
    do {                                   \
        __typeof__(&(list)) at_ = &(list); \
        while (*at_ && *at_ != (item))     \
            at_ = &(*at_)->next;           \
        if (*at_)                          \
            *at_ = (item)->next;           \
    } while (0)

static inline bool layer_is(uid_t uid, const char *key, uid_t other_uid, const char *other_key)
{
    return uid == other_uid && strcmp(key, other_key) == 0;
}

/* layer-claim.c */
/* The claim's end. */
void layer_claim_settle(struct layer_claim *claim, const struct layer_result *result);
bool layer_is_claimed(const struct layers *layers, uid_t uid, const char *key,
                      const struct layer_claim *except);
/* Those that waited for something to be over. */
void layers_resume_claims(struct layers *layers);

/* layer-build.c */
struct layer_build *layer_build_find(const struct layers *layers, uid_t uid, const char *key);
/* Whether the user may have one more. */
bool layers_may_build(const struct layers *layers, uid_t uid);
/* Builds what the claim needs, for it and all that join it. Returns 0 or a negative errno; then the
 * claim is as it was. */
int layer_build_begin(struct layer_claim *claim);
void layer_claim_join(struct layer_claim *claim, struct layer_build *build);
/* A claim of it was given up: ends it if nobody waits for it any more, and the store does not have
 * it. */
void layer_build_leave(struct layer_build *build);
void layer_build_free(struct layer_build *build);

/* layer-removal.c */
struct layer_removal *layer_removal_find(const struct layers *layers, uid_t uid, const char *key);
/* As layers_remove(), also of one that is claimed. */
int layer_removal_begin(struct layers *layers, uid_t uid, const char *key,
                        void (*done)(int error, void *userdata), void *userdata);
void layer_removal_free(struct layer_removal *removal);
bool layers_is_too_old(const struct layers *layers, uint64_t created_usec);
/* What was too old when we began and nobody uses goes one by one, since all share the store. */
void layers_remove_next_stale(struct layers *layers);
/* Removes what the user has more than may be, if nobody uses it. */
void layers_evict(struct layers *layers, uid_t uid);
