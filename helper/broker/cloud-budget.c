/* Cloud time by user and day, see cloud-budget.h. On disk: version, day (since the epoch) and
 * users, an object of microseconds by uid; and how often the day turned, since runs outlive this
 * process. Replaced as a whole. */
#include "broker/cloud-budget.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/file.h"
#include "common/json.h"

#define VERSION 1
#define FILE_MAX (1024 * 1024)
#define DAY_USEC (86400 * USEC_PER_SEC)

struct cloud_budget {
    char *path, *new_path;
    uint64_t limit_usec;
    uint64_t day;
    uint64_t turns; /* of the day: it may change its number */
    json_object *users;
    bool unreadable;
};

struct contents {
    uint32_t version;
    uint64_t day, turns;
    json_object *users;
};

static const struct json_field fields[] = {
    { "version", JSON_FIELD_UINT32, offsetof(struct contents, version), true, VERSION, VERSION },
    { "day", JSON_FIELD_UINT64, offsetof(struct contents, day), true, 0, UINT32_MAX },
    { "turns", JSON_FIELD_UINT64, offsetof(struct contents, turns), false, 0, UINT32_MAX },
    { "users", JSON_FIELD_OBJECT, offsetof(struct contents, users), true, 0, 0 },
};

struct cloud_budget *cloud_budget_free(struct cloud_budget *budget)
{
    if (!budget)
        return NULL;
    free(budget->path);
    free(budget->new_path);
    json_object_put(budget->users);
    free(budget);
    return NULL;
}

static int load(struct cloud_budget *budget)
{
    _cleanup_close_ int fd = open(budget->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    _cleanup_json_ json_object *object = NULL;
    struct contents contents = { 0 };
    const char *bad;
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode) || st.st_size > FILE_MAX)
        return -EBADMSG;
    _cleanup_free_ char *text = malloc((size_t)st.st_size + 1);
    if (!text)
        return -ENOMEM;
    ssize_t size = pread_full(fd, text, (size_t)st.st_size, 0);
    int r = size < 0 ? (int)size : json_parse_guarded(text, (size_t)size, &object);
    r = r < 0 ? r : json_dispatch(object, fields, ELEMENTS(fields), false, &contents, &bad);
    if (r < 0)
        return r;
    json_object_object_foreach(contents.users, uid, usec)
    {
        if (!json_object_is_type(usec, json_type_int) || json_object_get_int64(usec) < 0)
            return uid ? -EBADMSG : -EINVAL;
    }
    budget->day = contents.day;
    budget->turns = contents.turns;
    json_object_put(budget->users);
    budget->users = json_object_get(contents.users);
    return 0;
}

static int open_budget(struct cloud_budget *budget, const char *path)
{
    budget->path = strdup(path);
    if (asprintf(&budget->new_path, "%s.new", path) < 0)
        budget->new_path = NULL;
    budget->users = json_object_new_object();
    if (!budget->path || !budget->new_path || !budget->users)
        return -ENOMEM;
    int r = load(budget);
    if (r < 0 && r != -ENOENT) {
        fprintf(stderr,
                SD_ERR "%s cannot be read (%s), so nothing is run in the cloud. Remove it to "
                       "begin the day anew, and restart the helper.\n",
                path, strerror(-r));
        budget->unreadable = true;
    }
    return 0;
}

int cloud_budget_open(const char *path, uint64_t limit_usec, struct cloud_budget **ret)
{
    struct cloud_budget *budget = calloc(1, sizeof(*budget));

    if (!budget)
        return -ENOMEM;
    budget->limit_usec = limit_usec;
    int r = open_budget(budget, path);
    if (r < 0)
        cloud_budget_free(budget);
    else
        *ret = budget;
    return r;
}

static int save(const struct cloud_budget *budget)
{
    _cleanup_json_ json_object *object = json_object_new_object();
    size_t size;

    if (!object || json_add_uint64(object, "version", VERSION) < 0 ||
        json_add_uint64(object, "day", budget->day) < 0 ||
        json_add_uint64(object, "turns", budget->turns) < 0 ||
        json_add(object, "users", json_object_get(budget->users)) < 0)
        return -ENOMEM;
    const char *text = json_text(object, &size);
    _cleanup_close_ int fd =
        open(budget->new_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0 || !text)
        return text ? -errno : -ENOMEM;
    int r = write_all(fd, text, size);
    if (r >= 0 && (fsync(fd) < 0 || rename(budget->new_path, budget->path) < 0))
        r = -errno;
    return r;
}

/* The clock may be set back, but no day comes twice. If it was ahead by more than a day, what was
 * used goes along, so that the next day comes all the same. */
static void turn_day(struct cloud_budget *budget, uint64_t now_usec)
{
    uint64_t day = now_usec / DAY_USEC;
    json_object *users = day > budget->day ? json_object_new_object() : NULL;

    if (day + 1 < budget->day)
        budget->day = day;
    if (!users)
        return;
    budget->day = day;
    budget->turns++;
    json_object_put(budget->users);
    budget->users = users;
}

static uint64_t used(const struct cloud_budget *budget, uid_t uid)
{
    char key[16];

    snprintf(key, sizeof(key), "%u", (unsigned)uid);
    return json_object_get_uint64(json_object_object_get(budget->users, key));
}

static int set_used(struct cloud_budget *budget, uid_t uid, uint64_t usec)
{
    char key[16];

    snprintf(key, sizeof(key), "%u", (unsigned)uid);
    int r = json_add_uint64(budget->users, key, usec);
    return r < 0 ? r : save(budget);
}

uint64_t cloud_budget_left(struct cloud_budget *budget, uid_t uid, uint64_t now_usec)
{
    turn_day(budget, now_usec);
    uint64_t usec = used(budget, uid);
    return budget->unreadable || usec > budget->limit_usec ? 0 : budget->limit_usec - usec;
}

int cloud_budget_take(struct cloud_budget *budget, uid_t uid, uint64_t usec, uint64_t now_usec,
                      uint64_t *ret_day)
{
    if (usec > cloud_budget_left(budget, uid, now_usec))
        return -EDQUOT;
    uint64_t before = used(budget, uid);
    int r = set_used(budget, uid, before + usec);
    if (r < 0) {
        set_used(budget, uid, before);
        return r;
    }
    *ret_day = budget->turns;
    return 0;
}

int cloud_budget_take_more(struct cloud_budget *budget, uid_t uid, uint64_t day, uint64_t usec,
                           uint64_t now_usec)
{
    turn_day(budget, now_usec);
    return day == budget->turns ? cloud_budget_take(budget, uid, usec, now_usec, &day) : -ESTALE;
}

void cloud_budget_settle(struct cloud_budget *budget, uid_t uid, uint64_t day, uint64_t taken_usec,
                         uint64_t used_usec)
{
    uint64_t all = used(budget, uid);

    if (day != budget->turns || all < taken_usec)
        return;
    int r = set_used(budget, uid, all - taken_usec + used_usec);
    if (r < 0)
        fprintf(stderr, SD_ERR "%s: %s\n", budget->path, strerror(-r));
}
