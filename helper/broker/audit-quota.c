/* Limits records of refused requests, see audit-quota.h. */
#include "broker/audit-quota.h"
#include "common/cleanup.h"

#include <errno.h>
#include <stdlib.h>

/* Users that are told apart in an interval. Who has a range of subordinate uids can be many, so the
 * rest share one entry. */
#define USERS_MAX 64
#define OTHERS ((uid_t)-1)

struct user {
    uid_t uid;
    uint64_t taken, held_back;
};

struct audit_quota {
    struct audit *audit;
    sd_event *event;
    sd_event_source *timer; /* runs while there are users */
    uint64_t limit, interval_usec;
    struct user users[USERS_MAX + 1]; /* and the others */
    size_t n_users;
};

int audit_quota_new(sd_event *event, struct audit *audit, uint64_t limit, uint64_t interval_usec,
                    struct audit_quota **ret)
{
    struct audit_quota *quota = calloc(1, sizeof(*quota));

    if (!quota)
        return -ENOMEM;
    quota->event = sd_event_ref(event);
    quota->audit = audit;
    quota->limit = limit;
    quota->interval_usec = interval_usec;
    *ret = quota;
    return 0;
}

static int tell(struct audit_quota *quota, const struct user *user)
{
    struct audit_record record;

    if (user->held_back == 0)
        return 0;
    audit_record_init(&record, AUDIT_HELD_BACK);
    if (user->uid != OTHERS)
        audit_add_user(&record, user->uid);
    audit_add_u64(&record, "HELD_BACK", user->held_back);
    return audit_tell(quota->audit, &record);
}

/* Begins a new interval. Only what nobody took the record of is kept for it. */
static void tell_all(struct audit_quota *quota)
{
    size_t kept = 0;

    for (size_t i = 0; i < quota->n_users; i++) {
        if (tell(quota, &quota->users[i]) >= 0)
            continue;
        quota->users[kept] = quota->users[i];
        quota->users[kept++].taken = 0;
    }
    quota->n_users = kept;
}

static void update_timer(struct audit_quota *quota);

static int on_interval(sd_event_source *source, uint64_t usec, void *userdata)
{
    struct audit_quota *quota = userdata;

    quota->timer = sd_event_source_disable_unref(quota->timer);
    tell_all(quota);
    update_timer(quota);
    return 0;
}

static void update_timer(struct audit_quota *quota)
{
    if (quota->n_users > 0 && !quota->timer)
        (void)sd_event_add_time_relative(quota->event, &quota->timer, CLOCK_MONOTONIC,
                                         quota->interval_usec, 0, on_interval, quota);
}

struct audit_quota *audit_quota_free(struct audit_quota *quota)
{
    if (!quota)
        return NULL;
    tell_all(quota);
    sd_event_source_disable_unref(quota->timer);
    sd_event_unref(quota->event);
    free(quota);
    return NULL;
}

static struct user *find(struct audit_quota *quota, uid_t uid)
{
    for (size_t i = 0; i < quota->n_users; i++)
        if (quota->users[i].uid == uid)
            return &quota->users[i];
    return NULL;
}

static struct user *find_or_make(struct audit_quota *quota, uid_t uid)
{
    struct user *user = find(quota, uid);

    if (!user && quota->n_users >= USERS_MAX) {
        uid = OTHERS;
        user = find(quota, uid);
    }
    if (user)
        return user;
    quota->users[quota->n_users] = (struct user){ .uid = uid };
    return &quota->users[quota->n_users++];
}

bool audit_quota_take(struct audit_quota *quota, uid_t uid)
{
    struct user *user = find_or_make(quota, uid);

    update_timer(quota);
    if (user->taken >= quota->limit) {
        user->held_back++;
        return false;
    }
    user->taken++;
    return true;
}

void audit_quota_give_back(struct audit_quota *quota, uid_t uid, bool held_back)
{
    struct user *user = find(quota, uid) ?: find(quota, OTHERS);

    /* It may have been taken in another interval. */
    if (user && held_back && user->held_back > 0)
        user->held_back--;
    else if (user && !held_back && user->taken > 0)
        user->taken--;
}
