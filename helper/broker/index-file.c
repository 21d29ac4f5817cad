/* Reading, making and writing of the index's files, see index-file.h. */
#include "broker/index-file.h"
#include "broker/result.h"
#include "common/file.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define VERSION 2
#define VERSION_OF_OBJECTS 1
#define FILE_MAX (1024 * 1024)
#define HEAD_MAX 512
#define PAGE_SIZE_MIN 4096 /* of all machines */
/* Besides output files: script, stdout, stderr and run.json. */
#define FILES_OF_A_RUN 4

/* A file's first line before it is believed. */
struct head {
    uint32_t version, uid;
    const char *id;
    uint64_t created_usec, ended_usec;
    bool final, kept;
    uint64_t bytes, files;
    uint64_t short_size, whole_size; /* of the other two lines, with their ends */
    json_object *result;             /* of version 1 */
};

#define FIELD(n, t, member, low, high)                                                    \
    {                                                                                     \
        .name = n, .type = t, .offset = offsetof(struct head, member), .mandatory = true, \
        .min = low, .max = high                                                           \
    }
#define FIELDS_OF_ALL                                                        \
    FIELD("id", JSON_FIELD_STRING, id, 0, RUN_ID_LENGTH_MAX),                \
        FIELD("uid", JSON_FIELD_UINT32, uid, 0, UINT32_MAX - 1),             \
        FIELD("createdUSec", JSON_FIELD_UINT64, created_usec, 0, INT64_MAX), \
        FIELD("final", JSON_FIELD_BOOL, final, 0, 0)
static const struct json_field head_fields[] = {
    FIELD("version", JSON_FIELD_UINT32, version, VERSION, VERSION),
    FIELDS_OF_ALL,
    FIELD("endedUSec", JSON_FIELD_UINT64, ended_usec, 0, INT64_MAX),
    FIELD("kept", JSON_FIELD_BOOL, kept, 0, 0),
    FIELD("bytes", JSON_FIELD_UINT64, bytes, 0, INT64_MAX),
    FIELD("files", JSON_FIELD_UINT64, files, 0, INT64_MAX),
    FIELD("shortSize", JSON_FIELD_UINT64, short_size, 3, FILE_MAX),
    FIELD("wholeSize", JSON_FIELD_UINT64, whole_size, 3, FILE_MAX),
};
static const struct json_field object_fields[] = {
    FIELD("version", JSON_FIELD_UINT32, version, VERSION_OF_OBJECTS, VERSION_OF_OBJECTS),
    FIELDS_OF_ALL,
    FIELD("result", JSON_FIELD_OBJECT, result, 0, 0),
};

/* ---- Reading ---- */

/* Opens a file that must be ours alone. Returns an fd or a negative errno. */
static int open_file(int dirfd, const char *name, int mode, uint64_t *ret_size)
{
    struct stat st;

    _cleanup_close_ int fd = openat(dirfd, name, mode | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || st.st_nlink != 1 || (st.st_mode & 022))
        return -EPERM;
    if (st.st_size > FILE_MAX)
        return -E2BIG;
    *ret_size = (uint64_t)st.st_size;
    return TAKE_FD(fd);
}

/* A file, open: what its first line says, and how long that is; or the object of version 1. */
struct opened {
    int fd;
    struct head head;
    json_object *object; /* that the head borrows from */
    size_t head_size;    /* 0: version 1 */
};

static void opened_release(struct opened *opened)
{
    close_fd(opened->fd);
    json_object_put(opened->object);
}

static int parse_object(struct opened *opened)
{
    const char *offending;
    int r = json_parse_file(opened->fd, FILE_MAX, &opened->object);

    return r < 0 ? r
                 : json_dispatch(opened->object, object_fields, ELEMENTS(object_fields), false,
                                 &opened->head, &offending);
}

static int parse_head(struct opened *opened, const char *text, size_t size, uint64_t file_size)
{
    const char *offending;
    int r = json_parse_guarded(text, size, &opened->object);

    if (r < 0)
        return r;
    r = json_dispatch(opened->object, head_fields, ELEMENTS(head_fields), false, &opened->head,
                      &offending);
    if (r < 0)
        return r;
    opened->head_size = size + 1;
    /* A file that was torn by a power cut is of another size. */
    return opened->head_size + opened->head.short_size + opened->head.whole_size == file_size
               ? 0
               : -EBADMSG;
}

static int open_entry(int dirfd, const char *name, struct opened *ret)
{
    char text[HEAD_MAX];
    uint64_t size = 0;

    *ret = (struct opened){ .fd = open_file(dirfd, name, O_RDONLY, &size) };
    if (ret->fd < 0)
        return ret->fd;
    ssize_t n = pread_full(ret->fd, text, size < sizeof(text) ? size : sizeof(text), 0);
    if (n < 0)
        return (int)n;
    const char *end = memchr(text, '\n', (size_t)n);
    return end ? parse_head(ret, text, (size_t)(end - text), size) : parse_object(ret);
}

int index_file_read_entry(int dirfd, const char *name, char ret_id[RUN_ID_LENGTH_MAX + 1],
                          struct index_entry *ret)
{
    _cleanup_(opened_release) struct opened opened;

    int r = open_entry(dirfd, name, &opened);
    if (r < 0)
        return r;
    const struct head *head = &opened.head;
    if (!run_id_valid(head->id))
        return -EBADMSG;
    snprintf(ret_id, RUN_ID_LENGTH_MAX + 1, "%s", head->id);
    *ret = (struct index_entry){
        .id = ret_id,
        .uid = head->uid,
        .created_usec = head->created_usec,
        .ended_usec = head->ended_usec,
        .final = head->final,
        .kept = head->kept,
        .bytes = head->bytes,
        .files = head->files,
    };
    if (opened.head_size == 0)
        index_file_size_up(head->result, ret);
    return 0;
}

int index_file_read_result(int dirfd, const char *name, bool whole, json_object **ret)
{
    _cleanup_(opened_release) struct opened opened;

    int r = open_entry(dirfd, name, &opened);
    if (r < 0)
        return r;
    const struct head *head = &opened.head;
    if (opened.head_size == 0) {
        *ret = whole ? json_object_get(head->result) : result_without_output(head->result);
        return *ret ? 0 : -ENOMEM;
    }
    size_t size = whole ? head->whole_size : head->short_size;
    off_t offset = (off_t)(opened.head_size + (whole ? head->short_size : 0));
    _cleanup_free_ char *text = malloc(size);
    if (!text)
        return -ENOMEM;
    ssize_t n = pread_full(opened.fd, text, size, offset);
    if (n < 0)
        return (int)n;
    return (size_t)n == size && text[size - 1] == '\n' ? json_parse_guarded(text, size - 1, ret)
                                                       : -EBADMSG;
}

/* ---- Making ---- */

static uint64_t get_number(json_object *object, const char *key)
{
    json_object *number;

    return json_object_object_get_ex(object, key, &number) ? json_object_get_uint64(number) : 0;
}

void index_file_size_up(json_object *result, struct index_entry *entry)
{
    static const char *const streams[] = { "stdout", "stderr" };
    json_object *files, *stream;

    entry->ended_usec = get_number(result, "endedUSec");
    entry->kept = json_get_string(result, "outputDirectory") != NULL;
    entry->bytes = entry->files = 0;
    if (!entry->kept)
        return;
    entry->files = FILES_OF_A_RUN;
    for (size_t i = 0; i < ELEMENTS(streams); i++)
        if (json_object_object_get_ex(result, streams[i], &stream))
            entry->bytes += get_number(stream, "keptBytes");
    if (!json_object_object_get_ex(result, "files", &files) ||
        !json_object_is_type(files, json_type_array))
        return;
    entry->files += json_object_array_length(files);
    for (size_t i = 0; i < json_object_array_length(files); i++)
        entry->bytes += get_number(json_object_array_get_idx(files, i), "bytes");
    if (entry->bytes > INT64_MAX)
        entry->bytes = INT64_MAX;
}

static json_object *make_head(const struct index_entry *entry, size_t short_size, size_t whole_size)
{
    _cleanup_json_ json_object *head = json_object_new_object();

    if (!head || json_add_uint64(head, "version", VERSION) < 0 ||
        json_add_string(head, "id", entry->id) < 0 ||
        json_add_uint64(head, "uid", entry->uid) < 0 ||
        json_add_uint64(head, "createdUSec", entry->created_usec) < 0 ||
        json_add_bool(head, "final", entry->final) < 0 ||
        json_add_uint64(head, "endedUSec", entry->ended_usec) < 0 ||
        json_add_bool(head, "kept", entry->kept) < 0 ||
        json_add_uint64(head, "bytes", entry->bytes) < 0 ||
        json_add_uint64(head, "files", entry->files) < 0 ||
        json_add_uint64(head, "shortSize", short_size) < 0 ||
        json_add_uint64(head, "wholeSize", whole_size) < 0)
        return NULL;
    return TAKE_PTR(head);
}

int index_file_make(const struct index_entry *entry, json_object *result, char **ret,
                    size_t *ret_size)
{
    _cleanup_json_ json_object *shorter = result_without_output(result), *head = NULL;
    size_t short_size, whole_size, head_size;
    const char *short_text = shorter ? json_text(shorter, &short_size) : NULL;
    const char *whole_text = json_text(result, &whole_size);

    if (!short_text || !whole_text)
        return -ENOMEM;
    /* What could not be loaded again is not written: the caller's run.json has all of it. */
    if (HEAD_MAX + short_size + whole_size > FILE_MAX) {
        whole_text = short_text;
        whole_size = short_size;
    }
    if (HEAD_MAX + short_size + whole_size > FILE_MAX)
        return -E2BIG;
    head = make_head(entry, short_size + 1, whole_size + 1);
    const char *head_text = head ? json_text(head, &head_size) : NULL;
    if (!head_text)
        return -ENOMEM;
    if (head_size >= HEAD_MAX)
        return -E2BIG;
    *ret_size = head_size + short_size + whole_size + 3;
    return asprintf(ret, "%s\n%s\n%s\n", head_text, short_text, whole_text) < 0 ? -ENOMEM : 0;
}

/* ---- Writing ---- */

void index_file_name(const char *id, char ret[INDEX_FILE_NAME])
{
    snprintf(ret, INDEX_FILE_NAME, "%s" INDEX_FILE_SUFFIX, id);
}

static int write_file(int dirfd, const char *name, const char *text, size_t size)
{
    _cleanup_close_ int fd =
        openat(dirfd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

    if (fd < 0)
        return -errno;
    return write_all(fd, text, size);
}

int index_file_replace(int dirfd, const char *id, const char *text, size_t size)
{
    char name[INDEX_FILE_NAME], temporary[INDEX_FILE_NAME + sizeof(".tmp")];

    index_file_name(id, name);
    snprintf(temporary, sizeof(temporary), "%s.tmp", name);
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

/* What lies in one page is written in one step, which nothing stops half way; and it has to cover
 * what stood there. */
bool index_file_overwrite(int dirfd, const char *id, const char *text, size_t size)
{
    char name[INDEX_FILE_NAME];
    uint64_t old_size;

    if (size > PAGE_SIZE_MIN)
        return false;
    index_file_name(id, name);
    _cleanup_close_ int fd = open_file(dirfd, name, O_WRONLY, &old_size);
    return fd >= 0 && old_size <= size && pwrite(fd, text, size, 0) == (ssize_t)size;
}

int index_file_sync(int dirfd, const char *id)
{
    char name[INDEX_FILE_NAME];

    index_file_name(id, name);
    _cleanup_close_ int fd = openat(dirfd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? 0 : -errno; /* somebody took it away: it is read no more */
    return fdatasync(fd) < 0 ? -errno : 0;
}
