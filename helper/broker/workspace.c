/* Tells a workspace from the machine's own directories, see workspace.h. */
#include "broker/workspace.h"
#include "common/cleanup.h"
#include "engine/protocol.h"

#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>

/* Where a tmpfs of the machine's own is seen from here. */
static const char *const machine[] = { ENGINE_SOCKET_DIR, "/tmp", "/dev/shm", "/etc", "/" };

int workspace_check(int fd)
{
    struct stat st, other;
    struct statfs fs;

    if (fstat(fd, &st) < 0)
        return -errno;
    if (!S_ISDIR(st.st_mode))
        return -ENOTDIR;
    if (fstatfs(fd, &fs) < 0)
        return -errno;
    if (fs.f_type != TMPFS_MAGIC)
        return -EXDEV;
    for (size_t i = 0; i < ELEMENTS(machine); i++)
        if (stat(machine[i], &other) >= 0 && st.st_dev == other.st_dev)
            return -EXDEV;
    return 0;
}
