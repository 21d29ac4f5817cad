/* The end of sandboxes whose runs need them no more, see removal.h. */
#include "broker/removal.h"
#include "broker/manager.h"
#include "broker/run-internal.h"
#include "common/cleanup.h"
#include "common/clock.h"

#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>

/* An engine that takes longer has lost its sandbox. */
#define PATIENCE_USEC (5 * USEC_PER_SEC)

struct removal {
    struct manager *manager;
    struct removal *next;
    char run_id[RUN_ID_TEXT];
    int engine;
    sd_event_source *word, *patience;
    struct audit_record record; /* but for what became of it */
};

static struct removal *removal_free(struct removal *removal)
{
    struct removal **at = &removal->manager->removals;

    while (*at && *at != removal)
        at = &(*at)->next;
    if (*at)
        *at = removal->next;
    sd_event_source_disable_unref(removal->word);
    sd_event_source_disable_unref(removal->patience);
    close_fd(removal->engine);
    free(removal);
    return NULL;
}

/* The run may be there still, and whoever goes on with it makes no second record. */
static void tell_run(const struct removal *removal, bool cleaned)
{
    for (struct run *run = removal->manager->runs; run; run = run->next) {
        if (strcmp(run->id, removal->run_id) != 0)
            continue;
        run->facts.ended.stands = false;
        run->facts.ended.cleaned = cleaned;
        run_note_live(run);
        return;
    }
}

static void conclude(struct removal *removal, bool cleaned)
{
    struct manager *manager = removal->manager;

    (void)run_audit_end_cleanup(manager->audit, &removal->record, cleaned);
    tell_run(removal, cleaned);
    removal_free(removal);
    manager_run_gone(manager);
}

static int on_word(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
    struct removal *removal = userdata;
    int fds[PACKET_FDS_MAX];
    struct engine_message message;
    size_t n_fds;
    int r = engine_recv(fd, &message, fds, &n_fds);

    if (r == -EAGAIN)
        return 0;
    if (r > 0)
        packet_close_fds(fds);
    conclude(removal, r > 0 && message.type == ENGINE_REMOVED && message.removed.cleaned);
    return 0;
}

static int on_impatience(sd_event_source *source, uint64_t usec, void *userdata)
{
    conclude(userdata, false);
    return 0;
}

int removal_await(struct run *run, int engine)
{
    struct manager *manager = run->manager;
    struct removal *removal = malloc(sizeof(*removal)); /* most of the record stays untouched */

    if (!removal) {
        close_fd(engine);
        return -ENOMEM;
    }
    removal->manager = manager;
    removal->next = NULL;
    snprintf(removal->run_id, sizeof(removal->run_id), "%s", run->id);
    removal->engine = engine;
    removal->word = removal->patience = NULL;
    int r = sd_event_add_io(manager->event, &removal->word, engine, EPOLLIN, on_word, removal);
    if (r >= 0)
        r = sd_event_add_time_relative(manager->event, &removal->patience, CLOCK_MONOTONIC,
                                       PATIENCE_USEC, 0, on_impatience, removal);
    if (r < 0) {
        removal_free(removal);
        return r;
    }
    run_audit_begin_cleanup(run, &removal->record);
    removal->next = manager->removals;
    manager->removals = removal;
    return 0;
}

void removal_free_all(struct manager *manager)
{
    while (manager->removals) {
        struct removal *removal = manager->removals;
        (void)run_audit_end_cleanup(manager->audit, &removal->record, false);
        removal_free(removal);
    }
}
