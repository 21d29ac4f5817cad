/* Removal of results by age, number and size, see keeper.h. */
#include "broker/keeper.h"
#include "broker/audit.h"
#include "broker/run.h"
#include "common/clock.h"

#include <stdio.h>
#include <string.h>
#include <systemd/sd-daemon.h>

/* After a start or the end of a run; and for those that come of age while nothing happens. */
#define SOON_USEC (1000 * 1000ULL)
#define LATER_USEC (3600 * USEC_PER_SEC)

struct victim {
    char id[RUN_ID_TEXT];
    const char *why;
};

struct keeper {
    struct manager *manager;
    sd_event_source *timer;
    bool looks_soon; /* when that is over */
    struct store_job *job;
    uid_t uid; /* whose are being removed */
    struct victim *victims;
    size_t n_victims, next;
    /* Users are looked through in the order of their numbers. */
    uid_t after;
    bool is_first, again;
    uint64_t next_expiry; /* of those that stay; UINT64_MAX: none */
};

static void look_at_next_user(struct keeper *keeper);

/* ---- What there is ---- */

struct listing {
    uid_t uid;
    struct retained *runs;
    size_t n, allocated;
    int error;
};

static bool add_run(const struct index_entry *entry, void *userdata)
{
    struct listing *listing = userdata;

    if (entry->uid != listing->uid || !entry->final)
        return true;
    if (listing->n == listing->allocated) {
        size_t allocated = listing->allocated ? listing->allocated * 2 : 64;
        void *runs = realloc(listing->runs, allocated * sizeof(listing->runs[0]));
        if (!runs) {
            listing->error = -ENOMEM;
            return false;
        }
        listing->runs = runs;
        listing->allocated = allocated;
    }
    listing->runs[listing->n++] = (struct retained){
        .id = entry->id,
        .ended_usec = entry->ended_usec ? entry->ended_usec : entry->created_usec,
        .bytes = entry->bytes,
        .files = entry->files,
    };
    return true;
}

int keeper_list(const struct manager *manager, uid_t uid, struct retained **ret, size_t *ret_n)
{
    struct listing listing = { .uid = uid };

    index_foreach(manager->index, add_run, &listing);
    if (listing.error < 0) {
        free(listing.runs);
        return listing.error;
    }
    for (size_t i = 0; i < listing.n / 2; i++) {
        struct retained newer = listing.runs[i];
        listing.runs[i] = listing.runs[listing.n - 1 - i];
        listing.runs[listing.n - 1 - i] = newer;
    }
    *ret = listing.runs;
    *ret_n = listing.n;
    return 0;
}

int keeper_add_expiry(const struct manager *manager, json_object *result)
{
    json_object *ended;
    uint64_t expiry;

    json_object_object_del(result, "expiresUSec");
    if (!json_object_object_get_ex(result, "endedUSec", &ended))
        return 0;
    expiry = retention_expiry(&manager->config.results, json_object_get_uint64(ended));
    return expiry == 0 ? 0 : json_add_uint64(result, "expiresUSec", expiry);
}

/* ---- Removing ---- */

static int on_time(sd_event_source *source, uint64_t usec, void *userdata)
{
    struct keeper *keeper = userdata;

    keeper->timer = sd_event_source_disable_unref(keeper->timer);
    keeper->looks_soon = false;
    keeper->is_first = true;
    keeper->again = false;
    keeper->next_expiry = UINT64_MAX;
    look_at_next_user(keeper);
    return 0;
}

/* Until the next look: a stored time is one of the wall clock, which may jump, so not for too long.
 */
static uint64_t look_after(const struct keeper *keeper)
{
    uint64_t now = clock_usec(CLOCK_REALTIME);

    if (keeper->again || keeper->next_expiry < now + SOON_USEC)
        return SOON_USEC;
    return keeper->next_expiry - now < LATER_USEC ? keeper->next_expiry - now : LATER_USEC;
}

static void arm(struct keeper *keeper, uint64_t usec)
{
    keeper->timer = sd_event_source_disable_unref(keeper->timer);
    keeper->looks_soon =
        sd_event_add_time_relative(keeper->manager->event, &keeper->timer, CLOCK_BOOTTIME, usec,
                                   usec / 10, on_time, keeper) >= 0 &&
        usec <= SOON_USEC;
}

static void tell(const struct keeper *keeper, const struct victim *victim, int error)
{
    struct audit_record record;

    audit_record_init(&record, AUDIT_CLEANUP);
    audit_add(&record, "RUN_ID", victim->id);
    audit_add_user(&record, keeper->uid);
    audit_add(&record, "RESULT", error < 0 ? "not confirmed" : "removed");
    audit_add(&record, "REASON", error < 0 ? strerrordesc_np(-error) : victim->why);
    (void)audit_tell(keeper->manager->audit, &record);
}

static void remove_next(struct keeper *keeper);

static void on_removed(int error, json_object *result, int fd, void *userdata)
{
    struct keeper *keeper = userdata;
    const struct victim *victim = &keeper->victims[keeper->next++];

    close_fd(fd);
    keeper->job = store_job_free(keeper->job);
    /* Its user may have been faster. */
    if (error >= 0 || error == -ENOENT)
        error = index_get(keeper->manager->index, victim->id)
                    ? index_remove(keeper->manager->index, victim->id)
                    : 0;
    tell(keeper, victim, error);
    remove_next(keeper);
}

/* What cannot be removed is tried again with the next look. */
static void remove_next(struct keeper *keeper)
{
    while (keeper->next < keeper->n_victims && !keeper->manager->stopping) {
        const char *id = keeper->victims[keeper->next].id;

        if (index_get_owned(keeper->manager->index, id, keeper->uid) &&
            store_remove(keeper->manager->store, keeper->uid, id, on_removed, keeper,
                         &keeper->job) >= 0)
            return;
        keeper->next++;
    }
    look_at_next_user(keeper);
}

/* ---- Looking ---- */

struct search {
    const struct keeper *keeper;
    uid_t uid;
    bool found;
};

static bool find_next_user(const struct index_entry *entry, void *userdata)
{
    struct search *search = userdata;

    if ((search->keeper->is_first || entry->uid > search->keeper->after) &&
        (!search->found || entry->uid < search->uid)) {
        search->uid = entry->uid;
        search->found = true;
    }
    return true;
}

static int note_victims(struct keeper *keeper, const struct retained *runs, size_t n, size_t found)
{
    keeper->victims = calloc(found, sizeof(keeper->victims[0]));
    if (!keeper->victims)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++) {
        if (!runs[i].why)
            continue;
        struct victim *victim = &keeper->victims[keeper->n_victims++];
        snprintf(victim->id, sizeof(victim->id), "%s", runs[i].id);
        victim->why = runs[i].why;
    }
    return 0;
}

static void note_expiry(struct keeper *keeper, const struct retained *run)
{
    uint64_t expiry = retention_expiry(&keeper->manager->config.results, run->ended_usec);

    if (!run->why && expiry != 0 && expiry < keeper->next_expiry)
        keeper->next_expiry = expiry;
}

/* Returns how many have to go, or a negative errno. */
static int look_at_user(struct keeper *keeper)
{
    const struct manager *manager = keeper->manager;
    _cleanup_free_ struct retained *runs = NULL;
    size_t n, found;

    free(TAKE_PTR(keeper->victims));
    keeper->n_victims = keeper->next = 0;
    int r = keeper_list(manager, keeper->uid, &runs, &n);
    if (r < 0)
        return r;
    found = retention_find(&manager->config.results, runs, n, clock_usec(CLOCK_REALTIME));
    for (size_t i = 0; i < n; i++)
        note_expiry(keeper, &runs[i]);
    r = found > 0 ? note_victims(keeper, runs, n, found) : 0;
    return r < 0 ? r : (int)keeper->n_victims;
}

static void look_at_next_user(struct keeper *keeper)
{
    struct search search = { .keeper = keeper };

    for (;;) {
        search.found = false;
        index_foreach(keeper->manager->index, find_next_user, &search);
        if (!search.found || keeper->manager->stopping)
            break;
        keeper->uid = keeper->after = search.uid;
        keeper->is_first = false;
        if (look_at_user(keeper) > 0) {
            remove_next(keeper);
            return;
        }
    }
    arm(keeper, look_after(keeper));
    manager_run_gone(keeper->manager);
}

bool keeper_is_busy(const struct keeper *keeper)
{
    return keeper && keeper->job;
}

/* Whoever has runs end all the time must not put it off for ever. */
void keeper_look(struct keeper *keeper)
{
    if (keeper->job)
        keeper->again = true;
    else if (!keeper->looks_soon)
        arm(keeper, SOON_USEC);
}

int keeper_new(struct manager *manager, struct keeper **ret)
{
    struct keeper *keeper = calloc(1, sizeof(*keeper));

    if (!keeper)
        return -ENOMEM;
    keeper->manager = manager;
    *ret = keeper;
    arm(keeper, SOON_USEC);
    return 0;
}

struct keeper *keeper_free(struct keeper *keeper)
{
    if (!keeper)
        return NULL;
    sd_event_source_disable_unref(keeper->timer);
    store_job_free(keeper->job);
    free(keeper->victims);
    free(keeper);
    return NULL;
}
