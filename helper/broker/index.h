/* What the helper believes about runs: one file per run in <state>/index, written by the broker
 * alone, replaced atomically. In memory are only the few facts by which runs are found, counted and
 * removed. Never read from what a caller can change. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>
#include <systemd/sd-event.h>

#include "broker/retention.h"
#include "common/json.h"

struct run_index;

/* One run. */
struct index_entry {
    const char *id;
    uid_t uid;
    uint64_t created_usec, ended_usec; /* since the epoch; not ended: 0 */
    bool final;                        /* the run ended, its result does not change any more */
    bool kept;                         /* it has a directory of its user's */
    uint64_t bytes, files;             /* that lie there, as far as is known */
};

/* Opens @directory (made if missing, 0700) and loads it. A file that cannot be read as an entry is
 * renamed to <name>.bad, reported to the log, and left out. Returns 0 or a negative errno. */
int index_open(const char *directory, struct run_index **ret);
struct run_index *index_close(struct run_index *index);
/* From here on what is put comes to the disk within a second, by the loop. */
void index_attach(struct run_index *index, sd_event *event);

/* Writes the entry with the whole result (interface type Result; borrowed), replacing an older one
 * of that id. What is too long goes in without its output. It outlives this process, and a power
 * cut once it is on the disk. Returns 0 or a negative errno; then the older one stands. The end of
 * a run holds in memory all the same, and is written later, without its output. */
int index_put(struct run_index *index, const char *id, uid_t uid, uint64_t created_usec, bool final,
              json_object *result);
/* Waits until all that was put is on the disk. Returns 0 or a negative errno; the next one tries
 * that again. */
int index_sync(struct run_index *index);
/* Writes what could not be written before. Returns whether nothing is left of it. */
bool index_retry(struct run_index *index);
/* What lies in the run's directory is no more than that, as was found out: until the next start. */
void index_lower_size(struct run_index *index, const char *id, uint64_t bytes, uint64_t files);
/* What the user's runs that ended take together; takes no longer however many there are. */
struct retention_use index_use(const struct run_index *index, uid_t uid);

/* Borrowed until the entry changes; NULL if there is none. The second finds it only for its owner,
 * so that a foreign and an unknown id look the same. */
const struct index_entry *index_get(struct run_index *index, const char *id);
const struct index_entry *index_get_owned(struct run_index *index, const char *id, uid_t uid);
/* The whole result, or the one without output, from the file. A new reference, or NULL if it cannot
 * be read: a file that is no entry any more is put aside, and its entry is gone. */
json_object *index_read_result(struct run_index *index, const char *id);
json_object *index_read_short_result(struct run_index *index, const char *id);
/* Returns 0, -ENOENT if there is none, or another negative errno; then it stays. */
int index_remove(struct run_index *index, const char *id);
/* Walks all entries, newest first; false from @fn stops. @fn must not change the index. */
void index_foreach(struct run_index *index, bool (*fn)(const struct index_entry *, void *),
                   void *userdata);
