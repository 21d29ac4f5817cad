/* Sums of the journal, see audit-usage.h. */
#include "client/audit-usage.h"

#include <errno.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-journal.h>

#include "common/audit-ids.h"
#include "common/cleanup.h"

#define HELPER_UNIT "sbxctl-helper.service"
#define HELPER_USER "sbxctl"
#define VALUE_MAX 256

void audit_usage_release(struct audit_usage *usage)
{
    free(usage->users);
    *usage = (struct audit_usage){};
}

/* The field of the current record as text, cut to VALUE_MAX; false if it has none. */
static bool read_field(sd_journal *journal, const char *field, char ret[VALUE_MAX])
{
    size_t size, skip = strlen(field) + 1;
    const void *data;

    if (sd_journal_get_data(journal, field, &data, &size) < 0 || size < skip)
        return false;
    size -= skip;
    size = size < VALUE_MAX ? size : VALUE_MAX - 1;
    memcpy(ret, (const char *)data + skip, size);
    ret[size] = '\0';
    return true;
}

static bool read_number(sd_journal *journal, const char *field, uint64_t *ret)
{
    char text[VALUE_MAX], *end;

    if (!read_field(journal, field, text) || text[0] < '0' || text[0] > '9')
        return false;
    errno = 0;
    *ret = strtoull(text, &end, 10);
    return errno == 0 && *end == '\0';
}

static struct audit_user *find_user(struct audit_usage *usage, uint32_t uid)
{
    size_t at = 0;

    while (at < usage->n && usage->users[at].uid < uid)
        at++;
    if (at < usage->n && usage->users[at].uid == uid)
        return &usage->users[at];
    struct audit_user *users = realloc(usage->users, (usage->n + 1) * sizeof(*users));
    if (!users)
        return NULL;
    memmove(&users[at + 1], &users[at], (usage->n - at) * sizeof(*users));
    users[at] = (struct audit_user){ .uid = uid };
    usage->users = users;
    usage->n++;
    return &users[at];
}

/* One record of an end. What never ran has no time, but may have had a sandbox in a cloud. */
static int count(sd_journal *journal, struct audit_usage *usage)
{
    uint64_t uid, wall = 0, cloud = 0, more = 0;
    char name[VALUE_MAX];

    if (!read_number(journal, "SBXCTL_UID", &uid) || uid > UINT32_MAX)
        return 0;
    bool ran = read_number(journal, "SBXCTL_WALL_USEC", &wall);
    bool cost = read_number(journal, "SBXCTL_CLOUD_USEC", &cloud);
    if (!ran && !cost)
        return 0;
    struct audit_user *user = find_user(usage, (uint32_t)uid);
    if (!user)
        return -ENOMEM;
    if (read_field(journal, "SBXCTL_USER", name))
        snprintf(user->name, sizeof(user->name), "%.63s", name);
    user->runs += ran;
    user->wall_usec += ran ? wall : 0;
    user->cloud_usec += cost ? cloud : 0;
    if (read_number(journal, "SBXCTL_CPU_USEC", &more))
        user->cpu_usec += more;
    return 0;
}

/* The first two are journald's own word, which nobody can forge; a MESSAGE_ID anybody can. */
static int select_ends(sd_journal *journal)
{
    const struct passwd *helper = getpwnam(HELPER_USER);
    char uid[32];

    if (!helper)
        return -ESRCH;
    snprintf(uid, sizeof(uid), "_UID=%u", (unsigned)helper->pw_uid);
    int r = sd_journal_add_match(journal, "_SYSTEMD_UNIT=" HELPER_UNIT, 0);
    r = r < 0 ? r : sd_journal_add_match(journal, uid, 0);
    return r < 0 ? r : sd_journal_add_match(journal, "MESSAGE_ID=" AUDIT_ID_END, 0);
}

static int sum(sd_journal *journal, uint64_t since_usec, struct audit_usage *usage)
{
    int r = select_ends(journal);

    r = r < 0            ? r
        : since_usec > 0 ? sd_journal_seek_realtime_usec(journal, since_usec)
                         : sd_journal_seek_head(journal);
    while (r >= 0) {
        uint64_t at;

        r = sd_journal_next(journal);
        if (r <= 0)
            return r;
        r = sd_journal_get_realtime_usec(journal, &at);
        if (r >= 0 && at >= since_usec)
            r = count(journal, usage);
    }
    return r;
}

int audit_usage_read(uint64_t since_usec, struct audit_usage *ret)
{
    struct audit_usage usage = {};
    sd_journal *journal;

    int r = sd_journal_open(&journal, SD_JOURNAL_LOCAL_ONLY | SD_JOURNAL_SYSTEM);
    if (r < 0)
        return r;
    r = sum(journal, since_usec, &usage);
    sd_journal_close(journal);
    if (r < 0)
        audit_usage_release(&usage);
    else
        *ret = usage;
    return r < 0 ? r : 0;
}
