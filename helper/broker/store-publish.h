/* Giving a finished run to its caller. Called by a collect job of the store, when the broker says
 * so. */
#pragma once

#include <sys/types.h>

/* Makes staging/<id> and all in it @uid's and @gid's (folders 0700, files 0600, or 0700 if
 * executable), and moves it to users/<uid>/<id>. Only folders and files with one link that are the
 * store's own or the caller's already are given away. users/<uid> is made when it is missing.
 * @state is the state directory. Returns 0 or a negative errno: -EEXIST if that run is there
 * already, -EPERM if something in the way belongs to somebody else.
 *
 * Nothing is synced: the outputs of a run are as safe from a power cut as if the program had
 * written them itself, and up to a thousand fsync() would take longer than most runs. What the
 * helper believes is synced, see index.c. */
int publish_run(int state, const char *run_id, uid_t uid, gid_t gid);
