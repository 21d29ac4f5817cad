/* Scope-bound ownership: memory and file descriptors are released when their variable goes out of
 * scope, and move by an explicit take. Used everywhere; holds nothing but these few macros. */
#pragma once

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define _cleanup_(f) __attribute__((cleanup(f)))
#define _cleanup_free_ _cleanup_(freep)
#define _cleanup_close_ _cleanup_(closep)

#define ELEMENTS(a) (sizeof(a) / sizeof((a)[0]))

/* Hands the value over and leaves nothing behind that a cleanup could release. */
#define TAKE_PTR(p)                           \
    ({                                        \
        __typeof__(p) *_pp = &(p), _p = *_pp; \
        *_pp = NULL;                          \
        _p;                                   \
    })
#define TAKE_FD(fd)                     \
    ({                                  \
        int *_fdp = &(fd), _fd = *_fdp; \
        *_fdp = -1;                     \
        _fd;                            \
    })

static inline void freep(void *p)
{
    free(*(void **)p);
}

/* Closes @fd if it is one, keeps errno, and returns -1 for the variable it came from. */
static inline int close_fd(int fd)
{
    if (fd >= 0) {
        int saved = errno;
        close(fd);
        errno = saved;
    }
    return -1;
}

static inline void closep(int *fd)
{
    *fd = close_fd(*fd);
}
