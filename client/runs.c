/* Listing and finding runs, see runs.h. */
#include "client/runs.h"

#include <errno.h>
#include <string.h>

#include "client/exit-status.h"
#include "client/helper.h"
#include "client/say.h"
#include "common/cleanup.h"

/* Far below what one message can hold (JSON_ITEMS_MAX). */
#define PAGE 250
#define CANDIDATES_MAX 8

json_object *runs_parameters(const char *id)
{
    json_object *parameters = json_object_new_object();

    if (parameters && json_add_string(parameters, "id", id) < 0) {
        json_object_put(parameters);
        return NULL;
    }
    return parameters;
}

/* One page. @ret_next is the id to go on after, borrowed from @answer; NULL at the end. */
static int list_page(struct varlink_client *client, bool only_active, uint64_t limit,
                     const char *after, struct varlink_answer *answer, json_object **ret_runs,
                     const char **ret_next)
{
    json_object *parameters = json_object_new_object();
    int r = json_add_uint64(parameters, "limit", limit < PAGE ? limit : PAGE);

    if (r == 0 && only_active)
        r = json_add_bool(parameters, "active", true);
    if (r == 0)
        r = json_add_string(parameters, "after", after);
    if (r < 0) {
        json_object_put(parameters);
        return say_failure_errno(r, "cannot list the runs");
    }
    r = helper_call(client, "List", parameters, answer);
    if (r != 0)
        return r;
    *ret_runs = json_object_object_get(answer->parameters, "runs");
    *ret_next = json_get_string(answer->parameters, "next");
    return json_object_is_type(*ret_runs, json_type_array)
               ? 0
               : say_failure(EXIT_OURS, "Failed", NULL, "the helper's list is not understood");
}

int runs_list(struct varlink_client *client, bool only_active, uint64_t limit, const char *after,
              json_object **ret, bool *ret_more)
{
    _cleanup_json_ json_object *list = json_object_new_array();
    _cleanup_free_ char *place = after ? strdup(after) : NULL;
    size_t n = 0;
    bool more = true;

    if (!list || (after && !place))
        return say_failure_errno(-ENOMEM, "cannot list the runs");
    while (more && n < limit) {
        _cleanup_answer_ struct varlink_answer answer = {};
        const char *next = NULL;
        json_object *runs;

        int r = list_page(client, only_active, limit - n, place, &answer, &runs, &next);
        if (r != 0)
            return r;
        for (size_t i = 0; i < json_object_array_length(runs); i++, n++)
            if (json_append(list, json_object_get(json_object_array_get_idx(runs, i))) < 0)
                return say_failure_errno(-ENOMEM, "cannot list the runs");
        free(place);
        place = next ? strdup(next) : NULL;
        more = place;
    }
    *ret = TAKE_PTR(list);
    if (ret_more)
        *ret_more = more;
    return 0;
}

/* Those of @list whose ids begin with @text. */
static int take_candidates(json_object *list, const char *text, json_object *candidates)
{
    for (size_t i = 0; i < json_object_array_length(list); i++) {
        json_object *run = json_object_array_get_idx(list, i);
        const char *id = json_get_string(run, "id");
        if (id && strncmp(id, text, strlen(text)) == 0 &&
            json_append(candidates, json_object_get(run)) < 0)
            return say_failure_errno(-ENOMEM, "cannot find the run");
    }
    return 0;
}

/* Up to CANDIDATES_MAX and some more, in @ret (a reference). */
static int find_candidates(struct varlink_client *client, const char *text, json_object **ret)
{
    _cleanup_json_ json_object *candidates = json_object_new_array();
    _cleanup_free_ char *place = NULL;
    bool more = *text != '\0';

    if (!candidates)
        return say_failure_errno(-ENOMEM, "cannot find the run");
    while (more && json_object_array_length(candidates) <= CANDIDATES_MAX) {
        _cleanup_answer_ struct varlink_answer answer = {};
        const char *next = NULL;
        json_object *runs;

        int r = list_page(client, false, PAGE, place, &answer, &runs, &next);
        if (r == 0)
            r = take_candidates(runs, text, candidates);
        if (r != 0)
            return r;
        free(place);
        place = next ? strdup(next) : NULL;
        more = place;
    }
    *ret = TAKE_PTR(candidates);
    return 0;
}

static int fail_ambiguous(const char *text, json_object *candidates)
{
    size_t n = json_object_array_length(candidates);
    _cleanup_free_ char *shown = displayed(text);
    int status = say_failure(EXIT_OURS, "AmbiguousId", "give more of the id; it may be one of",
                             "more than one of your runs has an id that begins with %s", shown);

    for (size_t i = 0; i < n && i < CANDIDATES_MAX; i++) {
        struct result run;
        if (result_parse(json_object_array_get_idx(candidates, i), &run) < 0)
            continue;
        _cleanup_free_ char *id = displayed(run.id);
        _cleanup_free_ char *script = displayed(run.script_name ? run.script_name : "");
        say("  %s  %-13s  %.40s", id, run_status_text(run.status), script);
    }
    if (n > CANDIDATES_MAX)
        say("  and others; 'sbxctl ps --all' lists your runs");
    return status;
}

int runs_find(struct varlink_client *client, const char *text, char **ret_id)
{
    _cleanup_json_ json_object *candidates = NULL;
    const char *id = text;

    if (strlen(text) < RUN_ID_LENGTH) {
        int r = find_candidates(client, text, &candidates);
        if (r != 0)
            return r;
        if (json_object_array_length(candidates) > 1)
            return fail_ambiguous(text, candidates);
        if (json_object_array_length(candidates) == 1)
            id = json_get_string(json_object_array_get_idx(candidates, 0), "id");
    }
    *ret_id = strdup(id);
    return *ret_id ? 0 : say_failure_errno(-ENOMEM, "cannot find the run");
}

int runs_find_all(struct varlink_client *client, char *const *texts, size_t n, json_object **ret)
{
    _cleanup_json_ json_object *ids = json_object_new_array();

    for (size_t i = 0; i < n; i++) {
        _cleanup_answer_ struct varlink_answer answer = {};
        _cleanup_free_ char *id = NULL;

        int r = runs_find(client, texts[i], &id);
        if (r == 0) /* tells if there is none */
            r = helper_call(client, "Describe", runs_parameters(id), &answer);
        if (r != 0)
            return r;
        if (json_append(ids, json_object_new_string(id)) < 0)
            return say_failure_errno(-ENOMEM, "cannot find the runs");
    }
    if (!ids)
        return say_failure_errno(-ENOMEM, "cannot find the runs");
    *ret = TAKE_PTR(ids);
    return 0;
}

int runs_take_result(json_object *parameters, json_object **ret_object, struct result *ret)
{
    json_object *object = json_object_object_get(parameters, "result");

    if (!object || result_parse(object, ret) < 0)
        return say_failure(EXIT_OURS, "Failed", NULL,
                           "what the helper tells about the run is not understood");
    *ret_object = json_object_get(object);
    return 0;
}

int runs_describe(struct varlink_client *client, const char *text, json_object **ret_object,
                  struct result *ret)
{
    _cleanup_answer_ struct varlink_answer answer = {};
    _cleanup_free_ char *id = NULL;

    int r = runs_find(client, text, &id);
    if (r == 0)
        r = helper_call(client, "Describe", runs_parameters(id), &answer);
    return r == 0 ? runs_take_result(answer.parameters, ret_object, ret) : r;
}
