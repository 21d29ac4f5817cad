/* Headers of calls and answers, see varlink-header.h. */
#include "varlink-header.h"

#include <errno.h>
#include <string.h>

#include "cleanup.h"

/* Each of these takes one key's value as it must be; null is a value of its own for none but
 * parameters. */
static bool take_string(json_object *value, const char **ret)
{
    if (!json_object_is_type(value, json_type_string))
        return false;
    *ret = json_object_get_string(value);
    return true;
}

static bool take_bool(json_object *value, bool *ret)
{
    if (!json_object_is_type(value, json_type_boolean))
        return false;
    *ret = json_object_get_boolean(value);
    return true;
}

static bool take_parameters(json_object *value, json_object **ret)
{
    if (value && !json_object_is_type(value, json_type_object))
        return false;
    *ret = value;
    return true;
}

int varlink_parse_call(json_object *message, struct varlink_call_header *ret)
{
    struct varlink_call_header header = { 0 };

    json_object_object_foreach(message, key, value)
    {
        bool good = false;

        if (strcmp(key, "method") == 0)
            good = take_string(value, &header.method);
        else if (strcmp(key, "parameters") == 0)
            good = take_parameters(value, &header.parameters);
        else if (strcmp(key, "oneway") == 0)
            good = take_bool(value, &header.oneway);
        else if (strcmp(key, "more") == 0)
            good = take_bool(value, &header.more);
        else if (strcmp(key, "upgrade") == 0)
            good = take_bool(value, &header.upgrade);
        if (!good)
            return -EBADMSG;
    }
    if (!header.method || header.oneway + header.more + header.upgrade > 1)
        return -EBADMSG;
    *ret = header;
    return 0;
}

int varlink_parse_answer(json_object *message, struct varlink_answer_header *ret)
{
    struct varlink_answer_header header = { 0 };

    json_object_object_foreach(message, key, value)
    {
        bool good = false;

        if (strcmp(key, "error") == 0)
            good = take_string(value, &header.error);
        else if (strcmp(key, "parameters") == 0)
            good = take_parameters(value, &header.parameters);
        else if (strcmp(key, "continues") == 0)
            good = take_bool(value, &header.continues);
        if (!good)
            return -EBADMSG;
    }
    if (header.error && header.continues)
        return -EBADMSG;
    *ret = header;
    return 0;
}

json_object *varlink_build_call(const char *method, json_object *parameters, bool more, bool oneway)
{
    _cleanup_json_ json_object *owned = parameters, *message = json_object_new_object();

    if (!message || json_add_string(message, "method", method) < 0)
        return NULL;
    if (owned && json_add(message, "parameters", TAKE_PTR(owned)) < 0)
        return NULL;
    if (more && json_add_bool(message, "more", true) < 0)
        return NULL;
    if (oneway && json_add_bool(message, "oneway", true) < 0)
        return NULL;
    return TAKE_PTR(message);
}

json_object *varlink_build_answer(const char *error, json_object *parameters, bool continues)
{
    _cleanup_json_ json_object *owned = parameters, *message = json_object_new_object();

    if (!message || json_add_string(message, "error", error) < 0)
        return NULL;
    /* Some clients want the key even when there is nothing to say. */
    if (!owned)
        owned = json_object_new_object();
    if (json_add(message, "parameters", TAKE_PTR(owned)) < 0)
        return NULL;
    if (continues && json_add_bool(message, "continues", true) < 0)
        return NULL;
    return TAKE_PTR(message);
}
