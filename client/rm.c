/* sbxctl rm: removes runs that have ended. All ids are looked up before the first is removed. */
#include <errno.h>
#include <stdint.h>

#include "client/helper.h"
#include "client/runs.h"
#include "client/say.h"
#include "client/verb.h"

static int find(struct varlink_client *client, json_object *list, const char *text,
                json_object *ids)
{
    _cleanup_json_ json_object *object = NULL;
    const char *id = NULL;
    struct result run;

    int r = runs_find(list, text, &id);
    if (r == 0 && !id) {
        r = runs_describe(client, text, &object, &run); /* tells that there is none */
        id = text;
    }
    if (r == 0 && json_append(ids, json_object_new_string(id)) < 0)
        r = say_failure_errno(-ENOMEM, "cannot remove the runs");
    return r;
}

static int find_all(struct varlink_client *client, const struct verb_arguments *arguments,
                    json_object *ids)
{
    _cleanup_json_ json_object *list = NULL;
    int r = runs_list(client, &list);

    for (size_t i = 0; i < arguments->n_arguments && r == 0; i++)
        r = find(client, list, arguments->arguments[i], ids);
    return r;
}

static int remove_all(struct varlink_client *client, json_object *ids)
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

int verb_rm(const struct verb *verb, int argc, char **argv)
{
    _cleanup_json_ json_object *object = json_object_new_object();
    _cleanup_client_ struct varlink_client *client = NULL;
    json_object *ids = json_object_new_array();
    struct verb_arguments arguments;
    int r;

    if (!object || json_add(object, "removed", ids) < 0)
        return say_failure_errno(-ENOMEM, "cannot remove the runs");
    if (!verb_read_arguments(verb, argc, argv, 1, SIZE_MAX, &arguments, &r))
        return r;
    say_mode.json = arguments.json;
    r = helper_connect(&client);
    if (r == 0)
        r = find_all(client, &arguments, ids);
    if (r == 0)
        r = remove_all(client, ids);
    if (r == 0 && arguments.json)
        r = print_json(object);
    return r;
}
