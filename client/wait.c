/* sbxctl wait: until runs have ended; then as if they had been waited for by `sbxctl run`. */
#include <errno.h>
#include <stdint.h>

#include "client/attach.h"
#include "client/exit-status.h"
#include "client/helper.h"
#include "client/outcome.h"
#include "client/runs.h"
#include "client/say.h"
#include "client/verb.h"

static int find(const struct verb_arguments *arguments, json_object **ret_ids)
{
    _cleanup_client_ struct varlink_client *client = NULL;

    int r = helper_connect(&client);
    return r == 0 ? runs_find_all(client, arguments->arguments, arguments->n_arguments, ret_ids)
                  : r;
}

/* Of several runs each has one line. */
static void say_ended(const struct result *run)
{
    _cleanup_free_ char *id = displayed(run->id), *reason = displayed(run->reason);

    if (run->status == STATUS_SUCCEEDED)
        say("%s succeeded", id);
    else
        say_warning("%s %s: %s", id, run_status_text(run->status), reason);
}

/* Adds the run's result to @results; its exit status is added to @status, if that is 0 still. */
static int wait_for(const char *id, bool is_only, json_object *results, int *status)
{
    _cleanup_json_ json_object *object = NULL;
    struct result run;

    int r = attach_wait(id, &object, &run);
    if (r != 0)
        return r;
    if (*status == 0)
        *status = exit_status_of_result(&run);
    if (is_only)
        outcome_say(&run, !say_mode.json);
    else
        say_ended(&run);
    return json_append(results, json_object_get(object)) < 0
               ? say_failure_errno(-ENOMEM, "cannot wait for the runs")
               : 0;
}

static int print(json_object *results)
{
    _cleanup_json_ json_object *object = json_object_new_object();

    if (json_object_array_length(results) == 1)
        return print_json(json_object_array_get_idx(results, 0));
    if (json_add(object, "runs", json_object_get(results)) < 0)
        return say_failure_errno(-ENOMEM, "cannot tell how the runs ended");
    return print_json(object);
}

int verb_wait(const struct verb *verb, int argc, char **argv)
{
    _cleanup_json_ json_object *ids = NULL, *results = json_object_new_array();
    struct verb_arguments arguments;
    int r, status = 0;

    if (!verb_read_arguments(verb, argc, argv, 1, SIZE_MAX, &arguments, &r))
        return r;
    say_mode.json = arguments.json;
    r = find(&arguments, &ids);
    if (r != 0)
        return r;
    /* One after the other: those that have ended meanwhile answer at once. */
    size_t n = json_object_array_length(ids);
    for (size_t i = 0; i < n && r == 0; i++)
        r = wait_for(json_object_get_string(json_object_array_get_idx(ids, i)), n == 1, results,
                     &status);
    if (r == 0 && arguments.json)
        r = print(results);
    return r != 0 ? r : status;
}
