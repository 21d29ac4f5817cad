/* The dialogue about one cloud sandbox, see sandbox.h: start, put, go, exited, ended. */
#include "sandbox-internal.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <systemd/sd-daemon.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "key.h"

/* For files of a program that was ended: the broker is told that they are on their way, and waits.
 */
#define RESCUE_USEC (20 * USEC_PER_SEC)
#define RESCUE_MIN_USEC (3 * USEC_PER_SEC)
/* For the removal, and the look whether it is done: the broker waits 5 s for the last word. */
#define REMOVE_USEC (4 * USEC_PER_SEC)
#define PREPARE_USEC (8 * USEC_PER_SEC)
#define GONE_TIMEOUT_USEC (60 * USEC_PER_SEC)

int sandbox_refuse(struct sandbox *s, int error, const char *phase, const char *sentence)
{
    dialogue_send_error(s->broker, s->start.run_id[0] ? s->start.run_id : "prepare", phase,
                        sentence);
    return error;
}

int sandbox_refuse_cloud(struct sandbox *s, int error)
{
    return sandbox_refuse(s, error, s->cloud.unusable ? "engine" : "start", s->cloud.error);
}

int sandbox_tell_progress(struct sandbox *s, const char *phase, uint64_t current, uint64_t total)
{
    struct engine_message message = { .type = ENGINE_PROGRESS };

    snprintf(message.progress.phase, sizeof(message.progress.phase), "%s", phase);
    message.progress.current = current;
    message.progress.total = total;
    return engine_send(s->broker, &message, NULL, 0);
}

/* ---- the broker's word */

int sandbox_end_with(struct sandbox *s, enum outcome outcome)
{
    s->outcome = outcome;
    s->broker_watch->fd = -1;
    return -ECANCELED;
}

static int on_broker(void *userdata)
{
    struct sandbox *s = userdata;
    uint64_t grace = 0;

    enum outcome outcome = dialogue_receive_kill(s->broker, &grace);
    if (outcome != OUTCOME_KILL || grace == 0 || !s->runs || s->asked_to_end)
        return sandbox_end_with(s, outcome);
    s->asked_to_end = true;
    uint64_t left = s->life.end_usec > clock_now() ? s->life.end_usec - clock_now() : 0;
    uint64_t end = grace < left ? clock_now() + grace : s->life.end_usec;
    s->cloud.http.deadline_usec = end;
    (void)run_ask_to_end(&s->run);
    return 0;
}

void sandbox_note_time(struct sandbox *s)
{
    if (s->outcome == OUTCOME_READY)
        sandbox_end_with(s, clock_now() >= s->life.end_usec ? OUTCOME_TIMEOUT : OUTCOME_KILL);
}

static void supervise(struct sandbox *s)
{
    while (s->outcome == OUTCOME_READY) {
        struct pollfd fds[] = {
            { .fd = s->broker, .events = POLLIN },
            { .fd = s->control, .events = POLLIN },
        };
        int r = poll_until(fds, ELEMENTS(fds), s->life.end_usec);
        if (r < 0)
            sandbox_end_with(s, OUTCOME_GONE);
        else if (r == 0)
            sandbox_note_time(s);
        else if (fds[0].revents)
            on_broker(s);
        else if (sandbox_handle_control(s) < 0)
            sandbox_end_with(s, OUTCOME_GONE);
    }
}

/* ---- end */

static int remove_surely(struct sandbox *s)
{
    int r = cloud_delete_surely(&s->cloud, s->box.id, GONE_TIMEOUT_USEC);

    if (r < 0)
        fprintf(stderr, SD_ERR "%s: %s\n", s->box.id, s->cloud.error);
    return r;
}

static struct engine_ended count(const struct sandbox *s)
{
    struct engine_ended ended = {
        .oom_kills = s->run.report.oom_kills,
        .cpu_usec = s->run.report.cpu_usec,
        .memory_peak_bytes = UINT64_MAX,
        .task_refusals = UINT64_MAX,
        .leftovers = UINT64_MAX,
    };

    ended.why = dialogue_explain(&ended, s->outcome == OUTCOME_TIMEOUT);
    return ended;
}

static bool is_awaited(const struct sandbox *s)
{
    return s->outcome == OUTCOME_KILL || s->outcome == OUTCOME_TIMEOUT;
}

/* What the program made until it was ended. Whoever asks again, or hangs up, wants no more of it.
 */
static void rescue(struct sandbox *s)
{
    uint64_t latest = clock_now() + RESCUE_USEC, least = clock_now() + RESCUE_MIN_USEC;
    uint64_t end = s->life.end_usec - HOME_MARGIN_USEC;

    end = end < latest ? end : latest;
    s->cloud.http.deadline_usec = end > least ? end : least;
    if (run_has_files(&s->run)) {
        sandbox_tell_progress(s, ENGINE_PHASE_DOWNLOAD, 0, 0);
        s->broker_watch->fd = s->broker;
    }
    run_rescue(&s->run);
    s->broker_watch->fd = -1;
}

/* Has the sandbox removed, which ends everything in it, and looks whether it is, as long as the
 * broker waits for the last word. */
static int remove_and_tell(struct sandbox *s)
{
    struct engine_message message = { .type = ENGINE_ENDED, .ended = count(s) };

    s->cloud.http.deadline_usec = clock_now() + REMOVE_USEC;
    int r = cloud_delete_surely(&s->cloud, s->box.id, REMOVE_USEC);
    s->cloud.http.deadline_usec = UINT64_MAX;
    message.ended.cleaned = r >= 0;
    engine_send(s->broker, &message, NULL, 0);
    return r;
}

static int end(struct sandbox *s)
{
    int r = -EINPROGRESS;

    s->broker_watch->fd = -1;
    if (is_awaited(s))
        rescue(s);
    if (is_awaited(s))
        r = remove_and_tell(s);
    s->cloud.http.deadline_usec = UINT64_MAX;
    run_close(&s->run);
    return r < 0 ? remove_surely(s) : 0;
}

/* ---- all of it */

static int count_listed(const char *id, json_object *labels, void *userdata)
{
    return 0;
}

/* Without a sandbox: whether there could be one, and how many this machine has. */
static void answer_prepare(struct sandbox *s, const struct engine_prepare *wanted)
{
    strcpy(s->start.image, wanted->image);
    if (sandbox_check_key(s) < 0)
        return;
    s->cloud.http.deadline_usec = clock_now() + PREPARE_USEC;
    int n = cloud_list(&s->cloud, CLOUD_LABEL_MACHINE, s->service->machine, count_listed, NULL);
    if (n < 0) {
        sandbox_refuse_cloud(s, n);
        return;
    }
    sandbox_tell_progress(s, ENGINE_PHASE_RUNNING, (uint64_t)n, s->service->config->max_sandboxes);
    dialogue_send_prepared(s->broker, sandbox_template(s), "");
}

static int serve(struct sandbox *s)
{
    struct engine_message request;

    if (dialogue_receive_request(s->broker, &request) < 0)
        return 0;
    if (request.type == ENGINE_PREPARE) {
        answer_prepare(s, &request.prepare);
        return 0;
    }
    s->start = request.start;
    run_open(&s->run, &s->cloud, &s->envd, &s->box, sandbox_template(s), s->start.run_id);
    int r = life_open(&s->life, &s->cloud, &s->box);
    r = r < 0 ? r : sandbox_start(s);
    if (r < 0) {
        run_close(&s->run);
        /* What nobody knows of is looked for like what the dead leave, and later. */
        return s->made ? remove_surely(s) : s->cloud.may_be_left ? -EREMOTEIO : 0;
    }
    s->broker_watch->fd = s->broker;
    supervise(s);
    return end(s);
}

int sandbox_serve(int sock, uint64_t connection, const struct service *service)
{
    struct sandbox s = {
        .service = service,
        .broker = sock,
        .control = -1,
        .connection = connection,
        .outcome = OUTCOME_READY,
        .life.timer = -1,
    };

    int r = cloud_open(service->config, &s.cloud);
    if (r >= 0) {
        s.cloud.is_v1 = service->is_v1;
        s.broker_watch = http_watch(&s.cloud.http, -1, POLLIN, on_broker, &s);
        r = serve(&s);
    }
    close_fd(s.control);
    close_fd(s.broker);
    envd_close(&s.envd);
    explicit_bzero(&s.box, sizeof(s.box));
    life_close(&s.life);
    cloud_close(&s.cloud);
    key_forget();
    if (r >= 0)
        places_leave(service->places, connection);
    return r;
}
