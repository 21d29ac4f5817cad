/* What the helper believes about runs, see index.h. The form of the files is in index-file.c, what
 * is in memory in index-table.c.
 *
 * A new version of a file is written beside the old one and renamed over it, or over the old one if
 * that is not on the disk yet, in one step: so that at any time a whole one stands there, whatever
 * becomes of this process. A power cut is another matter: it takes what is not on the disk, and on
 * ext4 it leaves an empty file where the rename was committed and the data was not. To wait for the
 * disk was most of what a short run waited for here, while the files of a run, and its records in
 * the journal, come to the disk later still. So what is noted is there a moment later, many entries
 * at once. index_sync() is for what must not be forgotten: what goes on elsewhere, and what
 * somebody relies on who has left. What is loaded is treated as foreign all the same: another
 * version of us may have written it. */
#include "broker/index.h"
#include "broker/index-file.h"
#include "broker/index-table.h"
#include "broker/result.h"
#include "broker/run-id.h"
#include "common/directory.h"
#include "common/escape.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <systemd/sd-daemon.h>
#include <time.h>

/* So long may an entry be in the memory of the kernel alone. */
#define SOON_USEC (1000 * 1000ULL)

struct run_index {
    int dirfd;
    struct index_table table;
    size_t n_unwritten;
    struct index_node *unsynced; /* written, but perhaps not on the disk */
    sd_event *event;
    sd_event_source *soon; /* they will be */
};

static void forget_unsynced(struct run_index *index, struct index_node *node)
{
    struct index_node **at = &index->unsynced;

    if (!node->unsynced)
        return;
    while (*at != node)
        at = &(*at)->next_unsynced;
    *at = node->next_unsynced;
    node->unsynced = false;
}

static void drop(struct run_index *index, struct index_node *node)
{
    index->n_unwritten -= node->unwritten != NULL;
    forget_unsynced(index, node);
    index_table_remove(&index->table, node);
}

/* ---- Loading ---- */

static bool has_suffix(const char *name, const char *suffix)
{
    size_t n = strlen(name), m = strlen(suffix);

    return n >= m && strcmp(name + n - m, suffix) == 0;
}

/* Puts a file aside that is no entry, so that somebody may look at it. */
static void set_aside(const struct run_index *index, const char *name, int error)
{
    _cleanup_free_ char *shown = escape_text(name, strlen(name), 0);
    char bad[NAME_MAX + 1];
    int n = snprintf(bad, sizeof(bad), "%s.bad", name);
    bool moved =
        n > 0 && n < (int)sizeof(bad) && renameat(index->dirfd, name, index->dirfd, bad) == 0;

    fprintf(stderr, SD_WARNING "index of runs: %s is not used and %s: %s\n",
            shown ? shown : "a file", moved ? "was renamed to *.bad" : "stays where it is",
            strerror(-error));
}

static bool is_named_after(const char *name, const char *id)
{
    size_t n = strlen(id);

    return run_id_valid(id) && strncmp(name, id, n) == 0 &&
           strcmp(name + n, INDEX_FILE_SUFFIX) == 0;
}

/* Appends it: the order is made when all are there. */
static int load_entry(struct run_index *index, const char *name)
{
    struct index_entry entry;
    struct index_node *node;
    char id[RUN_ID_LENGTH_MAX + 1];

    int r = index_file_read_entry(index->dirfd, name, id, &entry);
    if (r < 0)
        return r;
    if (!is_named_after(name, id))
        return -EBADMSG;
    if (index_table_reserve(&index->table, entry.uid) < 0 || !(node = index_node_new(&entry)))
        return -ENOMEM;
    index_table_append(&index->table, node);
    return 0;
}

static int load(struct run_index *index)
{
    int fd = openat(index->dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    _cleanup_closedir_ DIR *dir = directory_take(fd);
    struct dirent *entry;

    if (!dir)
        return -errno;
    while ((entry = directory_next(dir))) {
        if (has_suffix(entry->d_name, ".tmp")) {
            unlinkat(index->dirfd, entry->d_name, 0); /* half written at a crash */
            continue;
        }
        if (entry->d_name[0] == '.' || has_suffix(entry->d_name, ".bad"))
            continue;
        int r = load_entry(index, entry->d_name);
        if (r == -ENOMEM)
            return r;
        if (r < 0)
            set_aside(index, entry->d_name, r);
    }
    index_table_sort(&index->table);
    return 0;
}

/* ---- On the disk ---- */

int index_sync(struct run_index *index)
{
    int r = 0;

    index->soon = sd_event_source_disable_unref(index->soon);
    if (!index->unsynced)
        return 0;
    for (const struct index_node *node = index->unsynced; r >= 0 && node;
         node = node->next_unsynced)
        r = index_file_sync(index->dirfd, node->id);
    if (r >= 0 && fsync(index->dirfd) < 0)
        r = -errno;
    if (r < 0) {
        fprintf(stderr, SD_ERR "index of runs: not on the disk: %s\n", strerror(-r));
        return r;
    }
    while (index->unsynced)
        forget_unsynced(index, index->unsynced);
    return 0;
}

static int on_soon(sd_event_source *source, uint64_t usec, void *userdata)
{
    (void)index_sync(userdata);
    return 0;
}

static void sync_soon(struct run_index *index, struct index_node *node)
{
    if (!node->unsynced) {
        node->unsynced = true;
        node->next_unsynced = index->unsynced;
        index->unsynced = node;
    }
    if (index->event && !index->soon)
        (void)sd_event_add_time_relative(index->event, &index->soon, CLOCK_MONOTONIC, SOON_USEC, 0,
                                         on_soon, index);
}

void index_attach(struct run_index *index, sd_event *event)
{
    index->event = sd_event_ref(event);
}

/* ---- The interface ---- */

int index_open(const char *directory, struct run_index **ret)
{
    struct stat st;

    if (mkdir(directory, 0700) < 0 && errno != EEXIST)
        return -errno;
    _cleanup_close_ int dirfd = open(directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (dirfd < 0 || fstat(dirfd, &st) < 0)
        return -errno;
    if (st.st_uid != geteuid() || (st.st_mode & 022))
        return -EPERM;

    struct run_index *index = calloc(1, sizeof(*index));
    if (!index)
        return -ENOMEM;
    index->dirfd = TAKE_FD(dirfd);
    int r = load(index);
    if (r < 0) {
        index_close(index);
        return r;
    }
    *ret = index;
    return 0;
}

struct run_index *index_close(struct run_index *index)
{
    if (!index)
        return NULL;
    (void)index_retry(index);
    (void)index_sync(index);
    sd_event_unref(index->event);
    index_table_release(&index->table);
    close_fd(index->dirfd);
    free(index);
    return NULL;
}

bool index_retry(struct run_index *index)
{
    for (size_t i = 0; i < index->table.n && index->n_unwritten > 0; i++) {
        struct index_node *node = index->table.nodes[i];
        _cleanup_free_ char *text = NULL;
        size_t size;

        if (!node->unwritten)
            continue;
        if (index_file_make(&node->entry, node->unwritten, &text, &size) < 0 ||
            index_file_replace(index->dirfd, node->id, text, size) < 0)
            return false;
        json_object_put(TAKE_PTR(node->unwritten));
        index->n_unwritten--;
        sync_soon(index, node);
    }
    return true;
}

int index_put(struct run_index *index, const char *id, uid_t uid, uint64_t created_usec, bool final,
              json_object *result)
{
    struct index_entry entry = {
        .id = id, .uid = uid, .created_usec = created_usec, .final = final
    };
    struct index_node *older = index_table_find(&index->table, id);
    _cleanup_free_ char *text = NULL;
    struct index_node *node;
    size_t size;

    if (!run_id_valid(id))
        return -EINVAL;
    if (index_table_reserve(&index->table, uid) < 0)
        return -ENOMEM;
    index_file_size_up(result, &entry);
    /* A result that is noted anew may be one without output. */
    if (older && older->entry.final && older->entry.kept && entry.kept) {
        entry.bytes = older->entry.bytes;
        entry.files = older->entry.files;
    }
    int r = index_file_make(&entry, result, &text, &size);
    if (r < 0)
        return r;
    node = index_node_new(&entry);
    if (!node)
        return -ENOMEM;
    (void)index_retry(index);
    bool overwritten = older && older->unsynced && !older->unwritten &&
                       index_file_overwrite(index->dirfd, id, text, size);
    r = overwritten ? 0 : index_file_replace(index->dirfd, id, text, size);
    /* What stands on the disk of a run that ended is better than this. */
    if (r < 0 && final && !(older && older->entry.final && !older->unwritten))
        node->unwritten = result_without_output(result);
    if (r < 0 && !node->unwritten) {
        free(node);
        return r;
    }
    if (older)
        drop(index, older);
    index->n_unwritten += node->unwritten != NULL;
    index_table_insert(&index->table, node);
    if (r >= 0)
        sync_soon(index, node);
    return r;
}

void index_lower_size(struct run_index *index, const char *id, uint64_t bytes, uint64_t files)
{
    struct index_node *node = index_table_find(&index->table, id);

    if (node)
        index_table_lower_size(&index->table, node, bytes, files);
}

struct retention_use index_use(const struct run_index *index, uid_t uid)
{
    return index_table_use(&index->table, uid);
}

const struct index_entry *index_get(struct run_index *index, const char *id)
{
    const struct index_node *node = index_table_find(&index->table, id);

    return node ? &node->entry : NULL;
}

const struct index_entry *index_get_owned(struct run_index *index, const char *id, uid_t uid)
{
    const struct index_entry *entry = index_get(index, id);

    return entry && entry->uid == uid ? entry : NULL;
}

static json_object *read_result(struct run_index *index, const char *id, bool whole)
{
    struct index_node *node = index_table_find(&index->table, id);
    json_object *result = NULL;
    char name[INDEX_FILE_NAME];

    if (!node)
        return NULL;
    if (node->unwritten)
        return json_object_get(node->unwritten);
    index_file_name(node->id, name);
    int r = index_file_read_result(index->dirfd, name, whole, &result);
    if (r == -EBADMSG || r == -EPERM || r == -ENOENT) {
        set_aside(index, name, r);
        drop(index, node);
    }
    return r < 0 ? NULL : result;
}

json_object *index_read_result(struct run_index *index, const char *id)
{
    return read_result(index, id, true);
}

json_object *index_read_short_result(struct run_index *index, const char *id)
{
    return read_result(index, id, false);
}

int index_remove(struct run_index *index, const char *id)
{
    struct index_node *node = index_table_find(&index->table, id);
    char name[INDEX_FILE_NAME];

    if (!node)
        return -ENOENT;
    index_file_name(node->id, name);
    if (unlinkat(index->dirfd, name, 0) < 0 && errno != ENOENT)
        return -errno;
    drop(index, node);
    return 0;
}

void index_foreach(struct run_index *index, bool (*fn)(const struct index_entry *, void *),
                   void *userdata)
{
    for (size_t i = index->table.n; i > 0; i--)
        if (!fn(&index->table.nodes[i - 1]->entry, userdata))
            return;
}
