/* One call of E2B's control plane, tried again where that is harmless. Called by control-plane.c
 * and cloud-create.c. */
#pragma once

#include "control-plane.h"

struct cloud_call {
    const char *method;
    json_object *body; /* borrowed; NULL: none */
    uint64_t timeout_usec;
    bool again; /* nothing is worse for being done twice */
};

/* Returns 0 with a reply, whatever its status, or a negative errno with a sentence; to be released
 * either way. @format makes the path. */
int cloud_call(struct cloud *cloud, const struct cloud_call *call, struct http_reply *ret,
               const char *format, ...) __attribute__((format(printf, 4, 5)));
/* Makes the sentence for a reply that is not what was wanted: @what, "a look at the sandbox". */
int cloud_fail_reply(struct cloud *cloud, const struct http_reply *reply, const char *what);
