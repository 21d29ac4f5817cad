/* The layers that are there: finding, reading and sweeping them, see store-layer.h. All below
 * layers/ is ours alone, and what does not look like it is not touched, or swept. */
#include "broker/store-beneath.h"
#include "broker/store-layer-path.h"
#include "broker/store-layer.h"
#include "broker/store-remove.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/directory.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define UID_MAX_LENGTH 10

/* ---- one layer */

int layer_open_user(int state, uid_t uid)
{
    char path[sizeof(LAYERS "/4294967295")];

    snprintf(path, sizeof(path), LAYERS "/%u", (unsigned)uid);
    return beneath_open_directory(state, path);
}

int layer_make_user(int state, uid_t uid)
{
    char path[sizeof(LAYERS "/4294967295")];

    snprintf(path, sizeof(path), LAYERS "/%u", (unsigned)uid);
    if (mkdirat(state, path, 0700) < 0 && errno != EEXIST)
        return -errno;
    return layer_open_user(state, uid);
}

static int open_facts(int user, const char *key)
{
    char path[LAYER_NAME_MAX + sizeof("/" LAYER_FACTS)];

    snprintf(path, sizeof(path), "%.*s/" LAYER_FACTS, LAYER_KEY_LENGTH, key);
    return beneath_open(user, path, O_RDONLY | O_NOFOLLOW);
}

/* Reads layer.json, with the time of its last use. Returns 0 or as layer_use() does. */
static int read_facts(int fd, json_object **ret)
{
    _cleanup_json_ json_object *facts = NULL;
    struct stat st;

    if (fstat(fd, &st) < 0)
        return -errno;
    uint64_t used =
        (uint64_t)st.st_mtim.tv_sec * USEC_PER_SEC + (uint64_t)st.st_mtim.tv_nsec / 1000;
    int r = json_parse_file(fd, LAYER_FACTS_MAX, &facts);
    if (r == 0)
        r = json_add_uint64(facts, "usedUSec", used);
    if (r == 0)
        *ret = TAKE_PTR(facts);
    return r;
}

int layer_use(int state, uid_t uid, const char *key, json_object **ret_layer)
{
    *ret_layer = NULL;
    if (!layer_key_valid(key))
        return -EINVAL;
    _cleanup_close_ int user = layer_open_user(state, uid);
    if (user < 0)
        return user;
    _cleanup_close_ int fd = open_facts(user, key);
    if (fd < 0)
        return fd;
    if (futimens(fd, NULL) < 0)
        return -errno;
    return read_facts(fd, ret_layer);
}

/* ---- all of a user */

struct listing {
    json_object *layers;
    bool all;   /* of all users: short, with the uid */
    bool sweep; /* what is no layer goes */
    uint64_t removed, more;
};

/* A new object, or NULL out of memory. */
static json_object *shorten(json_object *facts, uid_t uid)
{
    static const char *const kept[] = { "key",   "createdUSec", "usedUSec",
                                        "bytes", "files",       "entries" };
    _cleanup_json_ json_object *entry = json_object_new_object();

    if (!entry || json_add_uint64(entry, "uid", uid) < 0)
        return NULL;
    for (size_t i = 0; i < ELEMENTS(kept); i++) {
        json_object *value = json_object_object_get(facts, kept[i]);
        if (value && json_add(entry, kept[i], json_object_get(value)) < 0)
            return NULL;
    }
    return TAKE_PTR(entry);
}

static int add_layer(struct listing *l, json_object *facts, uid_t uid)
{
    if (!l->layers)
        return -ENOMEM;
    size_t max = l->all ? LAYERS_LISTED_MAX : LAYERS_LISTED_USER_MAX;

    if (json_object_array_length(l->layers) >= max) {
        l->more++;
        return 0;
    }
    /* Hundreds of packages may be in one. */
    json_object_object_del(facts, "resolved");
    return json_append(l->layers, l->all ? shorten(facts, uid) : json_object_get(facts));
}

/* Returns 0, or a negative errno: -EBADMSG and -ENOENT for what is no layer. */
static int look_at_layer(struct listing *l, int user, uid_t uid, const char *name)
{
    _cleanup_json_ json_object *facts = NULL;

    if (!layer_key_valid(name))
        return -EBADMSG;
    _cleanup_close_ int fd = open_facts(user, name);
    if (fd < 0)
        return fd == -ENOMEM ? fd : -ENOENT;
    int r = read_facts(fd, &facts);
    if (r < 0)
        return r;
    const char *key = json_get_string(facts, "key");
    return key && strcmp(key, name) == 0 ? add_layer(l, facts, uid) : -EBADMSG;
}

static void sweep(struct listing *l, int user, const char *name)
{
    if (l->sweep && remove_leftover(user, name) == 0)
        l->removed++;
}

/* Takes over @user. */
static int list_user(struct listing *l, int user, uid_t uid)
{
    _cleanup_closedir_ DIR *dir = directory_take(user);
    struct dirent *entry;

    if (!dir)
        return -errno;
    while ((entry = directory_next(dir))) {
        int r = look_at_layer(l, dirfd(dir), uid, entry->d_name);
        if (r == -ENOMEM)
            return r;
        if (r == -EBADMSG || r == -ENOENT)
            sweep(l, dirfd(dir), entry->d_name);
    }
    return -errno;
}

static int listing_finish(struct listing *l, json_object **ret)
{
    _cleanup_json_ json_object *result = json_object_new_object();

    if (!result || json_add(result, "layers", TAKE_PTR(l->layers)) < 0 ||
        json_add_uint64(result, "more", l->more) < 0 ||
        json_add_uint64(result, "removed", l->removed) < 0)
        return -ENOMEM;
    *ret = TAKE_PTR(result);
    return 0;
}

int layer_list(int state, uid_t uid, json_object **ret_result)
{
    struct listing l = { .layers = json_object_new_array() };

    int user = layer_open_user(state, uid);
    int r = user == -ENOENT ? 0 : user < 0 ? user : list_user(&l, user, uid);
    if (r == 0)
        r = listing_finish(&l, ret_result);
    json_object_put(l.layers);
    return r;
}

/* ---- all */

static bool parse_uid(const char *name, uid_t *ret)
{
    size_t n = strspn(name, "0123456789");

    if (n == 0 || n > UID_MAX_LENGTH || name[n] != '\0')
        return false;
    unsigned long long uid = strtoull(name, NULL, 10);
    *ret = (uid_t)uid;
    return uid < UINT32_MAX;
}

static int load_users(struct listing *l, int layers)
{
    _cleanup_closedir_ DIR *dir = directory_take(layers);
    struct dirent *entry;
    uid_t uid;

    if (!dir)
        return -errno;
    while ((entry = directory_next(dir))) {
        if (!parse_uid(entry->d_name, &uid))
            continue;
        int user = beneath_open_directory(dirfd(dir), entry->d_name);
        int r = user < 0 ? user : list_user(l, user, uid);
        if (r == -ENOMEM)
            return r;
    }
    return -errno;
}

int layer_load(int state, json_object **ret_result)
{
    struct listing l = { .layers = json_object_new_array(), .all = true, .sweep = true };

    int layers = beneath_open_directory(state, LAYERS);
    int r = layers < 0 ? layers : load_users(&l, layers);
    if (r == 0)
        r = listing_finish(&l, ret_result);
    json_object_put(l.layers);
    return r;
}
