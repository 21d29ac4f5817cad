/* sbxctl get: copies the files that a run made to a directory. */
#include <errno.h>

#include "client/exit-status.h"
#include "client/helper.h"
#include "client/outcome.h"
#include "client/runs.h"
#include "client/save.h"
#include "client/say.h"
#include "client/verb.h"

static int print_saved(const char *id, const char *directory, json_object *files)
{
    _cleanup_json_ json_object *object = json_object_new_object();

    if (!object || json_add_string(object, "id", id) < 0 ||
        json_add_string(object, "directory", directory) < 0 ||
        json_add(object, "files", json_object_get(files)) < 0)
        return say_failure_errno(-ENOMEM, "cannot tell what was saved");
    return print_json(object);
}

int verb_get(const struct verb *verb, int argc, char **argv)
{
    _cleanup_json_ json_object *object = NULL, *files = json_object_new_array();
    _cleanup_client_ struct varlink_client *client = NULL;
    struct verb_arguments arguments;
    struct result run;
    int r;

    if (!verb_read_arguments(verb, argc, argv, 1, 1, &arguments, &r))
        return r;
    say_mode.json = arguments.json;
    r = helper_connect(&client);
    if (r == 0)
        r = runs_describe(client, arguments.arguments[0], &object, &run);
    if (r != 0)
        return r;
    if (!run.output_directory)
        return say_failure(EXIT_OURS, "NoOutput", NULL, "nothing is kept of the run %s", run.id);

    const char *target = arguments.output ? arguments.output : run.id;
    r = save_outputs(run.output_directory, target, files);
    outcome_say_skipped(&run);
    if (r == 0 && arguments.json)
        r = print_saved(run.id, target, files);
    return r;
}
