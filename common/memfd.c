/* Sealed memfds, see memfd.h. */
#include "memfd.h"
#include "cleanup.h"
#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U /* Linux 6.3, include/uapi/linux/memfd.h */
#endif

#define SEALS (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

int memfd_new(const char *name)
{
    unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
    int fd = memfd_create(name, flags | MFD_NOEXEC_SEAL);

    /* So a kernel says that does not know the flag. */
    if (fd < 0 && errno == EINVAL)
        fd = memfd_create(name, flags);
    return fd < 0 ? -errno : fd;
}

int memfd_seal(int fd)
{
    return fcntl(fd, F_ADD_SEALS, SEALS) < 0 ? -errno : 0;
}

int memfd_with(const char *name, const void *data, size_t size)
{
    _cleanup_close_ int fd = memfd_new(name);
    int r = fd < 0 ? fd : pwrite_all(fd, data, size, 0);

    r = r < 0 ? r : memfd_seal(fd);
    return r < 0 ? r : TAKE_FD(fd);
}

bool memfd_is_sealed(int fd)
{
    int seals = fcntl(fd, F_GET_SEALS);

    return seals >= 0 && (seals & SEALS) == SEALS;
}
