/* The user's runs as the helper lists them, and ids that people shortened. Called by the verbs that
 * take an ID. All functions return 0, or the exit status of a failure that has been told. */
#pragma once

#include "client/result.h"
#include "common/json.h"
#include "common/varlink.h"

#define RUN_ID_LENGTH 16 /* of a whole id */
#define RUNS_ALL UINT64_MAX

/* Up to @limit runs of the caller (RUNS_ALL for no end), newest first, as an array of Result in
 * @ret (a reference): those that have not ended with @only_active, and those that come after the
 * run @after, if it is not NULL. @ret_more tells whether there are more, and may be NULL. */
int runs_list(struct varlink_client *client, bool only_active, uint64_t limit, const char *after,
              json_object **ret, bool *ret_more);

/* The full id of the caller's run that @text names by its id or, if only one does, the beginning of
 * it; @text itself if there is none, which is for the helper to refuse. A new string. */
int runs_find(struct varlink_client *client, const char *text, char **ret_id);
/* The same for the @n of @texts, as an array of strings in @ret (a reference). None of them is
 * taken if one of them is not clear. */
int runs_find_all(struct varlink_client *client, char *const *texts, size_t n, json_object **ret);

/* The run that @text names so: the object in @ret_object (a reference) and what it says in @ret,
 * borrowed from it. */
int runs_describe(struct varlink_client *client, const char *text, json_object **ret_object,
                  struct result *ret);

/* Takes the Result out of an answer's parameters, as runs_describe() does. */
int runs_take_result(json_object *parameters, json_object **ret_object, struct result *ret);

/* Parameters {"id": @id} for a call; NULL out of memory. */
json_object *runs_parameters(const char *id);
