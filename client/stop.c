/* sbxctl stop: ends runs, and waits until they have ended. */
#include <errno.h>
#include <stdint.h>

#include "client/attach.h"
#include "client/helper.h"
#include "client/runs.h"
#include "client/say.h"
#include "client/verb.h"

/* A run that has ended by itself has no objection. */
static int cancel(struct varlink_client *client, const char *id, bool kill)
{
    _cleanup_answer_ struct varlink_answer answer = {};
    json_object *parameters = runs_parameters(id);

    if (kill && json_add_bool(parameters, "kill", true) < 0) {
        json_object_put(parameters);
        return say_failure_errno(-ENOMEM, "cannot stop the run");
    }
    return helper_call(client, "Cancel", parameters, &answer);
}

static int await_end(const char *id, json_object *results)
{
    _cleanup_json_ json_object *object = NULL;
    struct result run;

    int r = attach_wait(id, &object, &run);
    if (r != 0)
        return r;
    if (run.status != STATUS_CANCELLED) {
        _cleanup_free_ char *shown = displayed(id);
        say("%s has ended before: %s", shown, run_status_text(run.status));
    }
    return json_append(results, json_object_get(object)) < 0
               ? say_failure_errno(-ENOMEM, "cannot wait for the run")
               : 0;
}

static int stop(const struct verb_arguments *arguments, json_object *results)
{
    _cleanup_client_ struct varlink_client *client = NULL;
    _cleanup_json_ json_object *ids = NULL;

    int r = helper_connect(&client);
    if (r == 0)
        r = runs_find_all(client, arguments->arguments, arguments->n_arguments, &ids);
    size_t n = r == 0 ? json_object_array_length(ids) : 0;
    /* All are told before the first is waited for. */
    for (size_t i = 0; i < n && r == 0; i++)
        r = cancel(client, json_object_get_string(json_object_array_get_idx(ids, i)),
                   arguments->kill);
    for (size_t i = 0; i < n && r == 0; i++)
        r = await_end(json_object_get_string(json_object_array_get_idx(ids, i)), results);
    return r;
}

int verb_stop(const struct verb *verb, int argc, char **argv)
{
    _cleanup_json_ json_object *object = json_object_new_object();
    json_object *results = json_object_new_array();
    struct verb_arguments arguments;
    int r;

    if (json_add(object, "runs", results) < 0)
        return say_failure_errno(-ENOMEM, "cannot stop the runs");
    if (!verb_read_arguments(verb, argc, argv, 1, SIZE_MAX, &arguments, &r))
        return r;
    say_mode.json = arguments.json;
    r = stop(&arguments, results);
    return r == 0 && arguments.json ? print_json(object) : r;
}
