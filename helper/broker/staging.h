/* The directories in which the results of runs are put together, until the store gives them to
 * their users. To make one and what is in it takes 0.5 ms on ext4, so one is made before it is
 * needed: empty, and nobody's. Called by run-save.c and pool.c. */
#pragma once

#include <stdbool.h>

struct staging {
    int directory; /* fd of <state>/staging; the names in it are those of runs */
    int spare;     /* fd of <state>/spare; negative: nothing is made there */
    bool is_spare; /* whether one lies there, complete */
};
#define STAGING_NULL ((struct staging){ .directory = -1, .spare = -1 })

/* Opens them in the state directory @path, and makes them. Returns 0 or a negative errno: without
 * the spare one runs only wait longer. */
int staging_open(const char *path, struct staging *ret);
void staging_close(struct staging *staging);

/* Makes staging/<id> with empty files for the streams (stdout, stderr). Returns 0, or a negative
 * errno; then @ret_directory is not -1 if something is open that has to be removed. */
int staging_make(struct staging *staging, const char *id, int *ret_directory, int ret_streams[2]);
/* Makes the next one, if there is none. */
void staging_prepare(struct staging *staging);
