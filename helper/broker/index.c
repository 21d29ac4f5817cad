/* What the helper believes about runs, see index.h.
 *
 * On disk: <directory>/<id>.json, an object with version, id, uid, createdUSec, final and result. A
 * new version is written beside the old one and renamed over it, so that at any time a whole one
 * stands there. Both records, of the start and of the end, are on the disk before the call returns,
 * the file and then the directory: without that a power cut leaves an empty file on ext4 (the
 * rename is committed, the data is not), and the run would be neither there nor lost. What is
 * loaded is treated as foreign all the same: another version of us may have written it. */
#include "broker/index.h"
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

#define INDEX_VERSION 1
#define INDEX_FILE_MAX (1024 * 1024)
#define SUFFIX ".json"
#define NAME_SIZE (RUN_ID_LENGTH_MAX + sizeof(SUFFIX) + 8)

struct run_index {
    int dirfd;
    struct index_entry **entries; /* newest first */
    size_t n, allocated;
};

/* A file's members before they are believed. */
struct record {
    uint32_t version, uid;
    const char *id;
    uint64_t created_usec;
    bool final;
    json_object *result;
};

#define RECORD_FIELD(n, t, member, low, high)                                               \
    {                                                                                       \
        .name = n, .type = t, .offset = offsetof(struct record, member), .mandatory = true, \
        .min = low, .max = high                                                             \
    }
static const struct json_field record_fields[] = {
    RECORD_FIELD("version", JSON_FIELD_UINT32, version, INDEX_VERSION, INDEX_VERSION),
    RECORD_FIELD("id", JSON_FIELD_STRING, id, 0, RUN_ID_LENGTH_MAX),
    RECORD_FIELD("uid", JSON_FIELD_UINT32, uid, 0, UINT32_MAX - 1),
    RECORD_FIELD("createdUSec", JSON_FIELD_UINT64, created_usec, 0, INT64_MAX),
    RECORD_FIELD("final", JSON_FIELD_BOOL, final, 0, 0),
    RECORD_FIELD("result", JSON_FIELD_OBJECT, result, 0, 0),
};

/* ---- In memory ---- */

static struct index_entry *entry_free(struct index_entry *entry)
{
    if (!entry)
        return NULL;
    free((char *)entry->id);
    json_object_put(entry->result);
    free(entry);
    return NULL;
}

static struct index_entry *entry_new(const char *id, uid_t uid, uint64_t created_usec, bool final,
                                     json_object *result)
{
    struct index_entry *entry = calloc(1, sizeof(*entry));

    if (!entry)
        return NULL;
    *entry = (struct index_entry){ .id = strdup(id),
                                   .uid = uid,
                                   .created_usec = created_usec,
                                   .final = final,
                                   .result = result_without_output(result) };
    return entry->id && entry->result ? entry : entry_free(entry);
}

static size_t find(const struct run_index *index, const char *id)
{
    size_t i = 0;

    while (i < index->n && strcmp(index->entries[i]->id, id) != 0)
        i++;
    return i;
}

static void drop(struct run_index *index, size_t at)
{
    entry_free(index->entries[at]);
    index->n--;
    memmove(&index->entries[at], &index->entries[at + 1],
            (index->n - at) * sizeof(index->entries[0]));
}

/* Room for one more. */
static int reserve(struct run_index *index)
{
    if (index->n < index->allocated)
        return 0;
    size_t allocated = index->allocated ? index->allocated * 2 : 64;
    void *entries = realloc(index->entries, allocated * sizeof(index->entries[0]));
    if (!entries)
        return -ENOMEM;
    index->entries = entries;
    index->allocated = allocated;
    return 0;
}

/* Takes over @entry, in place of an older one of that id. There must be room. */
static void insert(struct run_index *index, struct index_entry *entry)
{
    size_t at = find(index, entry->id);

    if (at < index->n)
        drop(index, at);
    for (at = 0; at < index->n && index->entries[at]->created_usec > entry->created_usec;)
        at++;
    memmove(&index->entries[at + 1], &index->entries[at],
            (index->n - at) * sizeof(index->entries[0]));
    index->entries[at] = entry;
    index->n++;
}

/* ---- On disk ---- */

/* Parses a file that must be ours alone. Returns 0 or a negative errno. */
static int parse_file(int dirfd, const char *name, json_object **ret)
{
    struct stat st;

    _cleanup_close_ int fd = openat(dirfd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || st.st_nlink != 1 || (st.st_mode & 022))
        return -EPERM;
    if (st.st_size > INDEX_FILE_MAX)
        return -E2BIG;
    return json_parse_file(fd, INDEX_FILE_MAX, ret);
}

/* Reads and checks a file. Returns 0 with what @ret_record borrows in @ret_object; -ENOMEM, or
 * another negative errno for a file that is no entry. */
static int read_record(const struct run_index *index, const char *name, json_object **ret_object,
                       struct record *ret_record)
{
    _cleanup_json_ json_object *object = NULL;
    struct record record = { 0 };
    const char *offending;

    int r = parse_file(index->dirfd, name, &object);
    if (r == 0)
        r = json_dispatch(object, record_fields, ELEMENTS(record_fields), false, &record,
                          &offending);
    if (r < 0)
        return r;
    size_t n = strlen(record.id);
    if (!run_id_valid(record.id) || strncmp(name, record.id, n) != 0 ||
        strcmp(name + n, SUFFIX) != 0)
        return -EBADMSG;
    *ret_object = TAKE_PTR(object);
    *ret_record = record;
    return 0;
}

static int load_entry(struct run_index *index, const char *name)
{
    _cleanup_json_ json_object *object = NULL;
    struct record record;

    int r = read_record(index, name, &object, &record);
    if (r < 0)
        return r;
    if (reserve(index) < 0)
        return -ENOMEM;
    struct index_entry *entry =
        entry_new(record.id, record.uid, record.created_usec, record.final, record.result);
    if (!entry)
        return -ENOMEM;
    insert(index, entry);
    return 0;
}

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
    return 0;
}

static json_object *record_object(const char *id, uid_t uid, uint64_t created_usec, bool final,
                                  json_object *result)
{
    _cleanup_json_ json_object *object = json_object_new_object();

    if (!object || json_add_uint64(object, "version", INDEX_VERSION) < 0 ||
        json_add_string(object, "id", id) < 0 || json_add_uint64(object, "uid", uid) < 0 ||
        json_add_uint64(object, "createdUSec", created_usec) < 0 ||
        json_add_bool(object, "final", final) < 0 ||
        json_add(object, "result", json_object_get(result)) < 0)
        return NULL;
    return TAKE_PTR(object);
}

static int write_file(int dirfd, const char *name, const char *text, size_t size)
{
    _cleanup_close_ int fd =
        openat(dirfd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

    if (fd < 0)
        return -errno;
    int r = write_all(fd, text, size);
    if (r < 0)
        return r;
    return fdatasync(fd) < 0 ? -errno : 0;
}

/* Writes <id>.json.tmp and renames it over <id>.json. */
static int replace_file(int dirfd, const char *id, const char *text, size_t size)
{
    char name[NAME_SIZE], temporary[NAME_SIZE];

    snprintf(name, sizeof(name), "%s" SUFFIX, id);
    snprintf(temporary, sizeof(temporary), "%s" SUFFIX ".tmp", id);
    unlinkat(dirfd, temporary, 0);
    int r = write_file(dirfd, temporary, text, size);
    if (r == 0 && (renameat(dirfd, temporary, dirfd, name) < 0 || fsync(dirfd) < 0))
        r = -errno;
    if (r < 0)
        unlinkat(dirfd, temporary, 0);
    return r;
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
    for (size_t i = 0; i < index->n; i++)
        entry_free(index->entries[i]);
    free(index->entries);
    close_fd(index->dirfd);
    free(index);
    return NULL;
}

int index_put(struct run_index *index, const char *id, uid_t uid, uint64_t created_usec, bool final,
              json_object *result)
{
    size_t size;

    if (!run_id_valid(id))
        return -EINVAL;
    if (reserve(index) < 0)
        return -ENOMEM;
    _cleanup_json_ json_object *object = record_object(id, uid, created_usec, final, result);
    const char *text = object ? json_text(object, &size) : NULL;
    if (!text)
        return -ENOMEM;
    /* What could not be loaded again is not written. */
    if (size > INDEX_FILE_MAX)
        return -E2BIG;
    struct index_entry *entry = entry_new(id, uid, created_usec, final, result);
    if (!entry)
        return -ENOMEM;
    int r = replace_file(index->dirfd, id, text, size);
    if (r < 0) {
        entry_free(entry);
        return r;
    }
    insert(index, entry);
    return 0;
}

const struct index_entry *index_get(struct run_index *index, const char *id)
{
    size_t at = find(index, id);

    return at < index->n ? index->entries[at] : NULL;
}

const struct index_entry *index_get_owned(struct run_index *index, const char *id, uid_t uid)
{
    const struct index_entry *entry = index_get(index, id);

    return entry && entry->uid == uid ? entry : NULL;
}

json_object *index_read_result(struct run_index *index, const char *id)
{
    _cleanup_json_ json_object *object = NULL;
    struct record record;
    char name[NAME_SIZE];

    if (!run_id_valid(id))
        return NULL;
    snprintf(name, sizeof(name), "%s" SUFFIX, id);
    return read_record(index, name, &object, &record) < 0 ? NULL : json_object_get(record.result);
}

int index_remove(struct run_index *index, const char *id)
{
    char name[NAME_SIZE];
    size_t at = find(index, id);

    if (at == index->n)
        return -ENOENT;
    snprintf(name, sizeof(name), "%s" SUFFIX, index->entries[at]->id);
    if (unlinkat(index->dirfd, name, 0) < 0 && errno != ENOENT)
        return -errno;
    drop(index, at);
    return 0;
}

void index_foreach(struct run_index *index, bool (*fn)(const struct index_entry *, void *),
                   void *userdata)
{
    for (size_t i = 0; i < index->n; i++)
        if (!fn(index->entries[i], userdata))
            return;
}
