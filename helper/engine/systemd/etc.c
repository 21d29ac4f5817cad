/* Copies of /etc for the sandboxes, see etc.h. */
#include "etc.h"

#include <fcntl.h>
#include <glob.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/sendfile.h>
#include <sys/stat.h>

#include "common/cleanup.h"
#include "common/directory.h"
#include "config-paths.h"
#include "runtime.h"

#define DEPTH_MAX 8
#define SKELETON SBXCTL_LIBEXECDIR "/root/etc"

/* Below /etc. No secrets, nothing about people or other machines. */
static const char *const patterns[] = {
    /* which program a name means, where libraries are */
    "alternatives",
    "ld.so.cache",
    /* text and its looks */
    "fonts",
    "matplotlibrc",
    "magic",
    "magic.mime",
    "mime.types",
    "papersize",
    /* names of protocols, and whom to trust */
    "protocols",
    "services",
    "ssl/certs",
    "ssl/openssl.cnf",
    /* languages that keep part of themselves here */
    "R",
    "java-*-openjdk",
    "perl",
    "php",
    "texmf",
    "ImageMagick-*",
};

/* ---- what is to be copied */

static int find_sources(glob_t *ret)
{
    int r = glob(SKELETON, GLOB_ERR, NULL, ret);

    for (size_t i = 0; r == 0 && i < ELEMENTS(patterns); i++) {
        char pattern[64];
        snprintf(pattern, sizeof(pattern), "/etc/%s", patterns[i]);
        r = glob(pattern, GLOB_APPEND, NULL, ret);
        r = r == GLOB_NOMATCH ? 0 : r;
    }
    return r == 0 ? 0 : r == GLOB_NOSPACE ? -ENOMEM : -ENOENT;
}

/* FNV-1a (http://www.isthe.com/chongo/tech/comp/fnv/); collisions would only cost freshness. */
static uint64_t mix(uint64_t hash, const void *data, size_t size)
{
    for (const unsigned char *p = data, *end = p + size; p < end; p++)
        hash = (hash ^ *p) * 0x100000001b3;
    return hash;
}

/* Changes when one of the sources is replaced, or an entry of one that is a directory comes or
 * goes. */
static uint64_t fingerprint(const glob_t *sources)
{
    uint64_t hash = 0xcbf29ce484222325;

    for (size_t i = 0; i < sources->gl_pathc; i++) {
        const char *path = sources->gl_pathv[i];
        struct stat st;
        if (stat(path, &st) < 0)
            continue;
        hash = mix(hash, path, strlen(path));
        hash = mix(hash, &st.st_ino, sizeof(st.st_ino));
        hash = mix(hash, &st.st_ctim, sizeof(st.st_ctim));
    }
    return hash;
}

/* ---- copying */

static int copy_entry(int from, int to, const char *name, unsigned depth);

static int copy_link(int from, int to, const char *name)
{
    char target[PATH_MAX];

    ssize_t n = readlinkat(from, name, target, sizeof(target) - 1);
    if (n < 0)
        return -errno;
    target[n] = '\0';
    return symlinkat(target, to, name) < 0 ? -errno : 0;
}

static int copy_file(int source, int to, const char *name, off_t size)
{
    _cleanup_close_ int target = openat(to, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

    if (target < 0)
        return -errno;
    while (size > 0) {
        ssize_t n = sendfile(target, source, NULL, (size_t)size);
        if (n < 0)
            return -errno;
        if (n == 0)
            break;
        size -= n;
    }
    return 0;
}

/* Copies the entries of @source, which it takes, into the directory @target. */
static int copy_entries(int source, int target, unsigned depth)
{
    _cleanup_closedir_ DIR *dir = directory_take(source);
    struct dirent *entry;

    if (!dir)
        return -errno;
    while ((entry = directory_next(dir))) {
        int r = copy_entry(source, target, entry->d_name, depth);
        if (r < 0)
            return r;
    }
    return 0;
}

/* Opens a new or existing directory. */
static int make_directory(int at, const char *name)
{
    if (mkdirat(at, name, 0755) < 0 && errno != EEXIST)
        return -errno;
    int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

/* Copies what @source is, under the name @name. Takes @source. Leaves out what not everybody may
 * read. */
static int copy_opened(int source, int to, const char *name, unsigned depth)
{
    _cleanup_close_ int fd = source;
    struct stat st;

    if (fstat(fd, &st) < 0)
        return -errno;
    if (S_ISREG(st.st_mode))
        return (st.st_mode & S_IROTH) ? copy_file(fd, to, name, st.st_size) : 0;
    if (!S_ISDIR(st.st_mode) || (st.st_mode & 05) != 05 || depth == 0)
        return 0;
    _cleanup_close_ int target = make_directory(to, name);
    return target < 0 ? target : copy_entries(TAKE_FD(fd), target, depth - 1);
}

static int copy_entry(int from, int to, const char *name, unsigned depth)
{
    int fd = openat(from, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

    if (fd >= 0)
        return copy_opened(fd, to, name, depth);
    if (errno == ELOOP)
        return copy_link(from, to, name);
    /* Gone meanwhile, not for us, or no file at all: nothing that programs need. */
    return errno == ENOENT || errno == EACCES || errno == ENXIO ? 0 : -errno;
}

/* Copies /etc/@path to the same place below @root. The original may be a link. */
static int copy_source(int root, const char *path)
{
    _cleanup_free_ char *copy = strdup(path + strlen("/etc/"));
    _cleanup_close_ int parent = -1;
    char *leaf;

    if (!copy)
        return -ENOMEM;
    leaf = strrchr(copy, '/');
    if (leaf) {
        *leaf++ = '\0';
        parent = make_directory(root, copy);
        if (parent < 0)
            return parent;
    }
    int source = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (source < 0)
        return errno == ENOENT || errno == EACCES ? 0 : -errno;
    return copy_opened(source, leaf ? parent : root, leaf ? leaf : copy, DEPTH_MAX);
}

static int copy_all(const char *target, const glob_t *sources)
{
    _cleanup_close_ int root = open(target, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (root < 0)
        return -errno;
    if (fchmod(root, 0755) < 0)
        return -errno;
    /* The first one is the skeleton, whose entries become the root's. */
    int skeleton = open(sources->gl_pathv[0], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (skeleton < 0)
        return -errno;
    int r = copy_entries(skeleton, root, DEPTH_MAX);
    for (size_t i = 1; r >= 0 && i < sources->gl_pathc; i++)
        r = copy_source(root, sources->gl_pathv[i]);
    return r;
}

/* ---- getting it */

static int make(const char *path, const glob_t *sources)
{
    char partial[] = RUNTIME_DIR "/etc-new-XXXXXX";

    if (!mkdtemp(partial))
        return -errno;
    int r = copy_all(partial, sources);
    if (r >= 0 && rename(partial, path) < 0)
        r = -errno;
    return r;
}

static int get(const glob_t *sources, char ret[ETC_PATH_MAX])
{
    /* One process makes it, the others wait. */
    _cleanup_close_ int lock = open(RUNTIME_DIR, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (lock < 0 || flock(lock, LOCK_EX) < 0)
        return -errno;
    snprintf(ret, ETC_PATH_MAX, RUNTIME_DIR "/etc-%016" PRIx64, fingerprint(sources));
    return access(ret, F_OK) == 0 ? 0 : make(ret, sources);
}

int etc_get(char ret[ETC_PATH_MAX])
{
    _cleanup_(globfree) glob_t sources = { 0 };

    int r = find_sources(&sources);
    return r < 0 ? r : get(&sources, ret);
}
