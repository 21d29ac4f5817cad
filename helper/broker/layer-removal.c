/* Removals of layers: of those that somebody wants gone, of those that are too old, and of what is
 * more than a user may have. Called by layers.c and layer-*.c. Never of one that a run uses. */
#include "broker/layers-internal.h"
#include "common/clock.h"

#include <stdio.h>
#include <string.h>
#include <systemd/sd-daemon.h>

#define USER_LAYERS_MAX 256
#define USER_REMOVALS_MAX 8 /* at once */

struct layer_removal {
    struct layers *layers;
    struct layer_removal *next;
    uid_t uid;
    char key[LAYER_KEY_LENGTH + 1];
    struct store_job *job;
    void (*done)(int error, void *userdata);
    void *userdata;
};

static void forget_known(struct layers *layers, struct known *known)
{
    if (known && layers->stale == known)
        layers->stale = known->next;
    known_remove(&layers->known, known);
}

struct layer_removal *layer_removal_find(const struct layers *layers, uid_t uid, const char *key)
{
    for (struct layer_removal *removal = layers->removals; removal; removal = removal->next)
        if (layer_is(uid, key, removal->uid, removal->key))
            return removal;
    return NULL;
}

void layer_removal_free(struct layer_removal *removal)
{
    REMOVE_FROM(removal->layers->removals, removal);
    store_job_free(removal->job);
    free(removal);
}

static void on_removed(int error, json_object *result, int fd, void *userdata)
{
    struct layer_removal *removal = userdata;
    struct layers *layers = removal->layers;

    close_fd(fd);
    if (error == 0 || error == -ENOENT)
        forget_known(layers, known_find(layers->known, removal->uid, removal->key));
    else
        fprintf(stderr, SD_WARNING "a layer of uid %u is not removed: %s\n", (unsigned)removal->uid,
                strerror(-error));
    if (removal->done)
        removal->done(error, removal->userdata);
    layer_removal_free(removal);
    layers_resume_claims(layers);
    layers_remove_next_stale(layers);
}

int layer_removal_begin(struct layers *layers, uid_t uid, const char *key,
                        void (*done)(int error, void *userdata), void *userdata)
{
    struct layer_removal *removal = calloc(1, sizeof(*removal));

    if (!removal)
        return -ENOMEM;
    *removal = (struct layer_removal){
        .layers = layers, .next = layers->removals, .uid = uid, .done = done, .userdata = userdata
    };
    snprintf(removal->key, sizeof(removal->key), "%s", key);
    layers->removals = removal;
    int r = store_layer_remove(layers->manager->store, uid, removal->key, on_removed, removal,
                               &removal->job);
    if (r < 0)
        layer_removal_free(removal);
    return r;
}

static size_t count_removals(const struct layers *layers, uid_t uid)
{
    size_t n = 0;

    for (const struct layer_removal *removal = layers->removals; removal; removal = removal->next)
        n += removal->uid == uid;
    return n;
}

int layers_remove(struct layers *layers, uid_t uid, const char *key,
                  void (*done)(int error, void *userdata), void *userdata)
{
    if (layers_in_use(layers, uid, key) || layer_removal_find(layers, uid, key))
        return -EBUSY;
    /* The store has one queue for all users. */
    if (count_removals(layers, uid) >= USER_REMOVALS_MAX)
        return -EAGAIN;
    return layer_removal_begin(layers, uid, key, done, userdata);
}

bool layers_is_too_old(const struct layers *layers, uint64_t created_usec)
{
    uint64_t now = clock_usec(CLOCK_REALTIME);

    return now > created_usec && now - created_usec > layers->manager->config.packages.max_age_usec;
}

void layers_remove_next_stale(struct layers *layers)
{
    while (layers->stale) {
        struct known *known = layers->stale;
        layers->stale = known->next;
        if (layers_is_too_old(layers, known->created_usec) &&
            !layers_in_use(layers, known->uid, known->key) &&
            !layer_removal_find(layers, known->uid, known->key) &&
            layer_removal_begin(layers, known->uid, known->key, NULL, NULL) == 0)
            return;
    }
}

/* The least recently used one that nobody uses, if the user has more than may be. */
static struct known *find_surplus(const struct layers *layers, uid_t uid)
{
    uint64_t bytes = 0, n = 0;
    struct known *oldest = NULL;

    for (struct known *known = layers->known; known; known = known->next) {
        if (known->uid != uid || layer_removal_find(layers, uid, known->key))
            continue;
        bytes += known->bytes;
        n++;
        if (!layers_in_use(layers, uid, known->key) &&
            (!oldest || known->used_usec < oldest->used_usec))
            oldest = known;
    }
    return bytes > layers->manager->config.packages.user_bytes || n > USER_LAYERS_MAX ? oldest
                                                                                      : NULL;
}

void layers_evict(struct layers *layers, uid_t uid)
{
    struct known *surplus;

    while ((surplus = find_surplus(layers, uid)))
        if (layer_removal_begin(layers, uid, surplus->key, NULL, NULL) < 0)
            return;
}
