/* The loop of a run, see session.h. */
#include "client/session.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "client/exit-status.h"
#include "client/helper.h"
#include "client/live.h"
#include "client/progress.h"
#include "client/pump.h"
#include "client/runs.h"
#include "client/say.h"
#include "common/cleanup.h"

struct session {
    const struct session_options *options;
    struct varlink_client *client;    /* borrowed; NULL once the last answer came */
    struct varlink_client *canceller; /* carries method Cancel, after the first SIGINT */
    int signals;
    struct pump *pump;
    bool is_started, is_answered;
    bool is_cancelled, is_killed; /* asked for */
    bool is_asking;               /* a dialog about an approval is open */
    bool has_asked;
    void (*on_stop_key)(int);
    int lost; /* negative errno of a connection that ended too early; 0 otherwise */
    char *id; /* NULL until the helper has told it */
    struct progress progress;
    struct live live;
    struct varlink_answer final;
};

static void session_release(struct session *session)
{
    varlink_client_free(session->canceller);
    close_fd(session->signals);
    pump_free(session->pump);
    free(session->id);
    varlink_answer_release(&session->final);
}

static int take_signals(void)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
        return -errno;
    int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return fd < 0 ? -errno : fd;
}

static int give_up(const struct session *session)
{
    if (session->is_asking) {
        fputc('\n', stderr); /* the dialog's prompt stands there */
        return say_failure(EXIT_INTERRUPTED, "Interrupted", NULL, "interrupted; nothing was run");
    }
    return say_failure(EXIT_INTERRUPTED, "Interrupted", NULL, "interrupted; the run is ended");
}

/* Asks for the run to be cancelled, over a connection of its own: the first one waits for the
 * answer to Run (varlink.org: answers come in the order of calls). */
static int send_cancel(struct session *session, bool kill)
{
    _cleanup_json_ json_object *parameters = runs_parameters(session->id);

    if (!parameters || (kill && json_add_bool(parameters, "kill", true) < 0))
        return say_failure_errno(-ENOMEM, "cannot cancel the run");
    session->canceller = varlink_client_free(session->canceller);
    int r = helper_connect(&session->canceller);
    return r == 0 ? helper_send(session->canceller, "Cancel", TAKE_PTR(parameters), 0, NULL, 0) : r;
}

/* The first time with grace for the program. */
static int cancel(struct session *session)
{
    int r = send_cancel(session, session->is_cancelled);

    if (r != 0)
        return r;
    session->is_killed = session->is_cancelled;
    session->is_cancelled = true;
    pump_close_stdin(session->pump);
    say(session->is_killed ? "killing it; once more to leave at once"
                           : "cancelling the run and keeping what it made; once more to kill it");
    return 0;
}

static int handle_signals(struct session *session)
{
    struct signalfd_siginfo info;

    while (read(session->signals, &info, sizeof(info)) == sizeof(info)) {
        /* Only output is left to be passed on, and that may be what takes too long. */
        bool may_cancel = session->client && session->id && !session->is_asking;
        if (info.ssi_signo != SIGINT || session->is_killed || !may_cancel)
            return give_up(session);
        int r = cancel(session);
        if (r != 0)
            return r;
    }
    return 0;
}

static void start_streams(struct session *session, struct varlink_answer *answer)
{
    bool input = session->options->pass_input, output = session->options->pass_output;
    const int own[PUMP_DIRECTIONS] = {
        input ? STDIN_FILENO : -1,
        output ? STDOUT_FILENO : -1,
        output ? STDERR_FILENO : -1,
    };
    int run[PUMP_DIRECTIONS];

    for (size_t i = 0; i < PUMP_DIRECTIONS; i++)
        run[i] = TAKE_FD(answer->fds[i]);
    pump_start(session->pump, run, own);
}

/* Said at once: the dialog may hide behind a window. Not into one on our terminal. */
static void say_approval(json_object *parameters)
{
    const char *phase = json_get_string(parameters, "phase");
    _cleanup_free_ char *shown = displayed(phase ? phase : "asking for an approval");

    say("%s", shown);
}

/* Ctrl-Z does nothing meanwhile: the shell and the agent would both read from the terminal, and
 * after fg(1) the password would be seen. */
static void note_asking(struct session *session, bool is_asking)
{
    if (is_asking && !session->is_asking)
        session->on_stop_key = signal(SIGTSTP, SIG_IGN);
    if (!is_asking && session->is_asking)
        signal(SIGTSTP, session->on_stop_key);
    session->is_asking = is_asking;
    session->has_asked = session->has_asked || is_asking;
}

/* 0 if a helper does not tell it. */
static uint64_t time_limit(json_object *parameters)
{
    json_object *limit = NULL;

    return json_object_object_get_ex(parameters, "timeoutUSec", &limit)
               ? json_object_get_uint64(limit)
               : 0;
}

static int handle_event(struct session *session, struct varlink_answer *answer)
{
    const char *event = json_get_string(answer->parameters, "event");
    const char *id = json_get_string(answer->parameters, "id");

    if (id && !session->id) {
        session->id = strdup(id);
        if (!session->id)
            return say_failure_errno(-ENOMEM, "cannot follow the run");
    }
    note_asking(session, event && strcmp(event, "approval") == 0);
    if (session->is_asking) {
        if (!session->options->shows_dialogs)
            say_approval(answer->parameters);
        return 0;
    }
    if (!event || strcmp(event, "started") != 0) {
        if (event && !session->is_started)
            progress_take(&session->progress, event, answer->parameters);
        return 0;
    }
    progress_end(&session->progress);
    /* A script can print what looks like the dialog, and reads what is typed. */
    if (session->has_asked && !session->is_started && isatty(STDERR_FILENO))
        say("approved; whatever asks for a password from here on is the script");
    if (answer->n_fds >= PUMP_DIRECTIONS && !session->is_started)
        start_streams(session, answer);
    if (!session->is_started)
        live_begin(&session->live, time_limit(answer->parameters), session->options->pass_output);
    session->is_started = true;
    return 0;
}

/* Takes what the helper has answered so far. */
static int handle_answers(struct session *session)
{
    for (;;) {
        _cleanup_answer_ struct varlink_answer answer = {};
        int r = varlink_client_receive(session->client, 0, &answer);

        if (r == 0)
            return 0;
        if (r < 0) {
            /* What the run has said so far still waits in the pipes. */
            session->lost = r;
            session->client = NULL;
            return 0;
        }
        session->is_answered = true;
        if (answer.error || !answer.continues) {
            progress_end(&session->progress);
            live_end(&session->live);
            pump_close_stdin(session->pump);
            session->client = NULL;
            session->final = answer;
            answer = (struct varlink_answer){};
            return 0;
        }
        r = handle_event(session, &answer);
        if (r != 0)
            return r;
    }
}

/* The answer to Cancel. A refusal is not told: the run may have ended by itself. */
static void handle_canceller(struct session *session)
{
    _cleanup_answer_ struct varlink_answer answer = {};
    int r = varlink_client_receive(session->canceller, 0, &answer);

    if (r == 0)
        return;
    if (r < 0)
        say_warning("could not cancel the run: %s", strerror(-r));
    session->canceller = varlink_client_free(session->canceller);
}

enum { POLL_SIGNALS, POLL_CLIENT, POLL_CANCELLER, POLL_PUMP, POLL_FDS = POLL_PUMP + PUMP_POLL_FDS };

/* Whichever line is due first; there is never more than one. */
static int timeout(const struct session *session)
{
    return session->is_started ? live_timeout(&session->live)
                               : progress_timeout(&session->progress);
}

static int wait_and_dispatch(struct session *session)
{
    struct pollfd fds[POLL_FDS] = {
        [POLL_SIGNALS] = { session->signals, POLLIN, 0 },
        [POLL_CLIENT] = { session->client ? varlink_client_fd(session->client) : -1, POLLIN, 0 },
        [POLL_CANCELLER] = { session->canceller ? varlink_client_fd(session->canceller) : -1,
                             POLLIN, 0 },
    };
    int r = 0;

    pump_prepare(session->pump, fds + POLL_PUMP);
    if (poll(fds, ELEMENTS(fds), timeout(session)) < 0)
        return errno == EINTR ? 0 : say_failure_errno(-errno, "cannot wait for the run");

    progress_show_if_due(&session->progress);
    live_before_output(&session->live, session->pump);
    live_show_if_due(&session->live, session->pump);
    if (fds[POLL_SIGNALS].revents)
        r = handle_signals(session);
    if (r == 0 && fds[POLL_CANCELLER].revents && session->canceller)
        handle_canceller(session);
    if (r == 0)
        pump_dispatch(session->pump, fds + POLL_PUMP);
    if (r == 0 && fds[POLL_CLIENT].revents)
        r = handle_answers(session);
    return r;
}

static int loop(struct session *session)
{
    while (session->client || !pump_is_drained(session->pump)) {
        int r = wait_and_dispatch(session);
        if (r != 0)
            return r;
    }
    progress_end(&session->progress);
    live_end(&session->live);
    return session->lost ? helper_fail_connection(session->lost, session->is_answered) : 0;
}

int session_run(struct varlink_client *client, struct request *request,
                const struct session_options *options, struct varlink_answer *ret)
{
    _cleanup_(session_release) struct session session = {
        .options = options, .client = client, .signals = -1, .pump = pump_new()
    };

    if (!session.pump)
        return say_failure_errno(-ENOMEM, "cannot start the run");

    int r = helper_send(client, "Run", TAKE_PTR(request->parameters), VARLINK_CALL_MORE,
                        request->fds, request->n_fds);
    request_release(request);
    if (r != 0)
        return r;
    session.signals = take_signals();
    if (session.signals < 0)
        return say_failure_errno(session.signals, "cannot follow the run");
    r = loop(&session);
    if (r != 0)
        return r;

    int error = pump_error(session.pump);
    if (error)
        return say_failure(EXIT_OURS, "Failed", NULL, "cannot write the output of the script: %s",
                           strerror(error));
    *ret = session.final;
    session.final = (struct varlink_answer){};
    return 0;
}
