/* sbxctl run: from the command line to the exit status. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "client/agent.h"
#include "client/exit-status.h"
#include "client/helper.h"
#include "client/outcome.h"
#include "client/plan.h"
#include "client/request.h"
#include "client/result.h"
#include "client/run-options.h"
#include "client/save.h"
#include "client/say.h"
#include "client/session.h"
#include "client/verb.h"

static bool stdin_is_null_device(void)
{
    struct stat st;
    return fstat(STDIN_FILENO, &st) == 0 && S_ISCHR(st.st_mode) && st.st_rdev == makedev(1, 3);
}

/* Whether our stdin is the script's. A job in the background would be stopped for reading from its
 * terminal (SIGTTIN), and with --json nobody sits there to answer the script. */
static bool passes_input(const struct run_options *options, const struct request *request)
{
    if (request->stdin_is_script || stdin_is_null_device())
        return false;
    if (!isatty(STDIN_FILENO))
        return true;
    return !options->json && tcgetpgrp(STDIN_FILENO) == getpgrp();
}

/* With --json the text of the output comes in the result, so pipes are needed for input only. */
static int add_streams(struct request *request, const struct session_options *session)
{
    const char *streams = session->pass_input || session->pass_output ? "descriptors" : "none";
    int r = json_add_string(request->parameters, "streams", streams);
    return r < 0 ? say_failure_errno(r, "cannot start the run") : 0;
}

static int finish(const struct run_options *options, json_object *object)
{
    struct result result;
    int r = 0, status;

    if (!object || result_parse(object, &result) < 0)
        return say_failure(EXIT_OURS, "Failed", NULL, "the helper's result is not understood");

    status = exit_status_of_result(&result);
    if (options->json)
        r = print_json(object);
    say_mode.json = false; /* standard output has its object */
    outcome_say(&result, !options->json && !options->output);
    if (options->output && result.output_directory) {
        int saved = save_outputs(result.output_directory, options->output, NULL);
        if (r == 0)
            r = saved;
    }
    return status != 0 ? status : r;
}

static int show_plan(const struct run_options *options, json_object *plan)
{
    return options->json && plan ? print_json(plan) : plan_print(plan);
}

static int run_request(const struct run_options *options, struct varlink_client *client,
                       struct request *request)
{
    _cleanup_answer_ struct varlink_answer answer = {};
    const struct session_options session = {
        .pass_input = !options->dry_run && passes_input(options, request),
        .pass_output = !options->json && !options->dry_run,
    };

    int r = add_streams(request, &session);
    if (r == 0)
        r = session_run(client, request, &session, &answer);
    if (r != 0)
        return r;
    if (options->dry_run)
        return show_plan(options, json_object_object_get(answer.parameters, "plan"));
    return finish(options, json_object_object_get(answer.parameters, "result"));
}

int verb_run(const struct verb *verb, int argc, char **argv)
{
    _cleanup_(run_options_release) struct run_options options = {};
    _cleanup_(request_release) struct request request = {};
    _cleanup_client_ struct varlink_client *client = NULL;
    _cleanup_(agent_stop) struct agent agent = AGENT_NULL;
    int r;

    if (!run_options_parse(verb, argc, argv, &options, &r))
        return r;
    say_mode = (struct say_mode){ .quiet = options.quiet, .json = options.json };

    r = request_make(&options, &request);
    if (r == 0)
        r = helper_connect(&client);
    if (r != 0)
        return r;
    if (!options.no_ask_password && !options.dry_run && run_options_exceed_defaults(&options))
        agent_start(&agent);
    return run_request(&options, client, &request);
}
