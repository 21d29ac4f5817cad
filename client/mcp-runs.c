/* get_run, cancel_run, list_runs, see mcp-runs.h. */
#include "client/mcp-runs.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "client/exit-status.h"
#include "client/mcp-arguments.h"
#include "client/mcp-query.h"
#include "client/mcp-result.h"
#include "client/mcp-run.h"
#include "client/result.h"
#include "client/runs.h"
#include "client/say.h"
#include "client/text.h"
#include "common/clock.h"

#define LIST_DEFAULT 20
#define LIST_MAX 100
/* Between two looks at a run that another program has started. */
#define LOOK_USEC USEC_PER_SEC

/* ---- get_run ---- */

static void describe(struct mcp_call *call);

static int on_look(sd_event_source *source, uint64_t usec, void *userdata)
{
    describe(userdata);
    return 0;
}

static bool is_over(json_object *object)
{
    struct result result;
    return result_parse(object, &result) < 0 || run_status_is_final(result.status);
}

/* Whether the call goes on waiting. */
static bool look_again(struct mcp_call *call, json_object *result)
{
    uint64_t now = clock_now();

    if (is_over(result) || now + LOOK_USEC > call->begun_usec + call->wait_usec)
        return false;
    call->timer = sd_event_source_disable_unref(call->timer);
    return sd_event_add_time(call->server->event, &call->timer, CLOCK_MONOTONIC, now + LOOK_USEC, 0,
                             on_look, call) >= 0;
}

static void on_described(struct mcp_call *call, json_object *parameters)
{
    json_object *result = json_object_object_get(parameters, "result");
    const struct mcp_result_form form = { .knows_links = call->knows_links,
                                          .asks_for_end = call->asks_for_end };

    if (!look_again(call, result))
        mcp_call_reply(call, mcp_result_of_run(result, &form));
}

static void describe(struct mcp_call *call)
{
    const char *id = json_get_string(call->arguments, "id");
    mcp_query(call, "Describe", runs_parameters(id), on_described);
}

/* The argument that names a run; false if the call has been answered. */
static bool take_id(struct mcp_call *call, const char *const *names, const char **ret)
{
    *ret = NULL;
    int r = mcp_arguments_check(call->arguments, names);

    if (r == 0)
        r = mcp_argument_string(call->arguments, "id", ret);
    if (r == 0 && !*ret)
        r = say_failure(EXIT_USAGE, "Invalid", "list_runs has the ids of your runs",
                        "the argument id is missing");
    if (r != 0)
        mcp_query_fail(call);
    return r == 0;
}

void mcp_get_run(struct mcp_call *call)
{
    static const char *const names[] = { "id", "waitSeconds", NULL };
    uint64_t seconds = MCP_WAIT_MAX;
    struct mcp_run *run;
    const char *id;

    if (!take_id(call, names, &id))
        return;
    if (mcp_argument_number(call->arguments, "waitSeconds", 0, MCP_WAIT_MAX, &seconds) != 0) {
        mcp_query_fail(call);
        return;
    }
    call->wait_usec = seconds * USEC_PER_SEC;
    call->asks_for_end = true;
    run = mcp_run_find(call->server, id);
    if (run)
        mcp_run_wait(run, call);
    else
        describe(call);
}

/* ---- cancel_run ---- */

static void on_cancelled(struct mcp_call *call, json_object *parameters)
{
    const char *id = json_get_string(call->arguments, "id");
    struct mcp_run *run = mcp_run_find(call->server, id);

    if (run)
        mcp_run_wait(run, call);
    else
        describe(call);
}

void mcp_cancel_run(struct mcp_call *call)
{
    static const char *const names[] = { "id", NULL };
    const char *id;

    if (!take_id(call, names, &id))
        return;
    call->wait_usec = MCP_WAIT_MAX * USEC_PER_SEC;
    call->asks_for_end = true;
    mcp_query(call, "Cancel", runs_parameters(id), on_cancelled);
}

/* ---- list_runs ---- */

static void print_run(FILE *to, json_object *object, uint64_t now)
{
    struct result result;
    char age[TEXT_AGE];

    if (result_parse(object, &result) < 0)
        return;
    _cleanup_free_ char *id = displayed(result.id), *language = NULL, *script = NULL;
    language = displayed(result.language ? result.language : "?");
    script = displayed(result.script_name ? result.script_name : "?");
    fprintf(to, "\n- %s: %s, %s, %s, %s", id, run_status_text(result.status),
            result.started_usec == UNKNOWN ? "not started"
                                           : text_age(result.started_usec, now, age),
            language, script);
}

/* With whole ids, which is what a model needs. */
static char *list_text(json_object *list)
{
    size_t size, n = json_object_array_length(list);
    char *text = NULL;
    FILE *to = open_memstream(&text, &size);

    if (!to)
        return NULL;
    fprintf(to, "%zu run%s", n, n == 1 ? "" : "s");
    for (size_t i = 0; i < n; i++)
        print_run(to, json_object_array_get_idx(list, i), clock_usec(CLOCK_REALTIME));
    if (fclose(to) != 0) {
        free(text);
        return NULL;
    }
    return text;
}

static void on_listed(struct mcp_call *call, json_object *parameters)
{
    json_object *list = json_object_object_get(parameters, "runs");
    json_object *structured = json_object_new_object();
    _cleanup_free_ char *text = NULL;

    if (json_object_is_type(list, json_type_array))
        text = list_text(list);
    (void)json_add(structured, "runs", json_object_get(list));
    mcp_call_reply(call, text ? mcp_result_new(structured, text) : NULL);
}

void mcp_list_runs(struct mcp_call *call)
{
    static const char *const names[] = { "all", "limit", NULL };

    json_object *parameters;
    uint64_t limit = LIST_DEFAULT;
    bool all = true;

    int r = mcp_arguments_check(call->arguments, names);
    if (r == 0)
        r = mcp_argument_bool(call->arguments, "all", &all);
    if (r == 0)
        r = mcp_argument_number(call->arguments, "limit", 1, LIST_MAX, &limit);
    if (r != 0) {
        mcp_query_fail(call);
        return;
    }
    parameters = json_object_new_object();
    (void)json_add_bool(parameters, "active", !all);
    (void)json_add_uint64(parameters, "limit", limit);
    mcp_query(call, "List", parameters, on_listed);
}
