/* The way of a container that was started until its launcher is the broker's. Nobody else may come
 * to that, and nothing goes in a container that has the machine's network. */
#include "sandbox-internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "searched.h"

#define READY_TIMEOUT_SEC 20
#define LOOK_USEC USEC_PER_SEC

/* Says why the launcher did not come up. */
static void refuse_not_ready(struct sandbox *s)
{
    struct container_state state = { 0 };
    char sentence[ENGINE_TEXT_MAX + 1];

    if (container_inspect(&s->api, s->name, &state) < 0) {
        sandbox_refuse_api(s, -ECONNRESET);
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
    sandbox_refuse(s, -ETIMEDOUT, sentence);
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

enum outcome sandbox_get_ready(struct sandbox *s)
{
    uint64_t deadline = clock_now() + READY_TIMEOUT_SEC * USEC_PER_SEC;
    _cleanup_close_ int workspace = -1;
    struct launch_ready ready;

    int r = accept_launcher(s, deadline);
    if (r == -ECANCELED)
        return OUTCOME_GONE;
    if (r >= 0 && !has_own_network(s)) {
        sandbox_refuse(
            s, -EPERM,
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
