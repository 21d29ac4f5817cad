/* How an input looked when it was put, as JSON: for the store, which tells by it what is an output,
 * and for a later broker. Called by store.c and store-job.c, run-stored.c and run-restore-going.c.
 */
#pragma once

#include "broker/store.h"

/* An array of them: a new reference, or NULL out of memory. */
json_object *store_inputs_make(const struct store_input *inputs, size_t n);

/* Reads one. Returns 0 with its name, escaped and borrowed from @object, and the rest in @ret; or
 * -EBADMSG. */
int store_input_parse(json_object *object, const char **ret_name, struct store_input *ret);
