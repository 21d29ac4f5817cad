/* What a varlink message says besides parameters: read strictly, and written. Shared by server and
 * client; knows the keys of calls and answers but never what they ask for. */
#pragma once

#include <stdbool.h>

#include "common/json.h"

/* The header of a call. Strings and objects are borrowed from the message. */
struct varlink_call_header {
    const char *method;
    json_object *parameters; /* NULL: none */
    bool oneway, more, upgrade;
};
/* Returns 0, or -EBADMSG for an unknown key, a wrong type, no method, or more than one of the
 * flags. */
int varlink_parse_call(json_object *message, struct varlink_call_header *ret);

struct varlink_answer_header {
    const char *error;       /* NULL: none */
    json_object *parameters; /* NULL: none */
    bool continues;
};
/* Returns 0, or -EBADMSG for an unknown key, a wrong type, or an error that continues. */
int varlink_parse_answer(json_object *message, struct varlink_answer_header *ret);

/* Builds messages. @parameters is consumed always and may be NULL. Return NULL out of memory. */
json_object *varlink_build_call(const char *method, json_object *parameters, bool more,
                                bool oneway);
json_object *varlink_build_answer(const char *error, json_object *parameters, bool continues);
