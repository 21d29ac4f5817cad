/* Reading a directory's entries. Called by whatever walks a tree by descriptors. */
#pragma once

#include <dirent.h>

#include "common/cleanup.h"

static inline void closedirp(DIR **dir)
{
    if (*dir)
        closedir(*dir);
}
#define _cleanup_closedir_ _cleanup_(closedirp)

/* fdopendir() that takes @fd over always: it is closed on failure, too, with NULL and errno. */
DIR *directory_take(int fd);

/* The next entry, without "." and "..". NULL at the end, with errno 0, or on error, with errno. */
struct dirent *directory_next(DIR *dir);
