/* What the reading of Run's parameters consists of; for request.c and request-files.c only. */
#pragma once

#include "broker/request.h"

/* The parameters before they are believed; all is borrowed. */
struct request_raw {
    const char *script, *script_name, *language, *stdin_text, *engine, *image, *template, *network,
        *streams;
    uint64_t script_fd, memory_bytes, cpu_percent, timeout_usec;
    json_object *arguments, *environment, *inputs, *network_names, *packages;
    bool detach, dry_run, interactive, require_hashes, allow_secrets;
};

/* request.c: fill in @error, and return -EINVAL. */
int request_refuse(struct request_error *error, const char *field, const char *reason);
/* For a reason that names something of the caller's, with one %s for it. */
__attribute__((format(printf, 3, 0))) int request_refuse_name(struct request_error *error,
                                                              const char *field, const char *format,
                                                              const char *name);

/* request-files.c; return 0 or a negative errno, with @error for -EINVAL. What was made until then
 * is @request's. */
int request_parse_script(struct varlink_call *call, const struct request_raw *raw,
                         struct request *request, struct request_error *error);
int request_parse_inputs(struct varlink_call *call, json_object *array, struct request *request,
                         struct request_error *error);
