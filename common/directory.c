/* Reading a directory's entries, see directory.h. */
#include "directory.h"

#include <string.h>

DIR *directory_take(int fd)
{
    DIR *dir = fdopendir(fd);

    if (!dir)
        close_fd(fd);
    return dir;
}

struct dirent *directory_next(DIR *dir)
{
    struct dirent *entry;

    do {
        errno = 0;
        entry = readdir(dir);
    } while (entry && (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0));
    return entry;
}
