/* Collecting a finished workspace: hostile ground that may still change under our hands. Called by
 * a collect job of the store; makes <staging>/files and writes nowhere else. */
#pragma once

#include "broker/store.h"

#define COLLECT_DEPTH_MAX 64       /* folders below each other */
#define COLLECT_PATH_MAX 1024      /* bytes of an output's path below the workspace */
#define COLLECT_ENTRIES_MAX 200000 /* that are looked at; a tmpfs of 256 MiB can hold millions */
#define COLLECT_FILES_MAX 20000    /* whatever the request says: more would not fit in an answer */
#define COLLECT_NAMES_MAX (384 * 1024) /* bytes of all names in the result together, escaped */
#define COLLECT_SKIPPED_MAX 100        /* entries left out that are listed one by one */

/* Copies what @request->workspace holds into the empty folder @files: regular files (one with
 * several links is copied for each) and folders, by these rules:
 *  - An input that looks exactly as it was put there is not an output. Links, FIFOs, sockets,
 *    devices, mounts and all that breaks a limit are left out, each with a sentence that says why.
 *  - The limits count a file by its length, holes too; so a sparse file of 1 TB is left out,
 *    although it has no data.
 *  - Copies are the caller's, 0600, or 0700 if the owner might execute the original; set-id bits
 *    never. The modification time is kept. A folder is ours until it is published. It is made for
 * the outputs in it, or if it is empty.
 *  - A file that changes meanwhile is copied as it is found, never more than its first length.
 * @job is the job's socket: when its other end is closed, everything stops with -ECANCELED. Returns
 * 0 and the result that store.h describes, or a negative errno of the destination; then
 * what is in @files is half made. */
int collect_workspace(const struct store_collect *request, int files, int job,
                      json_object **ret_result);
