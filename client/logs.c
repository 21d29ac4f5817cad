/* sbxctl logs: what a run has written, each stream to our own, and what it still writes. */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "client/attach.h"
#include "client/exit-status.h"
#include "client/helper.h"
#include "client/result.h"
#include "client/runs.h"
#include "client/say.h"
#include "client/verb.h"
#include "common/base64.h"
#include "common/quantity.h"

/* What on_output() returns besides an exit status. */
#define GOT_ALL (-2)

static const char *const names[ATTACH_STREAMS] = { "stdout", "stderr" };

struct logs {
    bool json, follows;
    uint64_t taken[ATTACH_STREAMS];
    uint64_t wanted[ATTACH_STREAMS]; /* of a run that goes on, without --follow */
};

/* Our stream may be one that somebody else made not to block. */
static int write_out(int fd, const char *data, size_t size)
{
    while (size > 0) {
        ssize_t n = write(fd, data, size);
        if (n >= 0) {
            data += n;
            size -= (size_t)n;
        } else if (errno == EAGAIN) {
            struct pollfd writable = { fd, POLLOUT, 0 };
            (void)poll(&writable, 1, -1);
        } else if (errno == EPIPE) {
            return ATTACH_UNREAD;
        } else if (errno != EINTR) {
            return say_failure_errno(-errno, "cannot write the output of the script");
        }
    }
    return 0;
}

/* A line of JSON for each piece. The bytes may be anything, and may end within a character. */
static int print_piece(enum attach_stream stream, uint64_t offset, const char *data, size_t size)
{
    _cleanup_json_ json_object *object = json_object_new_object();
    _cleanup_free_ char *text = base64_encode(data, size, NULL);

    if (!text || json_add_string(object, "stream", names[stream]) < 0 ||
        json_add_uint64(object, "offset", offset) < 0 || json_add_string(object, "data", text) < 0)
        return say_failure_errno(-ENOMEM, "cannot show the output");
    return print_json(object);
}

static void say_gap(enum attach_stream stream, uint64_t bytes)
{
    char size[QUANTITY_TEXT];
    say_warning("%s of %s are missing here: they were not kept", format_bytes(bytes, size),
                names[stream]);
}

static bool has_all(const struct logs *logs)
{
    for (size_t i = 0; i < ATTACH_STREAMS; i++)
        if (logs->taken[i] < logs->wanted[i])
            return false;
    return !logs->follows;
}

static int take(enum attach_stream stream, uint64_t offset, const char *data, size_t size,
                void *userdata)
{
    struct logs *logs = userdata;
    uint64_t *taken = &logs->taken[stream];
    int r;

    if (offset > *taken && !logs->json)
        say_gap(stream, offset - *taken);
    *taken = offset + size;
    if (logs->json)
        r = print_piece(stream, offset, data, size);
    else
        r = write_out(stream == ATTACH_STDERR ? STDERR_FILENO : STDOUT_FILENO, data, size);
    return r == 0 && has_all(logs) ? GOT_ALL : r;
}

static uint64_t kept_bytes(json_object *object)
{
    struct stream stream;
    return object && stream_parse(object, &stream) == 0 ? stream.kept_bytes : 0;
}

/* All that there is now, of a run that goes on. */
static void want_what_is_there(struct logs *logs, const struct result *run)
{
    logs->wanted[ATTACH_STDOUT] = kept_bytes(run->standard_output);
    logs->wanted[ATTACH_STDERR] = kept_bytes(run->standard_error);
}

/* What was written beyond what is kept comes to those only who follow. */
static void say_rest(const struct logs *logs, json_object *parameters)
{
    _cleanup_json_ json_object *object = NULL;
    struct result run;

    if (logs->json || runs_take_result(parameters, &object, &run) != 0)
        return;
    json_object *const streams[ATTACH_STREAMS] = { run.standard_output, run.standard_error };
    for (size_t i = 0; i < ATTACH_STREAMS; i++) {
        struct stream stream;
        if (streams[i] && stream_parse(streams[i], &stream) == 0 && stream.bytes > logs->taken[i])
            say_gap((enum attach_stream)i, stream.bytes - logs->taken[i]);
    }
}

static int show(struct logs *logs, const char *id)
{
    const struct attach_options options = {
        .output = true, .on_output = take, .userdata = logs, .watches_stdout = true
    };
    _cleanup_answer_ struct varlink_answer answer = {};

    int r = attach(id, &options, &answer);
    if (r == GOT_ALL || r == ATTACH_UNREAD)
        return 0;
    if (r != 0)
        return r;
    if (answer.error)
        return helper_fail(&answer);
    say_rest(logs, answer.parameters);
    return 0;
}

int verb_logs(const struct verb *verb, int argc, char **argv)
{
    _cleanup_client_ struct varlink_client *client = NULL;
    _cleanup_json_ json_object *object = NULL;
    struct verb_arguments arguments;
    struct logs logs = {};
    struct result run;
    int r;

    if (!verb_read_arguments(verb, argc, argv, 1, 1, &arguments, &r))
        return r;
    say_mode.json = logs.json = arguments.json;
    logs.follows = arguments.follow;
    r = helper_connect(&client);
    if (r == 0)
        r = runs_describe(client, arguments.arguments[0], &object, &run);
    if (r != 0)
        return r;
    if (!logs.follows && !run_status_is_final(run.status)) {
        want_what_is_there(&logs, &run);
        if (has_all(&logs))
            return 0;
    } else {
        logs.follows = true;
    }
    return show(&logs, run.id);
}
