/* The files that --file and --input-run give to a run, read as the user and passed on as sealed
 * memfds: a descriptor of a file on the user's FUSE or network mount could block the helper, be it
 * by close(). Called by request.c and mcp-arguments.c. */
#pragma once

#include "client/request.h"

/* What all inputs may be together, as method GetPolicy tells it. Up to INT64_MAX each. */
struct input_limits {
    uint64_t bytes_max, inputs_max;
};

/* As given on the command line. */
struct input_wishes {
    const char *const *paths; /* PATH[:NAME] */
    size_t n_paths;
    const char *const *runs; /* ID[:PATH] */
    size_t n_runs;
};

/* Adds what @wishes name: files, or all files of a directory as NAME/…. What of a directory is left
 * out is told. More than @limits is refused before anything is read. Returns 0, or the exit status
 * of a failure that has been told. */
int inputs_add(struct request *request, const struct input_wishes *wishes,
               const struct input_limits *limits);

/* A file or directory here, and what it is called in the workspace; NULL: as here. */
struct input_path {
    const char *path, *name;
};
/* The same with names of their own. */
int inputs_add_paths(struct request *request, const struct input_path *paths, size_t n_paths,
                     const struct input_limits *limits);
/* Adds an input with these bytes. */
int inputs_add_bytes(struct request *request, const char *name, const void *data, size_t size);

/* Splits PATH[:NAME] at its last colon, unless all of it is the path of something that exists, into
 * the new strings @ret_path and @ret_name; without NAME that is the last part of the path. Returns
 * 0, -EINVAL if there is no name (as for "/"), or another negative errno. */
int input_split(const char *text, char **ret_path, char **ret_name);

/* Copies up to the end of file, at most @max bytes, by read() and write() at the files' positions.
 * Stops at the first end of file: a terminal would go on after it. Returns how many bytes it were,
 * or a negative errno. For script.c too. */
int64_t copy_bytes(int from, int to, uint64_t max);
