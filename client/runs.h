/* The user's runs as the helper lists them, and ids that people shortened. Called by the verbs that
 * take an ID. All functions return 0, or the exit status of a failure that has been told. */
#pragma once

#include "client/result.h"
#include "common/json.h"
#include "common/varlink.h"

/* All runs of the caller, newest first, as an array of Result in @ret (a reference). */
int runs_list(struct varlink_client *client, json_object **ret);

/* The full id of the run in @list whose id is @text or, if only one does, begins with it: borrowed
 * from @list, or NULL if there is none. */
int runs_find(json_object *list, const char *text, const char **ret_id);

/* The run that @text names by its id or the beginning of it: the object in @ret_object (a
 * reference) and what it says in @ret, borrowed from it. */
int runs_describe(struct varlink_client *client, const char *text, json_object **ret_object,
                  struct result *ret);

/* Parameters {"id": @id} for a call; NULL out of memory. */
json_object *runs_parameters(const char *id);
