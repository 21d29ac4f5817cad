/* The form of an entry's file in the index. Three lines, each a JSON object: what stays in memory
 * and the lengths of the other two, by which a torn file is told; the result without its output;
 * the whole result. So a start reads a few hundred bytes of each, and a list of runs not much more.
 * Until version 1 it was one object, with the whole result in it; that is read, too. Called by
 * index.c. */
#pragma once

#include "broker/index.h"
#include "broker/run-id.h"

#define INDEX_FILE_SUFFIX ".json"
#define INDEX_FILE_NAME (RUN_ID_LENGTH_MAX + sizeof(INDEX_FILE_SUFFIX))

void index_file_name(const char *id, char ret[INDEX_FILE_NAME]);

/* Reads what stays in memory. Returns 0 with @ret_id, which @ret borrows; or a negative errno:
 * -ENOMEM; another one for what is no such file, or not ours alone. */
int index_file_read_entry(int dirfd, const char *name, char ret_id[RUN_ID_LENGTH_MAX + 1],
                          struct index_entry *ret);
/* Reads a result. Returns as above, with a new reference. */
int index_file_read_result(int dirfd, const char *name, bool whole, json_object **ret);

/* Fills in what the result tells: when the run ended, and how much lies in its directory. */
void index_file_size_up(json_object *result, struct index_entry *entry);
/* Makes the text of a file, to be freed. Returns 0 or a negative errno. */
int index_file_make(const struct index_entry *entry, json_object *result, char **ret,
                    size_t *ret_size);
/* Writes it beside the old one, and renames it over that. Returns 0 or a negative errno. */
int index_file_replace(int dirfd, const char *id, const char *text, size_t size);
/* Writes it over the old one, which must not be on the disk yet: a process that is killed leaves
 * one of the two, a power cut perhaps none. Returns whether it did. For what somebody waits for: it
 * takes an eighth of the time of index_file_replace(), 0.02 ms in the test machine. */
bool index_file_overwrite(int dirfd, const char *id, const char *text, size_t size);
/* Waits until it is on the disk. Returns 0, also if there is none any more, or a negative errno. */
int index_file_sync(int dirfd, const char *id);
