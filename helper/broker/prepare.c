/* A connection to an engine that is no sandbox, see prepare.h. */
#include "broker/prepare.h"
#include "broker/sandbox.h"
#include "common/cleanup.h"

#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

struct prepare {
    int engine;
    uint64_t silence_usec;
    sd_event_source *source, *timer;
    prepare_fn fn;
    void *userdata;
};

struct prepare *prepare_free(struct prepare *prepare)
{
    if (!prepare)
        return NULL;
    sd_event_source_disable_unref(prepare->source);
    sd_event_source_disable_unref(prepare->timer);
    close_fd(prepare->engine);
    free(prepare);
    return NULL;
}

static void emit_silent(struct prepare *prepare, int error)
{
    const struct prepare_event event = { PREPARE_SILENT, .error = error };

    sd_event_source_set_enabled(prepare->source, SD_EVENT_OFF);
    prepare->fn(&event, prepare->userdata);
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
    emit_silent(userdata, -ETIMEDOUT);
    return 0;
}

static int wait_on(struct prepare *prepare)
{
    int r = sd_event_source_set_time_relative(prepare->timer, prepare->silence_usec);

    return r < 0 ? r : sd_event_source_set_enabled(prepare->timer, SD_EVENT_ONESHOT);
}

static int on_engine(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
    struct prepare *prepare = userdata;
    struct engine_message message;
    struct prepare_event event;
    int fds[PACKET_FDS_MAX];
    size_t n_fds;
    int r = engine_recv(fd, &message, fds, &n_fds);

    if (r == -EAGAIN)
        return 0;
    if (r > 0)
        packet_close_fds(fds);
    /* Descriptors are not for us, nor is anything that belongs to a sandbox. */
    if (r > 0 && n_fds == 0 && message.type == ENGINE_PROGRESS)
        event = (struct prepare_event){ PREPARE_PROGRESS, .progress = &message.progress };
    else if (r > 0 && n_fds == 0 && message.type == ENGINE_PREPARED)
        event = (struct prepare_event){ PREPARE_DONE, .prepared = &message.prepared };
    else if (r > 0 && n_fds == 0 && message.type == ENGINE_ERROR)
        event = (struct prepare_event){ PREPARE_REFUSED, .refused = &message.error };
    else
        event = (struct prepare_event){ PREPARE_SILENT, .error = r < 0 ? r : -EBADMSG };
    if (event.type == PREPARE_PROGRESS)
        (void)wait_on(prepare);
    else
        sd_event_source_set_enabled(prepare->source, SD_EVENT_OFF);
    prepare->fn(&event, prepare->userdata);
    return 0;
}

static int start(struct prepare *prepare, sd_event *loop, const char *name, const char *image,
                 struct engine_prepare how)
{
    struct engine_message message = { .type = ENGINE_PREPARE, .prepare = how };
    int r;

    if (strlen(image) >= sizeof(message.prepare.image))
        return -ENAMETOOLONG;
    strcpy(message.prepare.image, image);
    prepare->engine = sandbox_connect(name);
    r = prepare->engine < 0 ? prepare->engine : engine_send(prepare->engine, &message, NULL, 0);
    if (r >= 0)
        r = sd_event_add_io(loop, &prepare->source, prepare->engine, EPOLLIN, on_engine, prepare);
    if (r >= 0)
        r = sd_event_add_time_relative(loop, &prepare->timer, CLOCK_MONOTONIC,
                                       prepare->silence_usec, 0, on_timer, prepare);
    return r < 0 ? r : 0;
}

static int begin(sd_event *loop, const char *name, const char *image, struct engine_prepare how,
                 const struct prepare *from, struct prepare **ret)
{
    struct prepare *prepare = malloc(sizeof(*prepare));
    int r;

    if (!prepare)
        return -ENOMEM;
    *prepare = *from;
    r = start(prepare, loop, name, image, how);
    if (r < 0) {
        prepare_free(prepare);
        return r;
    }
    *ret = prepare;
    return 0;
}

int prepare_begin(sd_event *loop, const char *name, const char *image, bool any_state,
                  uint64_t silence_usec, prepare_fn fn, void *userdata, struct prepare **ret)
{
    const struct prepare from = {
        .engine = -1, .silence_usec = silence_usec, .fn = fn, .userdata = userdata
    };
    return begin(loop, name, image, (struct engine_prepare){ .any_state = any_state }, &from, ret);
}

int prepare_look(sd_event *loop, const char *name, const char *image, uint64_t silence_usec,
                 prepare_fn fn, void *userdata, struct prepare **ret)
{
    const struct prepare from = {
        .engine = -1, .silence_usec = silence_usec, .fn = fn, .userdata = userdata
    };
    return begin(loop, name, image, (struct engine_prepare){ .look = true }, &from, ret);
}
