/* sbxctl audit: what the journal tells of all runs; so far, their sums. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "client/audit-usage.h"
#include "client/exit-status.h"
#include "client/say.h"
#include "client/table.h"
#include "client/text.h"
#include "client/verb.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/json.h"
#include "common/quantity.h"

/* A date and perhaps a time, here and now's; or how long ago. Microseconds since the epoch. */
static bool parse_since(const char *text, uint64_t *ret)
{
    static const char *const formats[] = { "%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%d" };
    uint64_t ago, now = clock_usec(CLOCK_REALTIME);

    for (size_t i = 0; i < ELEMENTS(formats); i++) {
        struct tm tm = { .tm_isdst = -1 };
        const char *end = strptime(text, formats[i], &tm);
        time_t seconds = end && *end == '\0' ? mktime(&tm) : -1;
        if (seconds >= 0) {
            *ret = (uint64_t)seconds * USEC_PER_SEC;
            return true;
        }
    }
    if (parse_usec(text, &ago) < 0)
        return false;
    *ret = ago < now ? now - ago : 0;
    return true;
}

static int add_user(struct table *table, const struct audit_user *user)
{
    char runs[24], uid[24], cloud[QUANTITY_TEXT], cpu[QUANTITY_TEXT];
    _cleanup_free_ char *name = displayed(user->name);

    snprintf(uid, sizeof(uid), "%" PRIu32, user->uid);
    snprintf(runs, sizeof(runs), "%" PRIu64, user->runs);
    return table_add(table, (const char *[]){ user->name[0] ? name : uid, uid, runs,
                                              format_usec(user->cloud_usec, cloud),
                                              format_usec(user->cpu_usec, cpu) });
}

static int print_table(const struct audit_usage *usage)
{
    static const char *const heading[] = { "USER", "UID", "RUNS", "IN THE CLOUD", "CPU TIME" };
    _cleanup_(table_release) struct table table = { .n_columns = ELEMENTS(heading) };
    int r = table_add(&table, heading);

    for (size_t i = 0; r == 0 && i < usage->n; i++)
        r = add_user(&table, &usage->users[i]);
    if (r < 0)
        return say_failure_errno(r, "cannot show the sums");
    table_print(stdout, &table, terminal_width());
    return print_end();
}

static json_object *user_object(const struct audit_user *user)
{
    _cleanup_json_ json_object *object = json_object_new_object();
    int r = object ? json_add_uint64(object, "uid", user->uid) : -ENOMEM;

    if (r >= 0 && user->name[0])
        r = json_add_string(object, "user", user->name);
    r = r < 0 ? r : json_add_uint64(object, "runs", user->runs);
    r = r < 0 ? r : json_add_uint64(object, "cloudUSec", user->cloud_usec);
    r = r < 0 ? r : json_add_uint64(object, "cpuUSec", user->cpu_usec);
    r = r < 0 ? r : json_add_uint64(object, "wallUSec", user->wall_usec);
    return r < 0 ? NULL : TAKE_PTR(object);
}

static int print_sums(const struct audit_usage *usage)
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

int verb_audit(const struct verb *verb, int argc, char **argv)
{
    _cleanup_(audit_usage_release) struct audit_usage usage = {};
    struct verb_arguments arguments;
    uint64_t since = 0;
    int r;

    if (!verb_read_arguments(verb, argc, argv, 0, 0, &arguments, &r))
        return r;
    say_mode.json = arguments.json;
    if (!arguments.usage)
        return verb_usage_error(verb, "say what to show: --usage");
    if (arguments.since && !parse_since(arguments.since, &since))
        return verb_usage_error(verb, "--since: '%s' is no time; write it like 2026-01-31 or 7d",
                                arguments.since);
    r = audit_usage_read(since, &usage);
    if (r < 0)
        return say_failure_errno(r, "cannot read the journal");
    if (usage.n == 0 && geteuid() != 0)
        say_warning("there is no record that you may read: try it as root, or in the group "
                    "systemd-journal");
    return arguments.json ? print_sums(&usage) : print_table(&usage);
}
