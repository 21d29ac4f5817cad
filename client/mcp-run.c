/* A run of this server, from the call of run_code to its result, see mcp-run.h. */
#include "client/mcp-run.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "client/exit-status.h"
#include "client/helper.h"
#include "client/mcp-arguments.h"
#include "client/mcp-result.h"
#include "client/mcp-tail.h"
#include "client/runs.h"
#include "client/say.h"
#include "common/clock.h"

/* Between two words about a call that waits. */
#define PROGRESS_USEC (5 * USEC_PER_SEC)
/* For the id of a run, at most. */
#define LATE_USEC ((MCP_WAIT_MAX + 3) * USEC_PER_SEC)

struct mcp_run {
    struct mcp_server *server;
    struct mcp_run *next;
    struct mcp_link *link, *canceller;
    char *id;           /* NULL until the helper has told it */
    const char *status; /* as in type Status */
    char *phase;        /* what is being done before it starts, or NULL */
    char *note;         /* what was said of the request, or NULL */
    uint64_t begun_usec, started_usec;
    struct mcp_tail tails[2]; /* stdout, stderr */

    /* What the program reads. */
    int input_fd;
    sd_event_source *input_source;
    char *input;
    size_t input_size, input_done;
};

static void end_input(struct mcp_run *run)
{
    run->input_source = sd_event_source_disable_unref(run->input_source);
    run->input_fd = close_fd(run->input_fd);
    free(run->input);
    run->input = NULL;
}

void mcp_run_free(struct mcp_run *run)
{
    struct mcp_run **at = &run->server->runs;

    while (*at != run)
        at = &(*at)->next;
    *at = run->next;
    for (struct mcp_call *call = run->server->calls; call; call = call->next)
        if (call->run == run)
            call->run = NULL;
    mcp_link_free(run->link);
    mcp_link_free(run->canceller);
    for (size_t i = 0; i < ELEMENTS(run->tails); i++)
        mcp_tail_end(&run->tails[i]);
    end_input(run);
    free(run->id);
    free(run->phase);
    free(run->note);
    free(run);
}

struct mcp_run *mcp_run_find(struct mcp_server *server, const char *id)
{
    for (struct mcp_run *run = server->runs; run; run = run->next)
        if (run->id && strcmp(run->id, id) == 0)
            return run;
    return NULL;
}

/* ---- The end ---- */

static struct mcp_call *next_waiting(struct mcp_run *run)
{
    for (struct mcp_call *call = run->server->calls; call; call = call->next)
        if (call->run == run)
            return call;
    return NULL;
}

static struct mcp_result_form form_of(const struct mcp_run *run, const struct mcp_call *call)
{
    return (struct mcp_result_form){ .knows_links = call->knows_links,
                                     .asks_for_end = call->asks_for_end,
                                     .note = run->note };
}

static void finish(struct mcp_run *run, json_object *result)
{
    for (struct mcp_call *call; (call = next_waiting(run));) {
        const struct mcp_result_form form = form_of(run, call);
        mcp_call_reply(call, mcp_result_of_run(result, &form));
    }
    mcp_run_free(run);
}

/* With what was said. */
static void fail(struct mcp_run *run)
{
    _cleanup_(said_release) struct said said = {};
    const char *before = run->started_usec ? "" : "Nothing was run: ";

    said_take(&said);
    for (struct mcp_call *call; (call = next_waiting(run));)
        mcp_call_reply(call, mcp_result_of_failure(&said, before));
    mcp_run_free(run);
}

static void on_cancel_answer(struct varlink_answer *answer, void *userdata)
{
    struct mcp_run *run = userdata;
    run->canceller = mcp_link_free(run->canceller);
}

static void on_cancel_lost(void *userdata)
{
    /* The connection of the run itself is what ends it for sure. */
    fail(userdata);
}

void mcp_run_end(struct mcp_run *run)
{
    const struct mcp_link_handlers handlers = { on_cancel_answer, on_cancel_lost, run };
    _cleanup_(request_release) struct request request = {};

    if (run->canceller)
        return;
    if (run->id)
        request.parameters = runs_parameters(run->id);
    if (!request.parameters || mcp_link_new(&run->server->links, "Cancel", false, &request,
                                            &handlers, &run->canceller) < 0) {
        (void)say_failure(EXIT_INTERRUPTED, "Interrupted", NULL, "cancelled before it began");
        fail(run);
    }
}

/* ---- While it goes on ---- */

static char *phase_text(const struct mcp_run *run, uint64_t now)
{
    char *text = NULL;
    int n = run->started_usec ? asprintf(&text, "running for %" PRIu64 " s",
                                         (now - run->started_usec) / USEC_PER_SEC)
                              : asprintf(&text, "%s", run->phase ? run->phase : run->status);
    return n < 0 ? NULL : text;
}

static json_object *state(const struct mcp_run *run)
{
    _cleanup_json_ json_object *result = json_object_new_object();
    _cleanup_free_ char *phase = phase_text(run, clock_now()), *reason = NULL;

    if (!phase || asprintf(&reason, "The run goes on: %s.", phase) < 0)
        return NULL;
    if (json_add_string(result, "id", run->id) < 0 ||
        json_add_string(result, "status", run->status) < 0 ||
        json_add_string(result, "reason", reason) < 0 ||
        json_add_string(result, "hint",
                        "Call get_run with this id for the result, or cancel_run to end it.") < 0)
        return NULL;
    if (run->started_usec && (json_add(result, "stdout", mcp_tail_object(&run->tails[0])) < 0 ||
                              json_add(result, "stderr", mcp_tail_object(&run->tails[1])) < 0))
        return NULL;
    return TAKE_PTR(result);
}

static void answer_with_state(struct mcp_run *run, struct mcp_call *call)
{
    const struct mcp_result_form form = form_of(run, call);
    _cleanup_json_ json_object *object = NULL;

    object = state(run);
    mcp_call_reply(call, object ? mcp_result_of_run(object, &form) : NULL);
}

static void set_timer(struct mcp_call *call);

/* A handle is all that there could be to tell, so that it comes late rather than never. */
static void wait_for_id(struct mcp_call *call)
{
    if (call->is_late) {
        (void)say_failure(EXIT_OURS, "Failed", "try again later",
                          "the helper did not take the run");
        fail(call->run);
        return;
    }
    call->is_late = true;
    call->wait_usec = LATE_USEC;
    set_timer(call);
}

static void answer_late_calls(struct mcp_run *run)
{
    for (struct mcp_call *call = run->server->calls, *next; call; call = next) {
        next = call->next;
        if (call->run == run && call->is_late)
            answer_with_state(run, call);
    }
}

static int on_wait(sd_event_source *source, uint64_t usec, void *userdata)
{
    struct mcp_call *call = userdata;
    uint64_t now = clock_now();
    _cleanup_free_ char *text = NULL;

    if (now >= call->begun_usec + call->wait_usec) {
        if (call->run->id)
            answer_with_state(call->run, call);
        else
            wait_for_id(call);
        return 0;
    }
    text = phase_text(call->run, now);
    if (text)
        mcp_call_progress(call, text);
    set_timer(call);
    return 0;
}

static void set_timer(struct mcp_call *call)
{
    uint64_t now = clock_now(), until = call->begun_usec + call->wait_usec;

    if (call->token && until > now + PROGRESS_USEC)
        until = now + PROGRESS_USEC;
    call->timer = sd_event_source_disable_unref(call->timer);
    if (sd_event_add_time(call->server->event, &call->timer, CLOCK_MONOTONIC, until, 0, on_wait,
                          call) < 0)
        mcp_call_refuse(call, MCP_ERROR_INTERNAL, "Out of memory.");
}

void mcp_run_wait(struct mcp_run *run, struct mcp_call *call)
{
    call->run = run;
    set_timer(call);
}

/* ---- What the helper tells ---- */

static int on_input_room(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
    struct mcp_run *run = userdata;
    ssize_t n = write(fd, run->input + run->input_done, run->input_size - run->input_done);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (n > 0)
        run->input_done += (size_t)n;
    if (n < 0 || run->input_done == run->input_size)
        end_input(run);
    return 0;
}

static void start_input(struct mcp_run *run, int fd)
{
    run->input_fd = fd;
    if (run->input_size > 0) {
        (void)fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
        if (sd_event_add_io(run->server->event, &run->input_source, fd, EPOLLOUT, on_input_room,
                            run) >= 0)
            return;
    }
    end_input(run);
}

static void start(struct mcp_run *run, struct varlink_answer *answer)
{
    run->status = "running";
    run->started_usec = clock_now();
    if (answer->n_fds < 3)
        return;
    start_input(run, TAKE_FD(answer->fds[0]));
    for (size_t i = 0; i < ELEMENTS(run->tails); i++)
        (void)mcp_tail_start(&run->tails[i], run->server->event, TAKE_FD(answer->fds[i + 1]));
}

static void set_phase(struct mcp_run *run, const char *event, json_object *parameters)
{
    const char *phase = json_get_string(parameters, "phase");
    const char *package = json_get_string(parameters, "package");
    json_object *position = json_object_object_get(parameters, "position");
    char *text = NULL;
    int n;

    if (strcmp(event, "queued") == 0)
        n = asprintf(&text, "queued behind %" PRId64 " runs", json_object_get_int64(position));
    else if (phase && package)
        n = asprintf(&text, "%s %s", phase, package);
    else
        n = asprintf(&text, "%s", phase ? phase : event);
    if (n < 0)
        return;
    free(run->phase);
    run->phase = displayed(text);
    free(text);
    run->status = strcmp(event, "progress") == 0 ? "starting" : "queued";
}

static void take_event(struct mcp_run *run, const char *event, struct varlink_answer *answer)
{
    const char *id = json_get_string(answer->parameters, "id");
    _cleanup_free_ char *text = NULL;

    if (id && !run->id)
        run->id = strdup(id);
    if (strcmp(event, "started") == 0 && !run->started_usec)
        start(run, answer);
    else if (!run->started_usec)
        set_phase(run, event, answer->parameters);
    text = phase_text(run, clock_now());
    for (struct mcp_call *call = run->server->calls; text && call; call = call->next)
        if (call->run == run)
            mcp_call_progress(call, text);
    if (run->id)
        answer_late_calls(run);
}

static void on_answer(struct varlink_answer *answer, void *userdata)
{
    struct mcp_run *run = userdata;
    const char *event = json_get_string(answer->parameters, "event");

    if (answer->error) {
        (void)helper_fail(answer);
        fail(run);
    } else if (answer->continues) {
        take_event(run, event ? event : "progress", answer);
    } else {
        finish(run, json_object_object_get(answer->parameters, "result"));
    }
}

static void on_lost(void *userdata)
{
    fail(userdata);
}

/* ---- The beginning ---- */

static struct mcp_run *run_new(struct mcp_server *server)
{
    struct mcp_run *run = calloc(1, sizeof(*run));

    if (!run)
        return NULL;
    *run = (struct mcp_run){ .server = server,
                             .next = server->runs,
                             .status = "queued",
                             .input_fd = -1,
                             .begun_usec = clock_now(),
                             .tails = { { .fd = -1 }, { .fd = -1 } } };
    server->runs = run;
    return run;
}

static int make_request(struct mcp_call *call, struct mcp_run *run, struct request *ret)
{
    _cleanup_(mcp_arguments_release) struct mcp_run_arguments arguments = {};

    int r = mcp_arguments_parse(call->arguments, &arguments);
    if (r == 0)
        r = mcp_arguments_request(&arguments, ret);
    if (r != 0)
        return r;
    call->wait_usec = arguments.wait_seconds * USEC_PER_SEC;
    if (arguments.standard_input) {
        run->input = strdup(arguments.standard_input);
        run->input_size = run->input ? strlen(run->input) : 0;
    }
    return 0;
}

/* What was left out of a directory, say. */
static void take_note(struct mcp_run *run)
{
    _cleanup_(said_release) struct said said = {};

    said_take(&said);
    run->note = TAKE_PTR(said.text);
}

void mcp_run_code(struct mcp_call *call)
{
    _cleanup_(request_release) struct request request = {};
    struct mcp_run *run = run_new(call->server);
    const struct mcp_link_handlers handlers = { on_answer, on_lost, run };

    if (!run) {
        mcp_call_refuse(call, MCP_ERROR_INTERNAL, "Out of memory.");
        return;
    }
    call->run = run;
    call->ends_run = true;
    if (make_request(call, run, &request) != 0) {
        fail(run);
        return;
    }
    take_note(run);
    /* The arguments may be large, and are not needed any more. */
    json_object_put(call->arguments);
    call->arguments = NULL;
    if (mcp_link_new(&call->server->links, "Run", true, &request, &handlers, &run->link) < 0) {
        (void)say_failure_errno(-ENOMEM, "cannot start the run");
        fail(run);
        return;
    }
    set_timer(call);
}
