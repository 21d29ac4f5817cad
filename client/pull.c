/* sbxctl pull: gets an image, with progress. */
#include <errno.h>
#include <poll.h>
#include <string.h>

#include "client/agent.h"
#include "client/helper.h"
#include "client/progress.h"
#include "client/say.h"
#include "client/verb.h"
#include "common/clock.h"

/* Takes what came so far. Returns 1 with the last answer in @ret, 0 to go on waiting, or a negative
 * exit status after telling why. */
static int take_answers(struct varlink_client *client, struct progress *progress,
                        struct varlink_answer *ret)
{
    for (;;) {
        _cleanup_answer_ struct varlink_answer answer = {};
        int r = varlink_client_receive(client, 0, &answer);

        if (r == 0)
            return 0;
        if (r < 0)
            return -helper_fail_connection(r, false);
        if (answer.error || !answer.continues) {
            progress_end(progress);
            *ret = answer;
            answer = (struct varlink_answer){};
            return 1;
        }
        const char *event = json_get_string(answer.parameters, "event");
        const char *phase = json_get_string(answer.parameters, "phase");
        _cleanup_free_ char *shown = displayed(phase ? phase : "");
        if (event && strcmp(event, "approval") == 0)
            say("%s", shown);
        else if (event)
            progress_take(progress, event, answer.parameters);
    }
}

static int await(struct varlink_client *client, struct varlink_answer *ret)
{
    struct progress progress = {};

    for (;;) {
        struct pollfd fd = { varlink_client_fd(client), POLLIN, 0 };
        if (poll(&fd, 1, progress_timeout(&progress)) < 0 && errno != EINTR)
            return say_failure_errno(-errno, "cannot wait for the image");
        progress_show_if_due(&progress);
        int r = take_answers(client, &progress, ret);
        if (r != 0)
            return r < 0 ? -r : 0;
    }
}

static json_object *make_parameters(const struct verb_arguments *arguments)
{
    json_object *parameters = json_object_new_object();

    if (json_add_string(parameters, "image", arguments->arguments[0]) < 0 ||
        json_add_string(parameters, "engine", arguments->engine) < 0 ||
        json_add_bool(parameters, "allowInteractiveAuthentication", !arguments->no_ask_password) <
            0) {
        json_object_put(parameters);
        return NULL;
    }
    return parameters;
}

static int pull(const struct verb_arguments *arguments, struct varlink_answer *ret)
{
    _cleanup_client_ struct varlink_client *client = NULL;
    struct agent agent = AGENT_NULL;
    json_object *parameters = make_parameters(arguments);

    if (!parameters)
        return say_failure_errno(-ENOMEM, "cannot ask for the image");
    int r = helper_connect(&client);
    if (r != 0) {
        json_object_put(parameters);
        return r;
    }
    if (!arguments->no_ask_password)
        agent_start(&agent);
    r = helper_send(client, "PullImage", parameters, VARLINK_CALL_MORE, NULL, 0);
    if (r == 0)
        r = await(client, ret);
    agent_stop(&agent);
    return r;
}

int verb_pull(const struct verb *verb, int argc, char **argv)
{
    _cleanup_answer_ struct varlink_answer answer = {};
    struct verb_arguments arguments;
    int r;

    if (!verb_read_arguments(verb, argc, argv, 1, 1, &arguments, &r))
        return r;
    say_mode.json = arguments.json;
    r = pull(&arguments, &answer);
    if (r != 0)
        return r;
    if (answer.error)
        return helper_fail(&answer);
    if (arguments.json)
        return print_json(answer.parameters);
    const char *digest = json_get_string(answer.parameters, "imageDigest");
    _cleanup_free_ char *image = displayed(arguments.arguments[0]);
    _cleanup_free_ char *shown = displayed(digest ? digest : "");
    say("%s is here: %s", image, shown);
    return 0;
}
