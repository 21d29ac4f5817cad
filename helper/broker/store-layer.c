/* Making a layer, and removing one, see store-layer.h. What is copied was written by foreign code,
 * which is dead by now; it is met as any workspace is. */
#include "broker/store-layer.h"
#include "broker/layer-key.h"
#include "broker/store-beneath.h"
#include "broker/store-copy.h"
#include "broker/store-layer-path.h"
#include "broker/store-protocol.h"
#include "broker/store-remove.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/directory.h"
#include "common/file.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

struct install {
    const struct layer_source *source;
    int job;
    uint64_t entries; /* files and folders */
    uint64_t files, bytes, skipped;
    char reason[128]; /* with -EFBIG */
};

/* ---- copying */

static int too_large(struct install *in, const char *what, uint64_t limit)
{
    snprintf(in->reason, sizeof(in->reason),
             "The packages have more than the %" PRIu64 " %s that are allowed.", limit, what);
    return -EFBIG;
}

static int count_entry(struct install *in)
{
    if (in->entries++ % 64 == 0 && store_peer_gone(in->job))
        return -ECANCELED;
    if (in->entries > in->source->files_max)
        return too_large(in, "files", in->source->files_max);
    return 0;
}

/* Bytecode is valid only with its source's time. */
static int set_times(int fd, const struct stat *st)
{
    const struct timespec times[2] = { st->st_atim, st->st_mtim };

    return futimens(fd, times) < 0 ? -errno : 0;
}

static int copy_file(struct install *in, int source, const char *name, int target,
                     const struct stat *seen)
{
    mode_t mode = seen->st_mode & S_IXUSR ? 0755 : 0644;
    struct stat st;
    uint64_t bytes;

    _cleanup_close_ int from = beneath_open_same(source, name, seen, &st);
    if (from < 0)
        return from;
    if ((uint64_t)st.st_size > in->source->bytes_max - in->bytes)
        return too_large(in, "bytes", in->source->bytes_max);
    _cleanup_close_ int to =
        openat(target, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (to < 0)
        return -errno;
    int r = copy_sparse(from, to, (uint64_t)st.st_size, in->job, &bytes);
    if (r != COPY_DONE)
        return r < 0 ? r : -(int)bytes;
    in->files++;
    in->bytes += bytes;
    return fchmod(to, mode) < 0 ? -errno : set_times(to, &st);
}

static int copy_folder(struct install *in, int source, int target, unsigned depth);

static int copy_subfolder(struct install *in, int source, const char *name, int target,
                          const struct stat *seen, unsigned depth)
{
    struct stat st;

    if (depth > LAYER_DEPTH_MAX)
        return too_large(in, "folders below each other", LAYER_DEPTH_MAX);
    _cleanup_close_ int from = beneath_open_same(source, name, seen, &st);
    if (from < 0)
        return from;
    _cleanup_close_ int to = beneath_make_directory(target, name);
    if (to < 0)
        return to;
    int r = copy_folder(in, TAKE_FD(from), to, depth);
    if (r < 0)
        return r;
    return fchmod(to, 0755) < 0 ? -errno : set_times(to, &st);
}

static int copy_entry(struct install *in, int source, const char *name, int target, unsigned depth)
{
    struct stat st;

    int r = count_entry(in);
    if (r == 0)
        r = beneath_stat_entry(source, name, &st);
    if (r < 0)
        return r;
    if (S_ISREG(st.st_mode))
        return copy_file(in, source, name, target, &st);
    if (S_ISDIR(st.st_mode))
        return copy_subfolder(in, source, name, target, &st, depth + 1);
    in->skipped++;
    return 0;
}

/* Takes over @source. */
static int copy_folder(struct install *in, int source, int target, unsigned depth)
{
    _cleanup_closedir_ DIR *dir = directory_take(source);
    struct dirent *entry;

    if (!dir)
        return -errno;
    while ((entry = directory_next(dir))) {
        int r = copy_entry(in, dirfd(dir), entry->d_name, target, depth);
        if (r < 0)
            return r;
    }
    return -errno;
}

static int copy_tree(struct install *in, int layer)
{
    _cleanup_close_ int source = beneath_open_directory(in->source->workspace, in->source->folder);

    if (source < 0)
        return source;
    _cleanup_close_ int tree = beneath_make_directory(layer, "tree");
    if (tree < 0)
        return tree;
    int r = copy_folder(in, TAKE_FD(source), tree, 0);
    return r < 0 ? r : fchmod(tree, 0755) < 0 ? -errno : 0;
}

/* ---- the layer */

static int write_facts(int layer, const char *key, json_object *facts, const struct install *in)
{
    size_t size;

    int r = json_add_string(facts, "key", key);
    r = r < 0 ? r : json_add_uint64(facts, "createdUSec", clock_usec(CLOCK_REALTIME));
    r = r < 0 ? r : json_add_uint64(facts, "bytes", in->bytes);
    r = r < 0 ? r : json_add_uint64(facts, "files", in->files);
    r = r < 0 ? r : json_add_uint64(facts, "entries", in->entries);
    if (r < 0)
        return r;
    const char *text = json_text(facts, &size);
    if (!text)
        return -ENOMEM;
    if (size > LAYER_FACTS_MAX)
        return -E2BIG;
    _cleanup_close_ int fd =
        openat(layer, LAYER_FACTS, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    return fd < 0 ? -errno : write_all(fd, text, size);
}

static int make_layer(int user, const char *staged, const char *key, json_object *facts,
                      struct install *in)
{
    _cleanup_close_ int layer = beneath_make_directory(user, staged);
    if (layer < 0)
        return layer;
    int r = copy_tree(in, layer);
    if (r == 0)
        r = write_facts(layer, key, facts, in);
    if (r < 0)
        return r;
    /* Tens of thousands of files: the file system as a whole is synced faster. */
    if (syncfs(layer) < 0 || renameat2(user, staged, user, key, RENAME_NOREPLACE) < 0 ||
        fsync(user) < 0)
        return -errno;
    return 0;
}

static json_object *install_result(const struct install *in, int error)
{
    _cleanup_json_ json_object *result = json_object_new_object();

    if (!result)
        return NULL;
    if (error == -EFBIG)
        return json_add_string(result, "reason", in->reason) < 0 ? NULL : TAKE_PTR(result);
    if (json_add_uint64(result, "bytes", in->bytes) < 0 ||
        json_add_uint64(result, "files", in->files) < 0 ||
        json_add_uint64(result, "entries", in->entries) < 0 ||
        json_add_uint64(result, "skipped", in->skipped) < 0)
        return NULL;
    return TAKE_PTR(result);
}

int layer_install(int state, uid_t uid, const char *key, const struct layer_source *source,
                  json_object *facts, int job, json_object **ret_result)
{
    struct install in = { .source = source, .job = job };
    char staged[LAYER_NAME_MAX];
    struct stat st;

    *ret_result = NULL;
    if (!layer_key_valid(key) || !path_is_plain(source->folder) || strchr(source->folder, '/'))
        return -EINVAL;
    _cleanup_close_ int user = layer_make_user(state, uid);
    if (user < 0)
        return user;
    int r = beneath_stat(user, key, &st);
    if (r != -ENOENT)
        return r == 0 ? -EEXIST : r;
    snprintf(staged, sizeof(staged), "%s.new", key);
    (void)remove_leftover(user, staged);
    r = make_layer(user, staged, key, facts, &in);
    if (r < 0)
        (void)remove_leftover(user, staged);
    if (r == 0 || r == -EFBIG)
        *ret_result = install_result(&in, r);
    return r;
}

int layer_remove(int state, uid_t uid, const char *key, json_object **ret_result)
{
    char removed[LAYER_NAME_MAX];

    *ret_result = NULL;
    if (!layer_key_valid(key))
        return -EINVAL;
    _cleanup_close_ int user = layer_open_user(state, uid);
    if (user < 0)
        return user;
    snprintf(removed, sizeof(removed), "%s.old", key);
    (void)remove_leftover(user, removed);
    if (renameat2(user, key, user, removed, RENAME_NOREPLACE) < 0)
        return -errno;
    return remove_tree(user, removed, REMOVE_ANY_OWNER, ret_result);
}
