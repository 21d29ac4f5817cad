/* Makes one input file in the workspace, see launch.h. Programs of an earlier `go` may have planted
 * anything there: no link is followed, nothing that exists is opened for writing. */
#include "launch.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <time.h>

#include "common/file.h"

static char buffer[128 * 1024];

int put_open_folder(int workspace, const char *name, const char **ret_leaf)
{
    _cleanup_close_ int dir = fcntl(workspace, F_DUPFD_CLOEXEC, 0);
    const char *slash;

    if (dir < 0)
        return -errno;
    for (; (slash = strchr(name, '/')); name = slash + 1) {
        char folder[NAME_MAX + 1] = "";

        /* It fits: no component of a plain path is longer. */
        memcpy(folder, name, (size_t)(slash - name));
        if (mkdirat(dir, folder, 0755) < 0 && errno != EEXIST)
            return -errno;
        int next = openat(dir, folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (next < 0)
            return -errno;
        close(dir);
        dir = next;
    }
    *ret_leaf = name;
    return TAKE_FD(dir);
}

static int copy(int source, int target, uint64_t size)
{
    bool seekable = lseek(source, 0, SEEK_CUR) >= 0;

    for (uint64_t done = 0; done < size;) {
        size_t want = size - done < sizeof(buffer) ? (size_t)(size - done) : sizeof(buffer);
        ssize_t n =
            seekable ? pread(source, buffer, want, (off_t)done) : read(source, buffer, want);
        if (n <= 0)
            return n < 0 ? -errno : -EIO;
        int r = write_all(target, buffer, (size_t)n);
        if (r < 0)
            return r;
        done += (uint64_t)n;
    }
    return 0;
}

/* The time lies two seconds back, so that any later write changes it, however coarse the clock is.
 */
static int set_past_mtime(int fd)
{
    struct timespec times[2] = { { .tv_nsec = UTIME_OMIT } };

    if (clock_gettime(CLOCK_REALTIME, &times[1]) < 0)
        return -errno;
    times[1].tv_sec -= 2;
    return futimens(fd, times) < 0 ? -errno : 0;
}

static int fill(int file, mode_t mode, int source, uint64_t size, struct launch_put_done *done)
{
    struct stat st;
    int r = copy(source, file, size);

    if (r < 0)
        return r;
    /* Not by open(), whose mode the umask cuts. */
    if (fchmod(file, mode) < 0)
        return -errno;
    r = set_past_mtime(file);
    if (r < 0)
        return r;
    if (fstat(file, &st) < 0)
        return -errno;
    done->inode = st.st_ino;
    done->size = (uint64_t)st.st_size;
    done->ctime_sec = st.st_ctim.tv_sec;
    done->ctime_nsec = st.st_ctim.tv_nsec;
    done->mtime_sec = st.st_mtim.tv_sec;
    done->mtime_nsec = st.st_mtim.tv_nsec;
    return 0;
}

int put_file(int workspace, const char *name, mode_t mode, int source, uint64_t size,
             struct launch_put_done *done)
{
    const char *leaf;

    if (!path_is_plain(name) || strlen(name) > LAUNCH_NAME_MAX || size > INT64_MAX)
        return -EINVAL;
    _cleanup_close_ int dir = put_open_folder(workspace, name, &leaf);
    if (dir < 0)
        return dir;
    _cleanup_close_ int file =
        openat(dir, leaf, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (file < 0)
        return -errno;
    int r = fill(file, mode, source, size, done);
    if (r < 0)
        unlinkat(dir, leaf, 0);
    return r;
}
