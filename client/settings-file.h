/* Replaces a user's settings file as a whole: read, then written beside it and renamed, with a copy
 * of the old one kept. Called by mcp-install.c. Follows a link only to a file of the user's own. */
#pragma once

#include <stddef.h>
#include <sys/stat.h>

struct settings_file {
    char *path; /* where it is, without links */
    char *text;
    size_t size;
    struct stat st; /* st_nlink 0: there is none yet */
};

/* Returns 0, or the exit status of a failure that has been told. A file that is missing has an
 * empty text; its directory may be missing, too. */
int settings_file_read(const char *path, struct settings_file *ret);
/* Writes @text in its place, unless it has changed since. The path of the copy is in @ret_backup
 * (new; NULL if there was no file). Returns as above. */
int settings_file_replace(const struct settings_file *file, const char *text, char **ret_backup);
void settings_file_release(struct settings_file *file);
