/* Pieces of the interface's objects that several methods answer with. */
#pragma once

#include "broker/config.h"
#include "common/json.h"
#include "common/varlink.h"

/* The type Policy; @hosts are those that were asked for, none: any, and may be NULL. A new
 * reference, or NULL out of memory. */
json_object *result_policy(const struct config *config, const struct limits *limits,
                           const struct host_list *hosts);

/* An array of strings. A new reference, or NULL out of memory. */
json_object *result_strings(char *const *strings, size_t n);

/* A result without what can be long: streams and lists of files. A new reference, or NULL out of
 * memory. */
json_object *result_without_output(json_object *result);

/* Answers the interface's error Failed. */
void result_answer_failed(struct varlink_call *call, const char *reason);

/* MIME type by a file name's extension; "application/octet-stream" if unknown. Static. */
const char *result_mime_type(const char *name);
