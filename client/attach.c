/* Method Attach, again and again until the run has ended, see attach.h. */
#include "client/attach.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "client/exit-status.h"
#include "client/helper.h"
#include "client/progress.h"
#include "client/runs.h"
#include "client/say.h"
#include "common/base64.h"
#include "common/clock.h"

/* A helper that restarts takes seconds; systemd holds its socket meanwhile, so connecting works. */
#define TRIES_MAX 10
#define TRY_AGAIN_USEC (500 * 1000)

struct attachment {
    const char *id;
    const struct attach_options *options;
    struct varlink_client *client;
    struct progress progress;
    uint64_t offset[ATTACH_STREAMS]; /* what was taken */
    unsigned tries;                  /* in vain, since the last answer */
};

static void attachment_release(struct attachment *attachment)
{
    progress_end(&attachment->progress);
    varlink_client_free(attachment->client);
}

static int ask(struct attachment *attachment)
{
    json_object *parameters = runs_parameters(attachment->id);
    int r = json_add_bool(parameters, "output", attachment->options->output);

    if (r == 0 && attachment->options->output) {
        r = json_add_uint64(parameters, "stdoutOffset", attachment->offset[ATTACH_STDOUT]);
        if (r == 0)
            r = json_add_uint64(parameters, "stderrOffset", attachment->offset[ATTACH_STDERR]);
    }
    if (r < 0) {
        json_object_put(parameters);
        return say_failure_errno(r, "cannot follow the run");
    }
    attachment->client = varlink_client_free(attachment->client);
    r = helper_connect(&attachment->client);
    if (r != 0) {
        json_object_put(parameters);
        return r;
    }
    return helper_send(attachment->client, "Attach", parameters, VARLINK_CALL_MORE, NULL, 0);
}

/* The connection failed with the negative errno @error: asks again after a while. */
static int ask_again(struct attachment *attachment, int error)
{
    static const struct timespec pause = { .tv_nsec = TRY_AGAIN_USEC * 1000L };

    if (error != -ECONNRESET && error != -EPIPE)
        return helper_fail_connection(error, true);
    if (++attachment->tries > TRIES_MAX)
        return say_failure(EXIT_UNREACHABLE, "Unreachable", HELPER_GONE_HINT,
                           "the helper went away; what became of the run is not known yet");
    if (attachment->tries > 1)
        clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
    return ask(attachment);
}

struct piece {
    const char *stream, *data;
    uint64_t offset;
};

static int take_output(struct attachment *attachment, json_object *parameters)
{
    static const struct json_field fields[] = {
        { "stream", JSON_FIELD_STRING, offsetof(struct piece, stream), true },
        { "data", JSON_FIELD_STRING, offsetof(struct piece, data), true },
        { "offset", JSON_FIELD_UINT64, offsetof(struct piece, offset), true, .max = INT64_MAX },
    };
    const struct attach_options *options = attachment->options;
    _cleanup_free_ char *data = NULL;
    struct piece piece;
    size_t size;

    if (json_dispatch(parameters, fields, ELEMENTS(fields), true, &piece, &(const char *){ NULL }) <
        0)
        return helper_fail_connection(-EBADMSG, true);
    data = strdup(piece.data);
    if (!data || base64_decode(data, strlen(data), &size) < 0)
        return helper_fail_connection(data ? -EBADMSG : -ENOMEM, true);

    enum attach_stream which = strcmp(piece.stream, "stderr") == 0 ? ATTACH_STDERR : ATTACH_STDOUT;
    uint64_t *taken = &attachment->offset[which];
    /* Never twice, should the helper have begun earlier. */
    uint64_t skip = piece.offset < *taken ? *taken - piece.offset : 0;
    if (skip >= size)
        return 0;
    *taken = piece.offset + size;
    return options->on_output(which, piece.offset + skip, data + skip, size - skip,
                              options->userdata);
}

static int take_event(struct attachment *attachment, json_object *parameters)
{
    const char *event = json_get_string(parameters, "event");

    if (event && strcmp(event, "output") == 0 && attachment->options->output) {
        progress_end(&attachment->progress);
        return take_output(attachment, parameters);
    }
    if (event && (strcmp(event, "queued") == 0 || strcmp(event, "progress") == 0))
        progress_take(&attachment->progress, event, parameters);
    else
        progress_end(&attachment->progress);
    return 0;
}

/* Takes what has come. Returns 0 to go on; with @ret_done, @ret is the last answer. */
static int take_answers(struct attachment *attachment, struct varlink_answer *ret, bool *ret_done)
{
    for (;;) {
        _cleanup_answer_ struct varlink_answer answer = {};
        int r = varlink_client_receive(attachment->client, 0, &answer);

        if (r == 0)
            return 0;
        if (r < 0)
            return ask_again(attachment, r);
        attachment->tries = 0;
        if (answer.error || !answer.continues) {
            *ret = answer;
            answer = (struct varlink_answer){};
            *ret_done = true;
            return 0;
        }
        r = take_event(attachment, answer.parameters);
        if (r != 0)
            return r;
    }
}

static int follow(struct attachment *attachment, struct varlink_answer *ret)
{
    int unread = attachment->options->watches_stdout ? STDOUT_FILENO : -1;
    bool done = false;
    int r = ask(attachment);

    while (r == 0 && !done) {
        struct pollfd fds[] = {
            { varlink_client_fd(attachment->client), POLLIN, 0 },
            { unread, 0, 0 }, /* POLLERR comes without being asked for (poll(2)) */
        };
        if (poll(fds, ELEMENTS(fds), progress_timeout(&attachment->progress)) < 0 && errno != EINTR)
            return say_failure_errno(-errno, "cannot wait for the run");
        progress_show_if_due(&attachment->progress);
        if (fds[1].revents & (POLLERR | POLLHUP))
            return ATTACH_UNREAD;
        r = take_answers(attachment, ret, &done);
    }
    return r;
}

int attach(const char *id, const struct attach_options *options, struct varlink_answer *ret)
{
    _cleanup_(attachment_release) struct attachment attachment = { .id = id, .options = options };

    return follow(&attachment, ret);
}

int attach_wait(const char *id, json_object **ret_object, struct result *ret)
{
    static const struct attach_options options = {};
    _cleanup_answer_ struct varlink_answer answer = {};

    int r = attach(id, &options, &answer);
    if (r != 0)
        return r;
    return answer.error ? helper_fail(&answer)
                        : runs_take_result(answer.parameters, ret_object, ret);
}
