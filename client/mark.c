/* sbxctl mark: keeps with a run what its user thinks of the result. */
#include <errno.h>
#include <string.h>

#include "client/helper.h"
#include "client/runs.h"
#include "client/say.h"
#include "client/verb.h"

static int mark(const char *text, const char *verdict, json_object *shown)
{
    _cleanup_client_ struct varlink_client *client = NULL;
    _cleanup_answer_ struct varlink_answer answer = {};
    _cleanup_free_ char *id = NULL;

    int r = helper_connect(&client);
    if (r == 0)
        r = runs_find(client, text, &id);
    if (r != 0)
        return r;
    json_object *parameters = runs_parameters(id);
    if (json_add_string(parameters, "verdict", verdict) < 0 ||
        json_add_string(shown, "id", id) < 0 || json_add_string(shown, "verdict", verdict) < 0) {
        json_object_put(parameters);
        return say_failure_errno(-ENOMEM, "cannot mark the run");
    }
    return helper_call(client, "Mark", parameters, &answer);
}

int verb_mark(const struct verb *verb, int argc, char **argv)
{
    _cleanup_json_ json_object *object = json_object_new_object();
    struct verb_arguments arguments;
    int r;

    if (!verb_read_arguments(verb, argc, argv, 1, 2, &arguments, &r))
        return r;
    const char *verdict = arguments.n_arguments == 2 ? arguments.arguments[1] : "";
    if (strcmp(verdict, "accepted") != 0 && strcmp(verdict, "rejected") != 0)
        return verb_usage_error(verb, "what it is marked as is either accepted or rejected");
    say_mode.json = arguments.json;
    r = mark(arguments.arguments[0], verdict, object);
    return r == 0 && arguments.json ? print_json(object) : r;
}
