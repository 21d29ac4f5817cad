/* Sums per user, see audit-usage.h. */
#include "client/audit-usage.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "client/say.h"
#include "client/table.h"
#include "client/text.h"
#include "common/quantity.h"

void audit_usage_release(struct audit_usage *usage)
{
    free(usage->users);
    json_object_put(usage->marks);
    *usage = (struct audit_usage){};
}

static bool get_number(json_object *object, const char *member, uint64_t *ret)
{
    json_object *value = json_object_object_get(object, member);

    if (!json_object_is_type(value, json_type_int))
        return false;
    *ret = json_object_get_uint64(value);
    return true;
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

/* What never ran has no time, but may have had a sandbox in a cloud. */
int audit_usage_add(struct audit_usage *usage, json_object *ended)
{
    uint64_t uid, wall = 0, cloud = 0, cpu = 0;
    const char *name = json_get_string(ended, "user");

    if (!get_number(ended, "uid", &uid) || uid > UINT32_MAX)
        return 0;
    bool ran = get_number(ended, "wallUSec", &wall);
    bool cost = get_number(ended, "cloudUSec", &cloud);
    if (!ran && !cost)
        return 0;
    struct audit_user *user = find_user(usage, (uint32_t)uid);
    if (!user)
        return -ENOMEM;
    if (name)
        snprintf(user->name, sizeof(user->name), "%.63s", name);
    user->runs += ran;
    user->wall_usec += wall;
    user->cloud_usec += cloud;
    if (get_number(ended, "cpuUSec", &cpu))
        user->cpu_usec += cpu;
    return 0;
}

int audit_usage_mark(struct audit_usage *usage, const char *id, uint32_t uid, const char *verdict)
{
    _cleanup_json_ json_object *mark = json_object_new_array();

    if (!usage->marks)
        usage->marks = json_object_new_object();
    if (json_append(mark, json_object_new_int64(uid)) < 0 ||
        json_append(mark, json_object_new_boolean(strcmp(verdict, "accepted") == 0)) < 0)
        return -ENOMEM;
    return json_add(usage->marks, id, TAKE_PTR(mark));
}

int audit_usage_finish(struct audit_usage *usage)
{
    if (!usage->marks)
        return 0;
    json_object_object_foreach(usage->marks, id, mark)
    {
        (void)id;
        uint64_t uid = json_object_get_uint64(json_object_array_get_idx(mark, 0));
        struct audit_user *user = find_user(usage, (uint32_t)uid);
        if (!user)
            return -ENOMEM;
        if (json_object_get_boolean(json_object_array_get_idx(mark, 1)))
            user->accepted++;
        else
            user->rejected++;
    }
    return 0;
}

/* ---- Showing ---- */

/* All that the user used, for each task that was accepted: attempts that came to nothing are part
 * of what a task cost. */
static char *per_task(const struct audit_user *user)
{
    char cpu[QUANTITY_TEXT], cloud[QUANTITY_TEXT];
    char *text = NULL;

    if (user->accepted == 0)
        return strdup("");
    format_usec(user->cpu_usec / user->accepted, cpu);
    format_usec(user->cloud_usec / user->accepted, cloud);
    int n = user->cloud_usec > 0 ? asprintf(&text, "%s CPU, %s cloud", cpu, cloud)
                                 : asprintf(&text, "%s CPU", cpu);
    return n < 0 ? NULL : text;
}

static int add_user(struct table *table, const struct audit_user *user)
{
    char runs[24], uid[24], accepted[24], cloud[QUANTITY_TEXT], cpu[QUANTITY_TEXT];
    _cleanup_free_ char *name = displayed(user->name), *task = per_task(user);

    snprintf(uid, sizeof(uid), "%" PRIu32, user->uid);
    snprintf(runs, sizeof(runs), "%" PRIu64, user->runs);
    snprintf(accepted, sizeof(accepted), "%" PRIu64, user->accepted);
    if (!task)
        return -ENOMEM;
    return table_add(table, (const char *[]){ user->name[0] ? name : uid, uid, runs,
                                              format_usec(user->cloud_usec, cloud),
                                              format_usec(user->cpu_usec, cpu), accepted, task });
}

int audit_usage_print_table(const struct audit_usage *usage)
{
    static const char *const heading[] = { "USER",     "UID",      "RUNS",    "IN THE CLOUD",
                                           "CPU TIME", "ACCEPTED", "FOR EACH" };
    _cleanup_(table_release) struct table table = { .n_columns = ELEMENTS(heading) };
    int r = table_add(&table, heading);

    for (size_t i = 0; r == 0 && i < usage->n; i++)
        r = add_user(&table, &usage->users[i]);
    if (r < 0)
        return say_failure_errno(r, "cannot show the sums");
    table_print(stdout, &table, terminal_width());
    return print_end();
}

static int add_times(json_object *object, const struct audit_user *user, uint64_t divisor)
{
    int r = json_add_uint64(object, "cloudUSec", user->cloud_usec / divisor);

    r = r < 0 ? r : json_add_uint64(object, "cpuUSec", user->cpu_usec / divisor);
    return r < 0 ? r : json_add_uint64(object, "wallUSec", user->wall_usec / divisor);
}

static json_object *user_object(const struct audit_user *user)
{
    _cleanup_json_ json_object *object = json_object_new_object();
    int r = object ? json_add_uint64(object, "uid", user->uid) : -ENOMEM;

    if (r >= 0 && user->name[0])
        r = json_add_string(object, "user", user->name);
    r = r < 0 ? r : json_add_uint64(object, "runs", user->runs);
    r = r < 0 ? r : add_times(object, user, 1);
    r = r < 0 ? r : json_add_uint64(object, "accepted", user->accepted);
    r = r < 0 ? r : json_add_uint64(object, "rejected", user->rejected);
    if (r >= 0 && user->accepted > 0) {
        json_object *each = json_object_new_object();
        r = json_add(object, "perAccepted", each);
        r = r < 0 ? r : add_times(each, user, user->accepted);
    }
    return r < 0 ? NULL : TAKE_PTR(object);
}

int audit_usage_print_json(const struct audit_usage *usage)
{
    _cleanup_json_ json_object *object = json_object_new_object();
    json_object *users = json_object_new_array();
    int r = json_add(object, "users", users);

    for (size_t i = 0; r >= 0 && i < usage->n; i++) {
        json_object *user = user_object(&usage->users[i]);
        r = user ? json_object_array_add(users, user) : -ENOMEM;
    }
    return r < 0 ? say_failure_errno(r, "cannot show the sums") : print_json(object);
}
