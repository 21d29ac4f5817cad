/* Looks for device nodes that an image brought along, before anything of it runs: the runtime gives
 * containers a /dev of their own and forbids most devices, but not all (the console), and an
 * image's nodes have the rights that its maker chose. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "launch.h"

/* Real images stay far below; each level holds a descriptor. */
#define DEPTH_MAX 64

/* Returns 0, -ENXIO for a node, -ELOOP for a folder that lies too deep, or another negative errno.
 * A folder that cannot be read leads the program nowhere, either. Takes @fd over. */
static int search(int fd, dev_t device, unsigned depth);

static int look_at(int directory, const char *name, unsigned char type, dev_t device,
                   unsigned depth)
{
    struct stat st;

    if (type != DT_DIR && type != DT_CHR && type != DT_BLK && type != DT_UNKNOWN)
        return 0;
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return 0;
    if (fstatat(directory, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == EACCES || errno == ENOENT ? 0 : -errno;
    /* 0:0 is no device: overlayfs notes by it that something was removed. */
    if ((S_ISCHR(st.st_mode) || S_ISBLK(st.st_mode)) && st.st_rdev != 0)
        return -ENXIO;
    if (!S_ISDIR(st.st_mode) || st.st_dev != device)
        return 0; /* other mounts are the runtime's */
    if (depth == DEPTH_MAX)
        return -ELOOP;
    int fd = openat(directory, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return errno == EACCES ? 0 : -errno;
    return search(fd, device, depth + 1);
}

static int search(int fd, dev_t device, unsigned depth)
{
    _Alignas(struct dirent64) char buffer[4096];
    _cleanup_close_ int directory = fd;
    ssize_t size = 0;
    int r = 0;

    while (r == 0 && (size = getdents64(directory, buffer, sizeof(buffer))) > 0)
        for (ssize_t at = 0; r == 0 && at < size;) {
            const struct dirent64 *entry = (const struct dirent64 *)(buffer + at);
            r = look_at(directory, entry->d_name, entry->d_type, device, depth);
            at += entry->d_reclen;
        }
    return size < 0 ? -errno : r;
}

int nodes_search(const char *root)
{
    struct stat st;
    int fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0)
        return -errno;
    if (fstat(fd, &st) < 0) {
        close(fd);
        return -errno;
    }
    return search(fd, st.st_dev, 0);
}
