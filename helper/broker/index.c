/* What the helper believes about runs, see index.h. The form of the files is in index-file.c.
 *
 * A new version of a file is written beside the old one and renamed over it, so that at any time a
 * whole one stands there, whatever becomes of this process. A power cut is another matter: it takes
 * what is not on the disk, and on ext4 it leaves an empty file where the rename was committed and
 * the data was not. To wait for the disk was most of what a short run waited for here, while the
 * files of a run, and its records in the journal, come to the disk later still. So what is noted is
 * there a moment later, many entries at once. index_sync() is for what must not be forgotten: what
 * goes on elsewhere, and what somebody relies on who has left.
 * What is loaded is treated as foreign all the same: another version of us may have written it. */
#include "broker/index.h"
#include "broker/index-file.h"
#include "broker/result.h"
#include "broker/run-id.h"
#include "common/directory.h"
#include "common/escape.h"
#include "common/file.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <systemd/sd-daemon.h>
#include <time.h>

#define SUFFIX ".json"
/* So long may an entry be in the memory of the kernel alone. */
#define SOON_USEC (1000 * 1000ULL)
#define NAME_SIZE (RUN_ID_LENGTH_MAX + sizeof(SUFFIX) + 8)

/* An entry with room for its id, in the list and in a bucket of the table. */
struct node {
    struct index_entry entry;
    struct node *next;
    json_object *unwritten; /* without output: the disk has not taken it yet; else NULL */
    bool unsynced;
    struct node *next_unsynced;
    char id[RUN_ID_LENGTH_MAX + 1];
};

/* What a user's runs take that ended. */
struct user {
    uid_t uid;
    struct retention_use use;
};

struct run_index {
    int dirfd;
    struct node **nodes; /* oldest first */
    size_t n, allocated;
    struct node **buckets; /* by id; as many as there is room for nodes, a power of two */
    struct user *users;
    size_t n_users;
    size_t n_unwritten;
    struct node *unsynced; /* written, but perhaps not on the disk */
    sd_event *event;
    sd_event_source *soon; /* they will be */
};

/* ---- In memory ---- */

/* FNV-1a; ids are random. */
static size_t hash(const char *id)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);

    for (; *id; id++)
        h = (h ^ (unsigned char)*id) * UINT64_C(0x100000001b3);
    return (size_t)(h ^ (h >> 32));
}

static struct node **bucket(const struct run_index *index, const char *id)
{
    return &index->buckets[hash(id) & (index->allocated - 1)];
}

static struct node *find(const struct run_index *index, const char *id)
{
    struct node *node = index->allocated ? *bucket(index, id) : NULL;

    while (node && strcmp(node->id, id) != 0)
        node = node->next;
    return node;
}

static void link_node(struct run_index *index, struct node *node)
{
    struct node **at = bucket(index, node->id);

    node->next = *at;
    *at = node;
}

static struct user *find_user(const struct run_index *index, uid_t uid)
{
    for (size_t i = 0; i < index->n_users; i++)
        if (index->users[i].uid == uid)
            return &index->users[i];
    return NULL;
}

static int reserve_user(struct run_index *index, uid_t uid)
{
    if (find_user(index, uid))
        return 0;
    struct user *users = realloc(index->users, (index->n_users + 1) * sizeof(*users));
    if (!users)
        return -ENOMEM;
    users[index->n_users++] = (struct user){ .uid = uid };
    index->users = users;
    return 0;
}

static void add_use(struct run_index *index, const struct index_entry *entry)
{
    struct user *user = find_user(index, entry->uid);

    if (!entry->final)
        return;
    user->use.runs++;
    user->use.bytes += entry->bytes;
    user->use.files += entry->files;
}

static void subtract_use(struct run_index *index, const struct index_entry *entry)
{
    struct user *user = find_user(index, entry->uid);

    if (!entry->final)
        return;
    user->use.runs--;
    user->use.bytes -= entry->bytes;
    user->use.files -= entry->files;
}

/* Room for one more, of that user. */
static int reserve(struct run_index *index, uid_t uid)
{
    if (reserve_user(index, uid) < 0)
        return -ENOMEM;
    if (index->n < index->allocated)
        return 0;
    size_t allocated = index->allocated ? index->allocated * 2 : 64;
    struct node **nodes = realloc(index->nodes, allocated * sizeof(struct node *));
    if (!nodes)
        return -ENOMEM;
    index->nodes = nodes;
    struct node **buckets = calloc(allocated, sizeof(struct node *));
    if (!buckets)
        return -ENOMEM;
    free(index->buckets);
    index->buckets = buckets;
    index->allocated = allocated;
    for (size_t i = 0; i < index->n; i++)
        link_node(index, index->nodes[i]);
    return 0;
}

/* Before it are those that are older, and as old. */
static size_t find_place(const struct run_index *index, uint64_t created_usec)
{
    size_t low = 0, high = index->n;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (index->nodes[middle]->entry.created_usec <= created_usec)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void forget_unsynced(struct run_index *index, struct node *node)
{
    struct node **at = &index->unsynced;

    if (!node->unsynced)
        return;
    while (*at != node)
        at = &(*at)->next_unsynced;
    *at = node->next_unsynced;
    node->unsynced = false;
}

static void drop(struct run_index *index, struct node *node)
{
    size_t at = find_place(index, node->entry.created_usec);
    struct node **link = bucket(index, node->id);

    subtract_use(index, &node->entry);
    while (index->nodes[--at] != node)
        ;
    memmove(&index->nodes[at], &index->nodes[at + 1], (--index->n - at) * sizeof(index->nodes[0]));
    while (*link != node)
        link = &(*link)->next;
    *link = node->next;
    index->n_unwritten -= node->unwritten != NULL;
    json_object_put(node->unwritten);
    forget_unsynced(index, node);
    free(node);
}

static struct node *node_new(const struct index_entry *entry)
{
    struct node *node = calloc(1, sizeof(*node));

    if (!node)
        return NULL;
    node->entry = *entry;
    snprintf(node->id, sizeof(node->id), "%s", entry->id);
    node->entry.id = node->id;
    return node;
}

/* Takes over @node, in place of an older one of that id. There must be room. */
static void insert(struct run_index *index, struct node *node)
{
    struct node *older = find(index, node->id);
    size_t at;

    if (older)
        drop(index, older);
    at = find_place(index, node->entry.created_usec);
    memmove(&index->nodes[at + 1], &index->nodes[at], (index->n - at) * sizeof(index->nodes[0]));
    index->nodes[at] = node;
    index->n++;
    link_node(index, node);
    add_use(index, &node->entry);
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

    return run_id_valid(id) && strncmp(name, id, n) == 0 && strcmp(name + n, SUFFIX) == 0;
}

/* Appends it: the order is made when all are there. */
static int load_entry(struct run_index *index, const char *name)
{
    struct index_entry entry;
    struct node *node;
    char id[RUN_ID_LENGTH_MAX + 1];

    int r = index_file_read_entry(index->dirfd, name, id, &entry);
    if (r < 0)
        return r;
    if (!is_named_after(name, id))
        return -EBADMSG;
    if (reserve(index, entry.uid) < 0 || !(node = node_new(&entry)))
        return -ENOMEM;
    index->nodes[index->n++] = node;
    link_node(index, node);
    add_use(index, &node->entry);
    return 0;
}

static int compare_nodes(const void *a, const void *b)
{
    const struct node *x = *(struct node *const *)a, *y = *(struct node *const *)b;

    return x->entry.created_usec != y->entry.created_usec
               ? (x->entry.created_usec < y->entry.created_usec ? -1 : 1)
               : strcmp(x->id, y->id);
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
    if (index->n > 0)
        qsort(index->nodes, index->n, sizeof(index->nodes[0]), compare_nodes);
    return 0;
}

/* ---- Writing ---- */

static int write_file(int dirfd, const char *name, const char *text, size_t size)
{
    _cleanup_close_ int fd =
        openat(dirfd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

    if (fd < 0)
        return -errno;
    return write_all(fd, text, size);
}

/* Writes <id>.json.tmp and renames it over <id>.json. */
static int replace_file(int dirfd, const char *id, const char *text, size_t size)
{
    char name[NAME_SIZE], temporary[NAME_SIZE];

    snprintf(name, sizeof(name), "%s" SUFFIX, id);
    snprintf(temporary, sizeof(temporary), "%s" SUFFIX ".tmp", id);
    int r = write_file(dirfd, temporary, text, size);
    /* One of which nobody could be rid when it was half written. */
    if (r == -EEXIST && unlinkat(dirfd, temporary, 0) == 0)
        r = write_file(dirfd, temporary, text, size);
    if (r == 0 && renameat(dirfd, temporary, dirfd, name) < 0)
        r = -errno;
    if (r < 0)
        unlinkat(dirfd, temporary, 0);
    return r;
}

/* ---- On the disk ---- */

static int sync_file(int dirfd, const char *id)
{
    char name[NAME_SIZE];

    snprintf(name, sizeof(name), "%s" SUFFIX, id);
    _cleanup_close_ int fd = openat(dirfd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? 0 : -errno; /* somebody took it away: it is read no more */
    return fdatasync(fd) < 0 ? -errno : 0;
}

int index_sync(struct run_index *index)
{
    int r = 0;

    index->soon = sd_event_source_disable_unref(index->soon);
    if (!index->unsynced)
        return 0;
    for (const struct node *node = index->unsynced; r >= 0 && node; node = node->next_unsynced)
        r = sync_file(index->dirfd, node->id);
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

static void sync_soon(struct run_index *index, struct node *node)
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
    for (size_t i = 0; i < index->n; i++) {
        json_object_put(index->nodes[i]->unwritten);
        free(index->nodes[i]);
    }
    free(index->nodes);
    free(index->buckets);
    free(index->users);
    close_fd(index->dirfd);
    free(index);
    return NULL;
}

bool index_retry(struct run_index *index)
{
    for (size_t i = 0; i < index->n && index->n_unwritten > 0; i++) {
        struct node *node = index->nodes[i];
        _cleanup_free_ char *text = NULL;
        size_t size;

        if (!node->unwritten)
            continue;
        if (index_file_make(&node->entry, node->unwritten, &text, &size) < 0 ||
            replace_file(index->dirfd, node->id, text, size) < 0)
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
    const struct node *older = find(index, id);
    _cleanup_free_ char *text = NULL;
    struct node *node;
    size_t size;

    if (!run_id_valid(id))
        return -EINVAL;
    if (reserve(index, uid) < 0)
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
    node = node_new(&entry);
    if (!node)
        return -ENOMEM;
    (void)index_retry(index);
    r = replace_file(index->dirfd, id, text, size);
    /* What stands on the disk of a run that ended is better than this. */
    if (r < 0 && final && !(older && older->entry.final && !older->unwritten))
        node->unwritten = result_without_output(result);
    if (r < 0 && !node->unwritten) {
        free(node);
        return r;
    }
    index->n_unwritten += node->unwritten != NULL;
    insert(index, node);
    if (r >= 0)
        sync_soon(index, node);
    return r;
}

void index_lower_size(struct run_index *index, const char *id, uint64_t bytes, uint64_t files)
{
    struct node *node = find(index, id);

    if (!node)
        return;
    subtract_use(index, &node->entry);
    if (bytes < node->entry.bytes)
        node->entry.bytes = bytes;
    if (files < node->entry.files)
        node->entry.files = files;
    add_use(index, &node->entry);
}

struct retention_use index_use(const struct run_index *index, uid_t uid)
{
    const struct user *user = find_user(index, uid);

    return user ? user->use : (struct retention_use){ 0 };
}

const struct index_entry *index_get(struct run_index *index, const char *id)
{
    const struct node *node = find(index, id);

    return node ? &node->entry : NULL;
}

const struct index_entry *index_get_owned(struct run_index *index, const char *id, uid_t uid)
{
    const struct index_entry *entry = index_get(index, id);

    return entry && entry->uid == uid ? entry : NULL;
}

static json_object *read_result(struct run_index *index, const char *id, bool whole)
{
    struct node *node = find(index, id);
    json_object *result = NULL;
    char name[NAME_SIZE];

    if (!node)
        return NULL;
    if (node->unwritten)
        return json_object_get(node->unwritten);
    snprintf(name, sizeof(name), "%s" SUFFIX, node->id);
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
    struct node *node = find(index, id);
    char name[NAME_SIZE];

    if (!node)
        return -ENOENT;
    snprintf(name, sizeof(name), "%s" SUFFIX, node->id);
    if (unlinkat(index->dirfd, name, 0) < 0 && errno != ENOENT)
        return -errno;
    drop(index, node);
    return 0;
}

void index_foreach(struct run_index *index, bool (*fn)(const struct index_entry *, void *),
                   void *userdata)
{
    for (size_t i = index->n; i > 0; i--)
        if (!fn(&index->nodes[i - 1]->entry, userdata))
            return;
}
