/* What is given to a run: opened and measured, before the first byte is read. Called by inputs.c
 * and input-run.c. Inside a directory no link is followed: who wrote the link may not be who runs
 * sbxctl. */
#pragma once

#include "client/inputs.h"

struct input_file {
    int fd;
    char *path, *name; /* here, and in the workspace */
};

struct input_files {
    const struct input_limits *limits;
    struct input_file file[REQUEST_INPUTS_MAX];
    size_t n;
    uint64_t bytes;
};

void input_files_release(struct input_files *files);

/* Both return 0, or the exit status of a failure that has been told. @path is what the user calls
 * it, @name its name in the workspace; "" for a directory whose files are to lie there themselves.
 * In the path itself links are followed. */
int input_files_add_path(struct input_files *files, const char *path, const char *name);
/* The same for @fd, open for reading, which is consumed. */
int input_files_add_opened(struct input_files *files, int fd, const char *path, const char *name);

/* Tells that @path cannot be read. Returns the exit status. */
int input_files_fail(const char *path, const char *reason);
/* What to do about too much. */
extern const char input_files_less_data[];
