/* Listing and finding runs, see runs.h. */
#include "client/runs.h"

#include <errno.h>
#include <string.h>

#include "client/exit-status.h"
#include "client/helper.h"
#include "client/say.h"
#include "common/cleanup.h"

json_object *runs_parameters(const char *id)
{
    json_object *parameters = json_object_new_object();

    if (parameters && json_add_string(parameters, "id", id) < 0) {
        json_object_put(parameters);
        return NULL;
    }
    return parameters;
}

/* Takes the runs of one answer: one in "run", or several in "runs". */
static int take_runs(json_object *list, json_object *parameters)
{
    json_object *run = json_object_object_get(parameters, "run");
    json_object *runs = json_object_object_get(parameters, "runs");

    if (json_object_is_type(run, json_type_object) &&
        json_object_array_add(list, json_object_get(run)) < 0)
        return -ENOMEM;
    if (!json_object_is_type(runs, json_type_array))
        return 0;
    for (size_t i = 0; i < json_object_array_length(runs); i++)
        if (json_object_array_add(list, json_object_get(json_object_array_get_idx(runs, i))) < 0)
            return -ENOMEM;
    return 0;
}

int runs_list(struct varlink_client *client, json_object **ret)
{
    _cleanup_json_ json_object *list = json_object_new_array();
    bool continues = true;

    if (!list)
        return say_failure_errno(-ENOMEM, "cannot list the runs");
    int r = helper_send(client, "List", NULL, VARLINK_CALL_MORE, NULL, 0);
    if (r != 0)
        return r;
    while (continues) {
        _cleanup_answer_ struct varlink_answer answer = {};
        r = helper_receive(client, &answer);
        if (r != 0)
            return r;
        r = take_runs(list, answer.parameters);
        if (r < 0)
            return say_failure_errno(r, "cannot list the runs");
        continues = answer.continues;
    }
    *ret = TAKE_PTR(list);
    return 0;
}

static int fail_ambiguous(const char *text)
{
    _cleanup_free_ char *shown = displayed(text);
    return say_failure(EXIT_OURS, "AmbiguousId",
                       "give more of the id; 'sbxctl ps --all' lists your runs",
                       "more than one of your runs has an id that begins with %s", shown);
}

/* Whether the run's id is @text; or begins with it, which is left to @ret_begins. */
static bool id_matches(json_object *list, size_t i, const char *text, const char **ret_id,
                       bool *ret_begins)
{
    struct result run;

    *ret_begins = false;
    if (result_parse(json_object_array_get_idx(list, i), &run) < 0)
        return false;
    *ret_id = run.id;
    *ret_begins = *text != '\0' && strncmp(run.id, text, strlen(text)) == 0;
    return strcmp(run.id, text) == 0;
}

int runs_find(json_object *list, const char *text, const char **ret_id)
{
    const char *found = NULL, *id = NULL;
    size_t n_found = 0;

    for (size_t i = 0; i < json_object_array_length(list); i++) {
        bool begins;
        if (id_matches(list, i, text, &id, &begins)) {
            *ret_id = id;
            return 0;
        }
        if (begins) {
            found = id;
            n_found++;
        }
    }
    if (n_found > 1)
        return fail_ambiguous(text);
    *ret_id = found;
    return 0;
}

int runs_describe(struct varlink_client *client, const char *text, json_object **ret_object,
                  struct result *ret)
{
    _cleanup_answer_ struct varlink_answer answer = {};
    _cleanup_json_ json_object *list = NULL;
    const char *id = NULL;

    int r = runs_list(client, &list);
    if (r == 0)
        r = runs_find(list, text, &id);
    if (r == 0) /* what is not in the list is for the helper to refuse */
        r = helper_call(client, "Describe", runs_parameters(id ? id : text), &answer);
    if (r != 0)
        return r;
    json_object *object = json_object_object_get(answer.parameters, "result");
    if (!object || result_parse(object, ret) < 0)
        return say_failure(EXIT_OURS, "Failed", NULL,
                           "what the helper tells about the run is not understood");
    *ret_object = json_object_get(object);
    return 0;
}
