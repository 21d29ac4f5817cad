/* The methods about runs that there are: each looks up the run among the caller's own, and those of
 * others are as good as none. methods-runs.c has the short ones, methods-list.c the list,
 * methods-kept.c what waits for the store, and attach.c Attach. Called by methods.c. */
#pragma once

#include "broker/manager.h"
#include "common/varlink.h"

struct run;

/* Each answers @call, now or later. Returns 0 or a negative errno. */
int method_list(struct varlink_call *call, struct manager *manager);
int method_describe(struct varlink_call *call, struct manager *manager);
int method_cancel(struct varlink_call *call, struct manager *manager);
int method_mark(struct varlink_call *call, struct manager *manager);
int method_remove(struct varlink_call *call, struct manager *manager);
int method_remove_all(struct varlink_call *call, struct manager *manager);
int method_read(struct varlink_call *call, struct manager *manager);

/* Finds the caller's run @id. Returns 1 with @ret_entry or @ret_run (or both) set, or what
 * answering with an error returned (0 or negative). */
int methods_find_run(struct varlink_call *call, struct manager *manager, const char *id,
                     const struct index_entry **ret_entry, struct run **ret_run);
/* Answers with an error that names a run. */
int methods_answer_id(struct varlink_call *call, const char *error, const char *id);
