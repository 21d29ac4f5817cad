/* The image of a sandbox: found on this machine, or got. */
#include "sandbox-internal.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "common/clock.h"
#include "common/image-reference.h"

#define PROGRESS_USEC (USEC_PER_SEC / 5)

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

int sandbox_get_image(struct sandbox *s, bool newest)
{
    const char *reference = s->start.image;

    if (!image_reference_is_valid(reference))
        return sandbox_refuse(s, -EINVAL,
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
    return r < 0 ? sandbox_refuse_api(s, r) : 0;
}

int sandbox_look_for_image(struct sandbox *s)
{
    struct engine_message missing = { .type = ENGINE_ERROR, .error.phase = ENGINE_PHASE_MISSING };
    int r = image_reference_is_valid(s->start.image)
                ? image_find(&s->api, s->start.image, &s->image)
                : -EINVAL;

    if (r == -ENOENT && !s->api.unusable) {
        snprintf(missing.error.message, sizeof(missing.error.message), "%s", s->api.error);
        engine_send(s->broker, &missing, NULL, 0);
    } else if (r < 0) {
        sandbox_refuse_api(s, r);
    }
    return r;
}
