/* The life of one sandbox, see sandbox.h: image, start, ready, kill, ended. */
#include "sandbox.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <systemd/sd-daemon.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/image-reference.h"
#include "config-paths.h"
#include "container.h"
#include "control.h"
#include "engine/borrowed.h"
#include "engine/counters.h"
#include "engine/dialogue.h"
#include "image.h"
#include "searched.h"

#define READY_TIMEOUT_SEC 20
#define LOOK_USEC USEC_PER_SEC
/* The broker waits 5 s for the last word. */
#define KILL_TIMEOUT_USEC (3 * USEC_PER_SEC)
#define HANG_UP_USEC (USEC_PER_SEC / 10)
#define GONE_TIMEOUT_SEC 60
#define PROGRESS_USEC (USEC_PER_SEC / 5)

struct sandbox {
    const struct service *service;
    int broker;
    struct control control;
    struct api api;
    uint64_t connection;
    struct engine_start start;
    struct account account;
    struct image image;
    char name[CONTAINER_NAME_MAX];
    bool made; /* there is, or may be, a container */
    char id[CONTAINER_ID_MAX];
    char cgroup[CONTROL_CGROUP_MAX];
    uint64_t cpu_before_usec;    /* used before the program could start */
    uint64_t last_progress_usec; /* when the broker was last told of it */
};

static int refuse(const struct sandbox *s, int error, const char *sentence)
{
    dialogue_send_error(s->broker, s->name, "start", sentence);
    return error;
}

/* In the words that the api has for it. The phase tells the broker whether another engine would
 * help. */
static int refuse_api(const struct sandbox *s, int error)
{
    dialogue_send_error(s->broker, s->name, s->api.unusable ? "engine" : "start", s->api.error);
    return error;
}

/* ---- image */

static bool broker_spoke(const struct sandbox *s)
{
    struct pollfd fd = { .fd = s->broker, .events = POLLIN };

    return poll(&fd, 1, 0) != 0;
}

/* Whatever the broker says before it has a sandbox is that it does not want one any more. */
static bool on_pull_progress(uint64_t current, uint64_t total, void *userdata)
{
    struct sandbox *s = userdata;
    struct engine_message message = { .type = ENGINE_PROGRESS };

    if (broker_spoke(s))
        return false;
    if (clock_now() - s->last_progress_usec < PROGRESS_USEC)
        return true;
    s->last_progress_usec = clock_now();
    strcpy(message.progress.phase, "pull");
    message.progress.current = current;
    message.progress.total = total;
    return engine_send(s->broker, &message, NULL, 0) >= 0;
}

/* With @newest it is pulled even if it is here. */
static int get_image(struct sandbox *s, bool newest)
{
    const char *reference = s->start.image;

    if (!image_reference_is_valid(reference))
        return refuse(s, -EINVAL,
                      "That is not the name of an image: use NAME:TAG or "
                      "NAME@sha256:DIGEST.");
    int r = newest ? -ENOENT : image_find(&s->api, reference, &s->image);
    if (r == -ENOENT && !s->api.unusable) {
        r = image_pull(&s->api, reference, newest, s->service->config->pull_timeout_usec,
                       on_pull_progress, s);
        if (r == -ECANCELED)
            return r;
        r = r < 0 ? r : image_find(&s->api, reference, &s->image);
    }
    return r < 0 ? refuse_api(s, r) : 0;
}

/* ---- start */

static int prepare(struct sandbox *s)
{
    int r = account_create(RUNTIME_DIR, s->connection, CONTAINER_HOSTNAME, s->start.cpu_percent,
                           &s->account);
    r = r < 0 ? r : account_fill(&s->account, s->service->uid, s->service->gid);
    r = r < 0 ? r : control_listen(&s->control, RUNTIME_DIR, s->connection);
    return r < 0 ? refuse(s, r, "The files of the sandbox cannot be made in /run. Is it full?") : 0;
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
    return r < 0 ? refuse_api(s, r) : 0;
}

static int check_wheels(const struct sandbox *s)
{
    const char *wheels = s->start.wheels;
    char sentence[ENGINE_TEXT_MAX + 1];

    int r = wheels[0] != '\0' ? borrowed_check_wheels(wheels) : 0;
    if (r == 0)
        return 0;
    snprintf(sentence, sizeof(sentence), BORROWED_WHEELS_ERROR, wheels, strerror(-r));
    return refuse(s, r, sentence);
}

static int start(struct sandbox *s)
{
    if (s->start.network)
        return refuse(s, -EOPNOTSUPP,
                      "The Docker engine cannot give a sandbox access to the "
                      "network.");
    int r = check_wheels(s);
    if (r < 0)
        return r;
    r = api_open(s->service->config->socket, &s->service->version, &s->api);
    if (r < 0)
        return refuse_api(s, r);
    if (s->service->must_sweep)
        container_sweep(&s->api, s->service->id, 0);
    r = get_image(s, false);
    r = r < 0 ? r : prepare(s);
    return r < 0 ? r : launch(s);
}

/* ---- ready */

/* Says why the launcher did not come up. */
static void refuse_not_ready(struct sandbox *s)
{
    struct container_state state = { 0 };
    char sentence[ENGINE_TEXT_MAX + 1];

    if (container_inspect(&s->api, s->name, &state) < 0) {
        refuse_api(s, -ECONNRESET);
        return;
    }
    if (!state.running && state.exit_code == LAUNCH_STATUS_NODES)
        snprintf(sentence, sizeof(sentence),
                 "The image '%.200s' has device nodes of its own, or folders too deep to look for "
                 "them, so nothing runs in it. Use another image.",
                 s->start.image);
    else if (!state.running)
        snprintf(sentence, sizeof(sentence),
                 "The container ended before the program could be started (status %d%s).",
                 state.exit_code, state.oom_killed ? ", out of memory" : "");
    else
        snprintf(sentence, sizeof(sentence),
                 "The sandbox did not get ready in %d s. The machine may be overloaded, or the "
                 "container cannot reach the engine's socket; try again later.",
                 READY_TIMEOUT_SEC);
    refuse(s, -ETIMEDOUT, sentence);
}

/* Hands the workspace and the control socket to the broker. From here on it speaks to the launcher
 * itself, and nobody can connect to the socket in the container any more. What stays here is only
 * hung up at the end. */
static enum outcome hand_over(struct sandbox *s, int workspace)
{
    struct engine_message message = { .type = ENGINE_READY };
    const int fds[] = { workspace, s->control.sock };

    strcpy(message.ready.sandbox_id, s->name);
    snprintf(message.ready.image, sizeof(message.ready.image), "%s", s->start.image);
    strcpy(message.ready.image_digest, s->image.digest);
    return engine_send(s->broker, &message, fds, ELEMENTS(fds)) < 0 ? OUTCOME_GONE : OUTCOME_READY;
}

/* A process of this container; nobody else on this machine can be in a control group of its name.
 * If a daemon names them otherwise, it is asked. */
static bool is_launcher(struct sandbox *s)
{
    struct container_state state;

    control_cgroup(s->control.pid, s->cgroup);
    if (s->id[0] != '\0' && strstr(s->cgroup, s->id))
        return true;
    return container_inspect(&s->api, s->name, &state) >= 0 && state.pid > 0 &&
           state.pid == s->control.pid;
}

/* The runtime makes a network namespace without being asked, and nothing that is asked for forbids
 * the daemon to have it otherwise: so it is looked at. */
static bool has_own_network(const struct sandbox *s)
{
    uint64_t network;

    return control_network(s->control.sock, &network) >= 0 && network != s->service->network;
}

static bool runs(struct sandbox *s)
{
    struct container_state state;

    return container_inspect(&s->api, s->name, &state) >= 0 && state.running;
}

/* An image can keep the launcher from coming, so now and then it is asked whether it still can. */
static int accept_launcher(struct sandbox *s, uint64_t deadline)
{
    for (;;) {
        uint64_t look = clock_now() + LOOK_USEC;
        int r = control_accept(&s->control, s->broker, look < deadline ? look : deadline);
        if (r >= 0 && is_launcher(s)) {
            control_stop_listening(&s->control);
            return r;
        }
        if (r >= 0)
            control_turn_away(&s->control);
        else if (r != -ETIMEDOUT || clock_now() >= deadline || !runs(s))
            return r;
    }
}

static enum outcome get_ready(struct sandbox *s)
{
    uint64_t deadline = clock_now() + READY_TIMEOUT_SEC * USEC_PER_SEC;
    _cleanup_close_ int workspace = -1;
    struct launch_ready ready;

    int r = accept_launcher(s, deadline);
    if (r == -ECANCELED)
        return OUTCOME_GONE;
    if (r >= 0 && !has_own_network(s)) {
        refuse(s, -EPERM,
               "Docker gave the sandbox the machine's own network, so nothing runs in it. The "
               "administrator sees to Runtime= in /etc/sbxctl/engine-docker.conf.");
        return OUTCOME_FAILED;
    }
    enum outcome outcome = OUTCOME_FAILED;
    if (r >= 0)
        outcome = dialogue_await_ready(s->broker, s->control.sock, deadline - clock_now(), &ready,
                                       &workspace);
    if (outcome == OUTCOME_FAILED)
        refuse_not_ready(s);
    /* A launcher that found something does not get ready. */
    if (outcome == OUTCOME_READY)
        searched_add(s->service->searched, &s->image);
    return outcome == OUTCOME_READY ? hand_over(s, workspace) : outcome;
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

/* Whether the image is here. That it is not is an answer, and no failure for the journal. */
static int look_for_image(struct sandbox *s)
{
    struct engine_message missing = { .type = ENGINE_ERROR, .error.phase = ENGINE_PHASE_MISSING };
    int r = image_reference_is_valid(s->start.image)
                ? image_find(&s->api, s->start.image, &s->image)
                : -EINVAL;

    if (r == -ENOENT && !s->api.unusable) {
        snprintf(missing.error.message, sizeof(missing.error.message), "%s", s->api.error);
        engine_send(s->broker, &missing, NULL, 0);
    } else if (r < 0) {
        refuse_api(s, r);
    }
    return r;
}

/* Without a sandbox: whether there could be one, and of which image. */
static int answer_prepare(struct sandbox *s, const struct engine_prepare *wanted)
{
    strcpy(s->start.image, wanted->image);
    strcpy(s->name, "prepare");
    int r = api_open(s->service->config->socket, &s->service->version, &s->api);
    if (r < 0)
        refuse_api(s, r);
    else if (wanted->image[0])
        r = wanted->look ? look_for_image(s) : get_image(s, !wanted->any_state);
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
    enum outcome outcome = get_ready(s);
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
