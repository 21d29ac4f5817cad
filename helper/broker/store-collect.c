/* Collecting a finished workspace, see store-collect.h. */
#include "broker/store-collect.h"
#include "broker/store-beneath.h"
#include "broker/store-copy.h"
#include "broker/store-protocol.h"
#include "broker/store-report.h"
#include "common/cleanup.h"
#include "common/directory.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>

struct collect {
    const struct store_collect *request;
    int job;
    struct report report;
    uint64_t files_left, folders_left, bytes_left;
    unsigned entries; /* looked at */
    bool entries_over;
    char path[COLLECT_PATH_MAX + NAME_MAX + 2]; /* of the entry at hand, below the workspace */
};

/* A folder on the way from the workspace to the entry at hand. Its copy is made when the first
 * output in it is, so folders that hold nothing but unchanged inputs do not appear. */
struct folder {
    struct folder *parent;
    const char *name; /* in its parent */
    size_t path_size; /* of its own part of collect.path, with the slash at the end */
    unsigned depth;
    int copy; /* directory fd, or -1 */
    struct timespec times[2];
};

static int skip(struct collect *c, const char *reason)
{
    return report_skipped(&c->report, c->path, reason);
}

/* The sentence for an entry that could not be opened or read; @error is positive. */
static int skip_unreadable(struct collect *c, int error)
{
    switch (error) {
    case ELOOP:
    case ENOTDIR:
    case ENOENT:
    case ESTALE:
        return skip(c, "It was replaced or removed while the outputs were collected.");
    case EXDEV:
        return skip(c, "It lies outside the workspace's own file system.");
    case EAGAIN:
        return skip(c, "A program still held a lease on it.");
    default:
        return skip(c, "It could not be read.");
    }
}

/* A name that the results' file system does not take (encrypting ones are shorter, some want
 * UTF-8), or that is taken: a folder that is read while it changes may show one name twice. None of
 * it may end the collection. */
static bool name_refused(int error)
{
    return error == ENAMETOOLONG || error == EILSEQ || error == EINVAL || error == EEXIST ||
           error == ENOTDIR;
}

enum folder_outcome { FOLDER_MADE = 0, FOLDER_LIMIT, FOLDER_NAME_REFUSED };

/* Makes the copy of @folder, and of those above it. Returns an outcome or a negative errno. */
static int folder_make(struct collect *c, struct folder *folder)
{
    if (folder->copy >= 0)
        return FOLDER_MADE;
    int r = folder_make(c, folder->parent);
    if (r != FOLDER_MADE)
        return r;
    if (c->folders_left == 0)
        return FOLDER_LIMIT;
    if (mkdirat(folder->parent->copy, folder->name, 0700) < 0 && errno != EEXIST)
        return name_refused(errno) ? FOLDER_NAME_REFUSED : -errno;
    c->folders_left--;
    r = beneath_open_directory(folder->parent->copy, folder->name);
    if (r < 0)
        return name_refused(-r) ? FOLDER_NAME_REFUSED : r;
    folder->copy = r;
    return FOLDER_MADE;
}

static int skip_name_refused(struct collect *c)
{
    return skip(c, "A file of its name could not be made where results are kept.");
}

static bool same_time(const struct timespec *t, int64_t sec, int64_t nsec)
{
    return t->tv_sec == sec && t->tv_nsec == nsec;
}

/* An input that still looks as the launcher left it. It set the modification time to the past, so
 * that a write within the clock tick of the copy shows too (launch/protocol.h). */
static bool is_unchanged_input(const struct collect *c, const struct stat *st)
{
    for (size_t i = 0; i < c->request->n_inputs; i++) {
        const struct store_input *input = &c->request->inputs[i];
        if (input->inode == st->st_ino && strcmp(input->name, c->path) == 0)
            return input->size == (uint64_t)st->st_size &&
                   same_time(&st->st_ctim, input->ctime_sec, input->ctime_nsec) &&
                   same_time(&st->st_mtim, input->mtime_sec, input->mtime_nsec);
    }
    return false;
}

/* Fills the new file @out from @in. Returns 0, 1 if the entry was left out (and is reported), or a
 * negative errno. */
static int copy_into(struct collect *c, int in, int out, const struct stat *st)
{
    const struct timespec times[2] = { st->st_atim, st->st_mtim };
    uint64_t bytes;

    int r = copy_sparse(in, out, (uint64_t)st->st_size, c->job, &bytes);
    if (r < 0)
        return r;
    if (r == COPY_UNREADABLE) {
        r = skip_unreadable(c, (int)bytes);
        return r < 0 ? r : 1;
    }
    if (futimens(out, times) < 0 || fchown(out, c->request->uid, c->request->gid) < 0)
        return -errno;
    r = report_file(&c->report, c->path, bytes);
    if (r == -E2BIG) {
        r = skip(c, "The names of the outputs are too long to list them all.");
        return r < 0 ? r : 1;
    }
    if (r < 0)
        return r;
    c->files_left--;
    c->bytes_left -= bytes;
    return 0;
}

static int collect_file(struct collect *c, struct folder *folder, int source, const char *name,
                        const struct stat *seen)
{
    struct stat st;

    if (is_unchanged_input(c, seen))
        return 0;
    if (strlen(c->path) > COLLECT_PATH_MAX)
        return skip(c, "Its path is too long.");
    if (c->files_left == 0)
        return skip(c, "The run made more files than are kept.");

    _cleanup_close_ int in = beneath_open_same(source, name, seen, &st);
    if (in < 0)
        return skip_unreadable(c, -in);
    if ((uint64_t)st.st_size > c->bytes_left)
        return skip(c, "With it the outputs would be larger than is allowed.");

    int r = folder_make(c, folder);
    if (r == FOLDER_LIMIT)
        return skip(c, "The run made more folders than are kept.");
    if (r == FOLDER_NAME_REFUSED)
        return skip_name_refused(c);
    if (r < 0)
        return r;
    mode_t mode = st.st_mode & S_IXUSR ? 0700 : 0600;
    _cleanup_close_ int out =
        openat(folder->copy, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
    if (out < 0)
        return name_refused(errno) ? skip_name_refused(c) : -errno;
    r = copy_into(c, in, out, &st);
    if (r > 0 && unlinkat(folder->copy, name, 0) < 0)
        return -errno;
    return r < 0 ? r : 0;
}

static int collect_folder(struct collect *c, struct folder *parent, int source, const char *name,
                          const struct stat *seen);

/* Looks at one entry of the directory @source, whose path stands in c->path. */
static int collect_entry(struct collect *c, struct folder *folder, int source, const char *name)
{
    struct stat st;

    int r = beneath_stat_entry(source, name, &st);
    if (r < 0)
        return skip_unreadable(c, -r);
    switch (st.st_mode & S_IFMT) {
    case S_IFREG:
        return collect_file(c, folder, source, name, &st);
    case S_IFDIR:
        return collect_folder(c, folder, source, name, &st);
    case S_IFLNK:
        return skip(c, "It is a symbolic link; links are not followed.");
    case S_IFIFO:
        return skip(c, "It is a named pipe, not a file.");
    case S_IFSOCK:
        return skip(c, "It is a socket, not a file.");
    case S_IFBLK:
    case S_IFCHR:
        return skip(c, "It is a device, not a file.");
    default:
        return skip(c, "It is neither a file nor a folder.");
    }
}

/* Walks the directory fd @source, which is taken over. */
static int collect_entries(struct collect *c, struct folder *folder, int source)
{
    _cleanup_closedir_ DIR *dir = directory_take(source);
    struct dirent *entry;
    bool empty = true;

    if (!dir)
        return -errno;
    while ((entry = directory_next(dir))) {
        if (c->entries == COLLECT_ENTRIES_MAX) {
            c->entries_over = true;
            break;
        }
        if (c->entries++ % 64 == 0 && store_peer_gone(c->job))
            return -ECANCELED;
        empty = false;
        stpcpy(c->path + folder->path_size, entry->d_name);
        int r = collect_entry(c, folder, dirfd(dir), entry->d_name);
        if (r < 0)
            return r;
    }
    int error = errno;
    if (!entry && error != 0) {
        c->path[folder->path_size > 0 ? folder->path_size - 1 : 0] = '\0';
        return skip_unreadable(c, error);
    }
    if (empty) {
        /* One empty folder more or less is not worth a word. */
        int r = folder_make(c, folder);
        if (r < 0)
            return r;
    }
    if (folder->copy >= 0 && folder->parent && futimens(folder->copy, folder->times) < 0)
        return -errno;
    return 0;
}

static int collect_folder(struct collect *c, struct folder *parent, int source, const char *name,
                          const struct stat *seen)
{
    struct folder folder = {
        .parent = parent, .name = name, .copy = -1, .depth = parent->depth + 1
    };
    struct stat st;

    folder.path_size = strlen(c->path) + 1;
    if (folder.depth > COLLECT_DEPTH_MAX)
        return skip(c, "It is nested too deeply.");
    if (folder.path_size > COLLECT_PATH_MAX)
        return skip(c, "Its path is too long.");
    int fd = beneath_open_same(source, name, seen, &st);
    if (fd < 0)
        return skip_unreadable(c, -fd);

    c->path[folder.path_size - 1] = '/';
    folder.times[0] = st.st_atim;
    folder.times[1] = st.st_mtim;
    int r = collect_entries(c, &folder, fd);
    folder.copy = close_fd(folder.copy);
    return r;
}

/* The workspace itself: a new description, since the one that we were given shares its position
 * with others. */
static int collect_root(struct collect *c, struct folder *root)
{
    int source = beneath_open_directory(c->request->workspace, ".");

    if (source < 0)
        return source;
    int r = collect_entries(c, root, source);
    if (r < 0 || !c->entries_over)
        return r;
    return report_skipped(&c->report, "…", "The workspace holds more entries than are looked at.");
}

int collect_workspace(const struct store_collect *request, int files, int job,
                      json_object **ret_result)
{
    uint64_t files_max =
        request->files_max < COLLECT_FILES_MAX ? request->files_max : COLLECT_FILES_MAX;
    _cleanup_free_ struct collect *c = calloc(1, sizeof(*c));

    if (!c)
        return -ENOMEM;
    c->request = request;
    c->job = job;
    c->files_left = c->folders_left = files_max;
    c->bytes_left = request->bytes_max;

    struct folder root = { .copy = files };
    int r = report_init(&c->report);
    if (r == 0 && request->workspace >= 0)
        r = collect_root(c, &root);
    if (r == 0)
        r = report_finish(&c->report, ret_result);
    report_release(&c->report);
    return r;
}
