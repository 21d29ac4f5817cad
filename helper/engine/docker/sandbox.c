/* The life of one sandbox, see sandbox.h: image, start, ready, kill, ended. */
#include "sandbox-internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <systemd/sd-daemon.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "config-paths.h"
#include "engine/borrowed.h"
#include "engine/counters.h"
#include "searched.h"

/* The broker waits 5 s for the last word. */
#define KILL_TIMEOUT_USEC (3 * USEC_PER_SEC)
#define HANG_UP_USEC (USEC_PER_SEC / 10)
#define GONE_TIMEOUT_SEC 60

int sandbox_refuse(const struct sandbox *s, int error, const char *sentence)
{
    dialogue_send_error(s->broker, s->name, "start", sentence);
    return error;
}

int sandbox_refuse_api(const struct sandbox *s, int error)
{
    dialogue_send_error(s->broker, s->name, s->api.unusable ? "engine" : "start", s->api.error);
    return error;
}

/* ---- start */

static int prepare(struct sandbox *s)
{
    int r = account_create(RUNTIME_DIR, s->connection, CONTAINER_HOSTNAME, s->start.cpu_percent,
                           &s->account);
    r = r < 0 ? r : account_fill(&s->account, s->service->uid, s->service->gid);
    r = r < 0 ? r : control_listen(&s->control, RUNTIME_DIR, s->connection);
    return r < 0 ? sandbox_refuse(s, r,
                                  "The files of the sandbox cannot be made in /run. Is it full?")
                 : 0;
}

static int launch(struct sandbox *s)
{
    const struct container_spec spec = {
        .start = &s->start,
        .image = s->image.id,
        .service = s->service->id,
        .connection = s->connection,
        .uid = s->service->uid,
        .gid = s->service->gid,
        .launcher = SBXCTL_LIBEXECDIR "/sbxctl-launch",
        .inside = SBXCTL_LIBEXECDIR "/inside",
        .control = s->control.path,
        .account = &s->account,
        .runtime = s->service->config->runtime,
        .searched = searched_has(s->service->searched, &s->image),
        .is_podman = s->api.is_podman,
    };

    int r = container_create(&s->api, &spec, s->name, s->id);
    /* After a time-out nobody knows. One that has our name is somebody else's. */
    s->made = r != -EEXIST;
    r = r < 0 ? r : container_start(&s->api, s->name);
    return r < 0 ? sandbox_refuse_api(s, r) : 0;
}

static int check_wheels(const struct sandbox *s)
{
    const char *wheels = s->start.wheels;
    char sentence[ENGINE_TEXT_MAX + 1];

    int r = wheels[0] != '\0' ? borrowed_check_wheels(wheels) : 0;
    if (r == 0)
        return 0;
    snprintf(sentence, sizeof(sentence), BORROWED_WHEELS_ERROR, wheels, strerror(-r));
    return sandbox_refuse(s, r, sentence);
}

static int start(struct sandbox *s)
{
    if (s->start.network)
        return sandbox_refuse(s, -EOPNOTSUPP,
                              "The Docker engine cannot give a sandbox access to the "
                              "network.");
    int r = check_wheels(s);
    if (r < 0)
        return r;
    r = api_open(s->service->config->socket, &s->service->version, &s->api);
    if (r < 0)
        return sandbox_refuse_api(s, r);
    if (s->service->must_sweep)
        container_sweep(&s->api, s->service->id, 0);
    r = sandbox_get_image(s, false);
    r = r < 0 ? r : prepare(s);
    return r < 0 ? r : launch(s);
}

/* ---- run */

static enum outcome supervise(struct sandbox *s)
{
    struct dialogue_ends ends = dialogue_ends(&s->start);
    enum outcome outcome;

    while ((outcome = dialogue_await_end(s->broker, &ends)) == OUTCOME_GRACE)
        /* The launcher hands it on to the programs, which may use it to tidy up. */
        if (container_kill(&s->api, s->name, "SIGTERM", KILL_TIMEOUT_USEC) < 0)
            return OUTCOME_KILL;
    return outcome;
}

/* ---- end */

/* What is left to know of a container that ended before its counters were read. */
static void ask_afterwards(struct sandbox *s, struct engine_ended *ended)
{
    struct container_state state;

    if (container_inspect(&s->api, s->name, &state) >= 0 && state.exists)
        ended->oom_kills = state.oom_killed;
}

static struct engine_ended count(struct sandbox *s)
{
    struct counters counters;

    counters_read(s->cgroup, &counters);
    struct engine_ended ended = dialogue_count(&counters, s->cpu_before_usec);
    if (!counter_is_known(ended.oom_kills))
        ask_afterwards(s, &ended);
    if (!counter_is_known(ended.memory_peak_bytes) && counter_is_known(counters.processes))
        ended.memory_peak_bytes = container_memory_peak(&s->api, s->name);
    return ended;
}

/* Makes sure that the container is gone; the broker has its answer already. A daemon that is being
 * restarted gets some time. Returns 0 or a negative errno. */
static int await_gone(struct sandbox *s)
{
    uint64_t deadline = clock_now() + GONE_TIMEOUT_SEC * USEC_PER_SEC;
    struct container_state state;
    int r = -EBUSY;

    for (unsigned pause = 10000; clock_now() < deadline;
         pause = pause < 500000 ? pause * 2 : pause) {
        r = container_remove(&s->api, s->name);
        r = r < 0 ? r : container_inspect(&s->api, s->name, &state);
        if (r >= 0 && !state.exists)
            return 0;
        usleep(pause);
    }
    fprintf(stderr, SD_ERR "%s is still there %d s after it was removed: %s\n", s->name,
            GONE_TIMEOUT_SEC, s->api.error);
    return r < 0 ? r : -ETIMEDOUT;
}

/* With the launcher, which is PID 1 in there, the kernel has ended everything in the container. It
 * ends by itself in a millisecond (measured), where the daemon takes ten or more to kill it. */
static int kill_all(struct sandbox *s)
{
    if (control_hang_up(&s->control, HANG_UP_USEC))
        return 0;
    if (s->control.launcher < 0)
        return container_kill(&s->api, s->name, "SIGKILL", KILL_TIMEOUT_USEC);
    return container_kill_until(&s->api, s->name, s->control.launcher, KILL_TIMEOUT_USEC);
}

/* Reads the counters while the sandbox stands, then has everything in it killed. */
static int end(struct sandbox *s, enum outcome outcome)
{
    bool is_asked = outcome == OUTCOME_KILL || outcome == OUTCOME_TIMEOUT;
    struct engine_ended ended = count(s);

    ended.why = dialogue_explain(&ended, outcome == OUTCOME_TIMEOUT);
    if (is_asked)
        dialogue_tell_end(s->broker, &ended);
    int r = kill_all(s);
    if (r < 0)
        fprintf(stderr, SD_ERR "%s: %s\n", s->name, s->api.error);
    if (is_asked)
        dialogue_tell_removed(s->broker, &ended, r >= 0);
    return await_gone(s);
}

/* ---- all of it */

/* Without a sandbox: whether there could be one, and of which image. */
static int answer_prepare(struct sandbox *s, const struct engine_prepare *wanted)
{
    strcpy(s->start.image, wanted->image);
    strcpy(s->name, "prepare");
    int r = api_open(s->service->config->socket, &s->service->version, &s->api);
    if (r < 0)
        sandbox_refuse_api(s, r);
    else if (wanted->image[0])
        r = wanted->look ? sandbox_look_for_image(s) : sandbox_get_image(s, !wanted->any_state);
    if (r >= 0)
        dialogue_send_prepared(s->broker, wanted->image, s->image.digest);
    return 0;
}

static int serve(struct sandbox *s)
{
    struct engine_message request;
    struct counters before;

    if (dialogue_receive_request(s->broker, &request) < 0)
        return 0;
    if (request.type == ENGINE_PREPARE)
        return answer_prepare(s, &request.prepare);
    s->start = request.start;
    container_name(s->start.run_id, s->name);
    /* A refusal was sent by whoever refused. */
    if (start(s) < 0)
        return s->made ? await_gone(s) : 0;
    enum outcome outcome = sandbox_get_ready(s);
    counters_read(s->cgroup, &before);
    s->cpu_before_usec = before.cpu_usec;
    if (outcome == OUTCOME_READY)
        outcome = supervise(s);
    return end(s, outcome);
}

int sandbox_serve(int sock, uint64_t connection, const struct service *service)
{
    struct sandbox s = {
        .service = service,
        .broker = sock,
        .control = CONTROL_NULL,
        .connection = connection,
    };

    int r = serve(&s);
    control_close(&s.control);
    account_remove(RUNTIME_DIR, connection);
    close_fd(s.broker);
    api_close(&s.api);
    return r;
}

int sandbox_sweep(struct service *service, uint64_t connection)
{
    struct api api;

    int r = api_open(service->config->socket, &service->version, &api);
    if (r >= 0)
        service->version = api.version;
    r = r < 0 ? r : container_sweep(&api, service->id, connection);
    if (r < 0)
        fprintf(stderr, SD_WARNING "Cannot look for abandoned sandboxes: %s\n", api.error);
    api_close(&api);
    return r < 0 ? r : 0;
}
