/* The life of one sandbox, see sandbox.h: start, ready, kill, ended. */
#include "sandbox.h"

#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <systemd/sd-daemon.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "engine/account.h"
#include "engine/borrowed.h"
#include "engine/counters.h"
#include "engine/dialogue.h"
#include "etc.h"
#include "runtime.h"
#include "unit.h"

#define READY_TIMEOUT_SEC 20
#define GONE_TIMEOUT_SEC 5

struct sandbox {
    int broker;
    int control; /* until it is the broker's */
    sd_bus *bus;
    unsigned systemd;
    uint64_t connection;
    struct engine_start start;
    char etc[ETC_PATH_MAX];
    struct account account;
    char unit[UNIT_NAME_MAX];
    char cgroup[UNIT_CGROUP_MAX];
    uint64_t cpu_before_usec; /* used before the program could start */
};

/* Tells the broker, in a sentence for the user, why there is no sandbox. */
static void send_error(const struct sandbox *s, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void send_error(const struct sandbox *s, const char *format, ...)
{
    char sentence[ENGINE_TEXT_MAX + 1];
    va_list args;

    va_start(args, format);
    vsnprintf(sentence, sizeof(sentence), format, args);
    va_end(args);
    dialogue_send_error(s->broker, s->unit, "start", sentence);
}

/* ---- start */

/* What is asked for and cannot be had here. */
static int check_start(const struct sandbox *s)
{
    if (s->start.image[0] != '\0') {
        send_error(s, "The systemd engine has no images, it runs this machine's own programs. "
                      "Leave out the image, or choose the docker engine.");
        return -EOPNOTSUPP;
    }
    if (s->start.network) {
        send_error(s, "The systemd engine cannot give a sandbox access to the network.");
        return -EOPNOTSUPP;
    }
    int r = s->start.wheels[0] != '\0' ? borrowed_check_wheels(s->start.wheels) : 0;
    if (r < 0)
        send_error(s, BORROWED_WHEELS_ERROR, s->start.wheels, strerror(-r));
    return r;
}

/* Greets the bus until the broker says something, which may be minutes. Without a bus in the end it
 * is tried once more, by whoever needs it. */
static void await_request(struct sandbox *s)
{
    int r = sd_bus_open_system(&s->bus);

    while (r >= 0) {
        struct pollfd fds[] = {
            { .fd = s->broker, .events = POLLIN },
            { .fd = sd_bus_get_fd(s->bus), .events = (short)sd_bus_get_events(s->bus) },
        };
        r = fds[1].fd < 0 ? fds[1].fd : poll_until(fds, ELEMENTS(fds), UINT64_MAX);
        if (r >= 0 && fds[0].revents)
            return;
        r = r < 0 ? r : sd_bus_process(s->bus, NULL);
    }
    s->bus = sd_bus_flush_close_unref(s->bus);
}

static int connect_bus(struct sandbox *s)
{
    int r = s->bus ? 0 : sd_bus_open_system(&s->bus);
    if (r < 0)
        send_error(s, "The system bus cannot be reached (%s). Is dbus.service running?",
                   strerror(-r));
    return r;
}

static int prepare(struct sandbox *s)
{
    char hostname[HOST_NAME_MAX + 1] = "";
    int r = connect_bus(s);
    if (r < 0)
        return r;
    r = etc_get(s->etc);
    if (r < 0) {
        send_error(s, "The /etc of the sandbox cannot be made in /run: %s.", strerror(-r));
        return r;
    }
    r = gethostname(hostname, sizeof(hostname) - 1) < 0 ? -errno : 0;
    r = r < 0 ? r
              : account_create(RUNTIME_DIR, s->connection, hostname, s->start.cpu_percent,
                               &s->account);
    if (r < 0)
        send_error(s, "The files of the sandbox cannot be made in /run: %s.", strerror(-r));
    return r;
}

/* Asks for the unit. The launcher's end of the control socket is PID 1's alone afterwards. */
static int launch(struct sandbox *s)
{
    _cleanup_free_ char *error = NULL;
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
        send_error(s, "No control socket can be made: %s.", strerror(errno));
        return -errno;
    }
    _cleanup_close_ int far = pair[1];
    s->control = pair[0];

    const struct unit_spec spec = {
        .name = s->unit,
        .start = &s->start,
        .connection = s->connection,
        .control = far,
        .etc = s->etc,
        .account = s->account.directory,
        .cpu_list = s->account.cpu_list,
        .systemd = s->systemd,
    };
    int r = unit_start(s->bus, &spec, &error);
    if (r < 0)
        send_error(s, "systemd refused to start the sandbox: %s", error ? error : strerror(-r));
    return r;
}

/* ---- ready */

/* The steps of systemd.exec(5), "Process Exit Codes", that fail where something is wrong with the
 * machine. */
static const char *describe_status(int32_t status)
{
    switch (status) {
    case 203:
        return "the launcher could not be executed";
    case 217:
        return "no user could be allocated";
    case 225:
        return "no network namespace could be made";
    case 226:
        return "its file systems could not be set up";
    case 228:
        return "its system call filter could not be set up";
    default:
        return "the launcher ended early";
    }
}

/* Says why the launcher did not come up. */
static void send_not_ready(const struct sandbox *s)
{
    struct unit_state state;

    /* PID 1 learns of the launcher's end a moment after its socket is closed. */
    for (unsigned i = 0; i < 20; i++) {
        if (unit_get_state(s->bus, s->unit, &state) < 0)
            break;
        if (!state.active) {
            send_error(s,
                       "The sandbox did not start: %s (status %" PRId32
                       "). 'journalctl -u %s' has more.",
                       describe_status(state.exit_status), state.exit_status, s->unit);
            return;
        }
        usleep(10000);
    }
    send_error(
        s, "The sandbox did not get ready in %d s. The machine may be overloaded; try again later.",
        READY_TIMEOUT_SEC);
}

/* Hands the workspace and the control socket to the broker. From here on it speaks to the launcher
 * itself. */
static enum outcome hand_over(struct sandbox *s, int workspace)
{
    struct engine_message message = { .type = ENGINE_READY };
    const int fds[] = { workspace, s->control };

    strcpy(message.ready.sandbox_id, s->unit);
    int r = engine_send(s->broker, &message, fds, ELEMENTS(fds));
    s->control = close_fd(s->control);
    return r < 0 ? OUTCOME_GONE : OUTCOME_READY;
}

static enum outcome get_ready(struct sandbox *s)
{
    _cleanup_close_ int workspace = -1;
    struct launch_ready ready;

    enum outcome outcome = dialogue_await_ready(
        s->broker, s->control, READY_TIMEOUT_SEC * USEC_PER_SEC, &ready, &workspace);
    if (outcome == OUTCOME_FAILED)
        send_not_ready(s);
    if (outcome != OUTCOME_READY)
        return outcome;
    int r = account_fill(&s->account, ready.uid, ready.gid);
    if (r < 0) {
        send_error(s, "The sandbox's user list cannot be written in /run: %s.", strerror(-r));
        return OUTCOME_FAILED;
    }
    return hand_over(s, workspace);
}

/* ---- run */

/* Waits for the end: the broker's word or hanging up, or the lifetime. */
static enum outcome supervise(const struct sandbox *s)
{
    struct dialogue_ends ends = dialogue_ends(&s->start);
    enum outcome outcome;

    while ((outcome = dialogue_await_end(s->broker, &ends)) == OUTCOME_GRACE)
        /* The launcher ignores it, the programs may use it to tidy up. */
        if (unit_kill(s->bus, s->unit, SIGTERM) < 0)
            return OUTCOME_KILL;
    return outcome;
}

/* ---- end */

/* What is left to know of a unit that ended before its counters were read. */
static void ask_afterwards(const struct sandbox *s, struct engine_ended *ended, bool *timed_out)
{
    struct unit_state state;

    if (unit_get_state(s->bus, s->unit, &state) < 0)
        return;
    *timed_out = *timed_out || strcmp(state.result, "timeout") == 0;
    if (strcmp(state.result, "oom-kill") == 0)
        ended->oom_kills = 1;
    if (counter_is_known(state.cpu_nsec))
        ended->cpu_usec = state.cpu_nsec / 1000;
    if (counter_is_known(state.memory_peak))
        ended->memory_peak_bytes = state.memory_peak;
}

static struct engine_ended count(const struct sandbox *s, bool timed_out)
{
    struct counters counters;

    counters_read(s->cgroup, &counters);
    struct engine_ended ended = dialogue_count(&counters, s->cpu_before_usec);
    if (!counter_is_known(counters.processes))
        ask_afterwards(s, &ended, &timed_out);
    ended.why = dialogue_explain(&ended, timed_out);
    return ended;
}

/* Makes sure that the unit is gone; the broker has its answer already. Returns 0 or -ETIMEDOUT. */
static int await_gone(const struct sandbox *s)
{
    uint64_t deadline = clock_now() + GONE_TIMEOUT_SEC * USEC_PER_SEC;
    struct unit_state state;

    for (unsigned pause = 2000; clock_now() < deadline;
         pause = pause < 100000 ? pause * 2 : pause) {
        if (unit_get_state(s->bus, s->unit, &state) >= 0 && !state.active)
            return 0;
        usleep(pause);
    }
    fprintf(stderr, SD_ERR "%s is still there %d s after it was killed.\n", s->unit,
            GONE_TIMEOUT_SEC);
    unit_stop(s->bus, s->unit);
    return -ETIMEDOUT;
}

/* Reads the counters while the sandbox stands, then has everything in it killed. */
static int end(const struct sandbox *s, enum outcome outcome)
{
    bool is_asked = outcome == OUTCOME_KILL || outcome == OUTCOME_TIMEOUT;
    struct engine_ended ended = count(s, outcome == OUTCOME_TIMEOUT);

    if (is_asked)
        dialogue_tell_end(s->broker, &ended);
    int r = unit_kill(s->bus, s->unit, SIGKILL);
    if (r < 0)
        fprintf(stderr, SD_ERR "%s cannot be killed: %s\n", s->unit, strerror(-r));
    if (is_asked)
        dialogue_tell_removed(s->broker, &ended, r >= 0);
    return await_gone(s);
}

/* ---- all of it */

/* Without a sandbox: whether there could be one. */
static int answer_prepare(struct sandbox *s, const struct engine_prepare *wanted)
{
    strcpy(s->start.image, wanted->image);
    if (check_start(s) >= 0 && connect_bus(s) >= 0)
        dialogue_send_prepared(s->broker, "", "");
    return 0;
}

static int serve(struct sandbox *s)
{
    struct engine_message request;
    struct counters before;

    await_request(s);
    if (dialogue_receive_request(s->broker, &request) < 0)
        return 0;
    if (request.type == ENGINE_PREPARE)
        return answer_prepare(s, &request.prepare);
    s->start = request.start;
    unit_name(s->start.run_id, s->unit);
    /* A refusal was sent by whoever refused; there is no unit then. */
    if (check_start(s) < 0 || prepare(s) < 0 || launch(s) < 0)
        return 0;
    enum outcome outcome = get_ready(s);
    if (unit_get_cgroup(s->bus, s->unit, s->cgroup) < 0)
        s->cgroup[0] = '\0';
    counters_read(s->cgroup, &before);
    s->cpu_before_usec = before.cpu_usec;
    if (outcome == OUTCOME_READY)
        outcome = supervise(s);
    return end(s, outcome);
}

int sandbox_serve(int sock, uint64_t connection, unsigned systemd)
{
    struct sandbox s = {
        .broker = sock,
        .control = -1,
        .systemd = systemd,
        .connection = connection,
    };

    int r = serve(&s);
    account_remove(RUNTIME_DIR, connection);
    close_fd(s.control);
    close_fd(s.broker);
    sd_bus_flush_close_unref(s.bus);
    return r;
}
