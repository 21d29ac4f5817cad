/* sbxctl rm: removes runs that have ended. All ids are looked up before the first is removed. */
#include <errno.h>
#include <inttypes.h>
#include <stdint.h>

#include "client/exit-status.h"
#include "client/helper.h"
#include "client/runs.h"
#include "client/say.h"
#include "client/verb.h"

static int remove_each(struct varlink_client *client, json_object *ids)
{
    for (size_t i = 0; i < json_object_array_length(ids); i++) {
        _cleanup_answer_ struct varlink_answer answer = {};
        const char *id = json_object_get_string(json_object_array_get_idx(ids, i));
        int r = helper_call(client, "Remove", runs_parameters(id), &answer);
        if (r != 0)
            return r;
    }
    return 0;
}

static int remove_named(struct varlink_client *client, const struct verb_arguments *arguments,
                        json_object *shown)
{
    json_object *ids = NULL;

    int r = runs_find_all(client, arguments->arguments, arguments->n_arguments, &ids);
    if (r == 0 && json_add(shown, "removed", ids) < 0)
        r = say_failure_errno(-ENOMEM, "cannot remove the runs");
    return r == 0 ? remove_each(client, ids) : r;
}

struct removal {
    uint64_t removed, failed;
    const char *reason;
};

static int remove_all(struct varlink_client *client, json_object *shown)
{
    static const struct json_field fields[] = {
        { "removed", JSON_FIELD_UINT64, offsetof(struct removal, removed), true, .max = INT64_MAX },
        { "failed", JSON_FIELD_UINT64, offsetof(struct removal, failed), .max = INT64_MAX },
        { "reason", JSON_FIELD_STRING, offsetof(struct removal, reason) },
    };
    _cleanup_answer_ struct varlink_answer answer = {};
    struct removal removal = {};

    int r = helper_send(client, "RemoveAll", NULL, 0, NULL, 0);
    if (r != 0)
        return r;
    /* Thousands of directories take longer than other answers may. */
    r = varlink_client_receive(client, UINT64_MAX, &answer);
    if (r < 0)
        return helper_fail_connection(r, false);
    if (answer.error)
        return helper_fail(&answer);
    if (json_dispatch(answer.parameters, fields, ELEMENTS(fields), true, &removal,
                      &(const char *){ NULL }) < 0)
        return say_failure(EXIT_OURS, "Failed", NULL, "the helper's answer is not understood");
    if (json_add_uint64(shown, "count", removal.removed) < 0)
        return say_failure_errno(-ENOMEM, "cannot tell what was removed");
    say("removed %" PRIu64 " run%s", removal.removed, removal.removed == 1 ? "" : "s");
    if (removal.failed == 0)
        return 0;
    _cleanup_free_ char *reason = displayed(removal.reason ? removal.reason : "");
    return say_failure(EXIT_OURS, "Failed", NULL, "%" PRIu64 " could not be removed: %s",
                       removal.failed, reason);
}

int verb_rm(const struct verb *verb, int argc, char **argv)
{
    _cleanup_json_ json_object *object = json_object_new_object();
    _cleanup_client_ struct varlink_client *client = NULL;
    struct verb_arguments arguments;
    int r;

    if (!object)
        return say_failure_errno(-ENOMEM, "cannot remove the runs");
    if (!verb_read_arguments(verb, argc, argv, 0, SIZE_MAX, &arguments, &r))
        return r;
    if (arguments.all == (arguments.n_arguments > 0))
        return verb_usage_error(verb, arguments.all ? "--all and ids do not go together"
                                                    : "the ID of a run is missing");
    say_mode.json = arguments.json;
    r = helper_connect(&client);
    if (r == 0)
        r = arguments.all ? remove_all(client, object) : remove_named(client, &arguments, object);
    return r == 0 && arguments.json ? print_json(object) : r;
}
