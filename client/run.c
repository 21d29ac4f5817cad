/* sbxctl run: from the command line to the exit status. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "client/agent.h"
#include "client/exit-status.h"
#include "client/figures.h"
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
    if (options->detach || request->stdin_is_script || stdin_is_null_device())
        return false;
    if (!isatty(STDIN_FILENO))
        return true;
    return !options->json && tcgetpgrp(STDIN_FILENO) == getpgrp();
}

/* With --json the text of the output comes in the result, so pipes are needed for input only. */
static int add_streams(struct request *request, bool are_passed)
{
    const char *streams = are_passed ? "descriptors" : "none";
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
        if (saved != 0)
            say("all of them are kept in %s/files", result.output_directory);
        if (r == 0)
            r = saved;
    } else if (options->output && status == 0) {
        say_error("nothing of the run was kept, so nothing was copied");
        r = EXIT_OURS;
    }
    if (options->show)
        figures_show(&result);
    if (options->open)
        figures_open(&result);
    return status != 0 ? status : r;
}

static int show_plan(const struct run_options *options, json_object *plan)
{
    return options->json && plan ? print_json(plan) : plan_print(plan);
}

static int run_request(const struct run_options *options, struct varlink_client *client,
                       struct request *request, bool shows_dialogs, struct varlink_answer *ret)
{
    bool input = passes_input(options, request), output = !options->json && !options->detach;
    const struct session_options session = {
        .pass_input = input && !options->dry_run,
        .pass_output = output && !options->dry_run,
        .shows_dialogs = shows_dialogs,
    };

    /* What a dry run tells is to be what the run would ask for. */
    int r = add_streams(request, input || output);
    return r == 0 ? session_run(client, request, &session, ret) : r;
}

/* The id is for scripts, so it stands alone. */
static int show_detached(const struct run_options *options, json_object *parameters)
{
    const char *id = json_get_string(parameters, "id");
    json_object *result = json_object_object_get(parameters, "result");

    if (!id || (options->json && !result))
        return say_failure(EXIT_OURS, "Failed", NULL, "the helper's answer is not understood");
    if (options->json)
        return print_json(result);
    _cleanup_free_ char *shown = displayed(id);
    puts(shown);
    return print_end();
}

static bool is_detached(const struct varlink_answer *answer)
{
    const char *event = json_get_string(answer->parameters, "event");
    return event && strcmp(event, "detached") == 0;
}

static int show_answer(const struct run_options *options, const struct varlink_answer *answer)
{
    if (answer->error)
        return helper_fail(answer);
    if (options->dry_run)
        return show_plan(options, json_object_object_get(answer->parameters, "plan"));
    if (is_detached(answer))
        return show_detached(options, answer->parameters);
    return finish(options, json_object_object_get(answer->parameters, "result"));
}

static bool lacks_agent(const struct varlink_answer *answer)
{
    return answer->error && strcmp(answer->error, "io.sbxctl.Sandbox.ApprovalRequired") == 0;
}

static int repeat(const struct run_options *options, struct varlink_client *client,
                  const struct agent *agent, struct varlink_answer *answer)
{
    _cleanup_(request_release) struct request request = {};
    int r = request_make(options, &request);

    varlink_answer_release(answer);
    return r == 0 ? run_request(options, client, &request, agent->is_the_one, answer) : r;
}

int verb_run(const struct verb *verb, int argc, char **argv)
{
    _cleanup_(run_options_release) struct run_options options = {};
    _cleanup_(request_release) struct request request = {};
    _cleanup_(agent_stop) struct agent agent = AGENT_NULL; /* after the connection is closed */
    _cleanup_client_ struct varlink_client *client = NULL;
    _cleanup_answer_ struct varlink_answer answer = {};
    bool may_ask, may_repeat;
    int r = 0;

    if (!run_options_parse(verb, argc, argv, &options, &r))
        return r;
    say_mode = (struct say_mode){ .quiet = options.quiet, .json = options.json };

    if (options.output)
        r = save_check_target(options.output);
    if (r == 0)
        r = request_make(&options, &request);
    if (r == 0)
        r = helper_connect(&client);
    if (r != 0)
        return r;
    /* An agent takes as long to start as a run. So where no more than the defaults is asked for, it
     * is started only once the helper has said that the rules of this machine want one even then.
     */
    may_ask = !options.no_ask_password && !options.dry_run;
    may_repeat = may_ask && !request.stdin_is_script && !run_options_exceed_defaults(&options);
    if (may_ask && !may_repeat)
        agent_start(&agent);
    r = run_request(&options, client, &request, agent.is_the_one, &answer);
    if (r == 0 && may_repeat && lacks_agent(&answer)) {
        agent_start(&agent);
        if (agent.pid > 0)
            r = repeat(&options, client, &agent, &answer);
    }
    return r == 0 ? show_answer(&options, &answer) : r;
}
