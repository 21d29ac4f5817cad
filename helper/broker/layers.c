/* All layers that there are, see layers.h: what the store tells of them at the start, and the end.
 */
#include "broker/layers-internal.h"
#include "broker/run.h"
#include "common/directory.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <systemd/sd-daemon.h>

bool layers_in_use(const struct layers *layers, uid_t uid, const char *key)
{
    return layer_is_claimed(layers, uid, key, NULL) || run_has_layer(layers->manager, uid, key);
}

static void on_loaded(int error, json_object *result, int fd, void *userdata)
{
    struct layers *layers = userdata;
    json_object *list = result ? json_object_object_get(result, "layers") : NULL;
    struct known *before = layers->known; /* used meanwhile */

    close_fd(fd);
    layers->loading = store_job_free(layers->loading);
    if (error < 0 && error != -ENOENT)
        fprintf(stderr, SD_ERR "layers: %s\n", strerror(-error));
    for (size_t i = 0; list && i < json_object_array_length(list); i++) {
        json_object *layer = json_object_array_get_idx(list, i);
        const char *key = json_get_string(layer, "key");
        uid_t uid = (uid_t)json_get_number(layer, "uid");
        if (layer_key_valid(key) && !known_find(before, uid, key))
            known_add(&layers->known, uid, key, layer);
    }
    if (result && json_get_number(result, "more") > 0)
        fprintf(stderr,
                SD_WARNING "%" PRIu64 " layers of packages are too many to look after: they stay, "
                           "and count for nobody, until they are used\n",
                json_get_number(result, "more"));
    layers->stale = layers->known;
    layers_resume_claims(layers);
    layers_remove_next_stale(layers);
}

/* Where nobody ever had packages there is nothing to ask the store for. */
static bool has_any(const struct manager *manager)
{
    _cleanup_free_ char *path = NULL;

    if (asprintf(&path, "%s/layers", manager->state_directory) < 0)
        return true;
    _cleanup_closedir_ DIR *dir = opendir(path);
    return !dir || directory_next(dir);
}

int layers_new(struct manager *manager, struct layers **ret)
{
    struct layers *layers = calloc(1, sizeof(*layers));

    if (!layers)
        return -ENOMEM;
    layers->manager = manager;
    layers->state = open(manager->state_directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int r = layers->state < 0 ? -errno : 0;
    if (r == 0 && has_any(manager))
        r = store_layer_load(manager->store, on_loaded, layers, &layers->loading);
    if (r < 0) {
        close_fd(layers->state);
        free(layers);
        return r;
    }
    *ret = layers;
    return 0;
}

struct layers *layers_free(struct layers *layers)
{
    if (!layers)
        return NULL;
    while (layers->claims)
        layer_claim_free(layers->claims);
    while (layers->builds)
        layer_build_free(layers->builds);
    while (layers->removals)
        layer_removal_free(layers->removals);
    while (layers->known)
        known_remove(&layers->known, layers->known);
    store_job_free(layers->loading);
    close_fd(layers->state);
    free(layers);
    return NULL;
}
