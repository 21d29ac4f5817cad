/* The engines' side of the conversation about a sandbox, see dialogue.h. */
#include "engine/dialogue.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <systemd/sd-daemon.h>

#include "common/cleanup.h"
#include "common/clock.h"

int dialogue_receive_request(int broker, struct engine_message *ret)
{
    int fds[PACKET_FDS_MAX];
    size_t n_fds;

    int r = engine_recv(broker, ret, fds, &n_fds);
    if (r <= 0)
        return r < 0 ? r : -ECONNRESET;
    packet_close_fds(fds);
    return (ret->type == ENGINE_START || ret->type == ENGINE_PREPARE) && n_fds == 0 ? 0 : -EBADMSG;
}

void dialogue_send_prepared(int broker, const char *image, const char *digest)
{
    struct engine_message message = { .type = ENGINE_PREPARED };

    snprintf(message.prepared.image, sizeof(message.prepared.image), "%s", image);
    snprintf(message.prepared.image_digest, sizeof(message.prepared.image_digest), "%s", digest);
    engine_send(broker, &message, NULL, 0);
}

void dialogue_send_error(int broker, const char *sandbox, const char *phase, const char *sentence)
{
    struct engine_message message = { .type = ENGINE_ERROR };

    snprintf(message.error.phase, sizeof(message.error.phase), "%s", phase);
    snprintf(message.error.message, sizeof(message.error.message), "%s", sentence);
    fprintf(stderr, SD_ERR "%s: %s\n", sandbox, sentence);
    engine_send(broker, &message, NULL, 0);
}

/* ---- ready */

enum outcome dialogue_receive_kill(int broker, uint64_t *ret_grace)
{
    struct engine_message message;
    int fds[PACKET_FDS_MAX];
    size_t n_fds;

    if (engine_recv(broker, &message, fds, &n_fds) <= 0)
        return OUTCOME_GONE;
    packet_close_fds(fds);
    if (message.type != ENGINE_KILL)
        return OUTCOME_GONE;
    *ret_grace = message.kill.grace_usec;
    return OUTCOME_KILL;
}

/* Takes the launcher's READY. Nothing untrusted runs yet, still nothing is believed that can be
 * checked. */
static enum outcome receive_ready(int control, struct launch_ready *ret, int *ret_workspace)
{
    int fds[PACKET_FDS_MAX];
    size_t n_fds;

    ssize_t n = packet_recv(control, ret, sizeof(*ret), fds, &n_fds);
    if (n == sizeof(*ret) && n_fds == 1 && ret->header.version == LAUNCH_PROTOCOL_VERSION &&
        ret->header.type == LAUNCH_READY && ret->uid != 0) {
        *ret_workspace = TAKE_FD(fds[0]);
        return OUTCOME_READY;
    }
    if (n > 0)
        packet_close_fds(fds);
    return OUTCOME_FAILED;
}

enum outcome dialogue_await_ready(int broker, int control, uint64_t timeout_usec,
                                  struct launch_ready *ret, int *ret_workspace)
{
    uint64_t deadline = clock_now() + timeout_usec, grace;

    for (;;) {
        struct pollfd fds[] = {
            { .fd = broker, .events = POLLIN },
            { .fd = control, .events = POLLIN },
        };
        int r = poll_until(fds, ELEMENTS(fds), deadline);
        if (r <= 0)
            return OUTCOME_FAILED;
        /* A grace period has no use before the program runs. */
        if (fds[0].revents)
            return dialogue_receive_kill(broker, &grace);
        if (fds[1].revents)
            return receive_ready(control, ret, ret_workspace);
    }
}

/* ---- end */

struct dialogue_ends dialogue_ends(const struct engine_start *start)
{
    return (struct dialogue_ends){ clock_now() + start->lifetime_usec, UINT64_MAX };
}

enum outcome dialogue_await_end(int broker, struct dialogue_ends *ends)
{
    struct pollfd fd = { .fd = broker, .events = POLLIN };
    uint64_t grace;

    int r = poll_until(&fd, 1, ends->lifetime < ends->grace ? ends->lifetime : ends->grace);
    if (r < 0)
        return OUTCOME_GONE;
    if (r == 0)
        return ends->lifetime <= clock_now() ? OUTCOME_TIMEOUT : OUTCOME_KILL;
    enum outcome outcome = dialogue_receive_kill(broker, &grace);
    if (outcome != OUTCOME_KILL || grace == 0 || ends->grace != UINT64_MAX)
        return outcome;
    ends->grace = grace < ends->lifetime ? clock_now() + grace : ends->lifetime;
    return OUTCOME_GRACE;
}

struct engine_ended dialogue_count(const struct counters *counters, uint64_t cpu_before_usec)
{
    struct engine_ended ended = {
        .oom_kills = counters->oom_kills,
        .cpu_usec = counters->cpu_usec,
        .memory_peak_bytes = counters->memory_peak_bytes,
        .task_refusals = counters->task_refusals,
        .leftovers = counters->processes,
    };

    if (counter_is_known(ended.cpu_usec) && counter_is_known(cpu_before_usec) &&
        ended.cpu_usec >= cpu_before_usec)
        ended.cpu_usec -= cpu_before_usec;
    /* One of them is the launcher. */
    if (counter_is_known(ended.leftovers) && ended.leftovers > 0)
        ended.leftovers--;
    return ended;
}

enum engine_why dialogue_explain(const struct engine_ended *ended, bool timed_out)
{
    if (timed_out)
        return ENGINE_WHY_TIMEOUT;
    if (counter_is_known(ended->oom_kills) && ended->oom_kills > 0)
        return ENGINE_WHY_OOM;
    if (counter_is_known(ended->leftovers) && ended->leftovers > 0)
        return ENGINE_WHY_KILLED;
    return ENGINE_WHY_EXIT;
}

void dialogue_tell_end(int broker, struct engine_ended *ended)
{
    struct engine_message message = { .type = ENGINE_ENDED };

    if (ended->leftovers != 0)
        return;
    ended->stands = true;
    message.ended = *ended;
    engine_send(broker, &message, NULL, 0);
}

void dialogue_tell_removed(int broker, struct engine_ended *ended, bool cleaned)
{
    struct engine_message message = { .type = ENGINE_REMOVED, .removed.cleaned = cleaned };

    if (!ended->stands) {
        ended->cleaned = cleaned;
        message = (struct engine_message){ .type = ENGINE_ENDED, .ended = *ended };
    }
    engine_send(broker, &message, NULL, 0);
}
