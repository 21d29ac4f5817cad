/* Reading audit records, see audit-journal.h. */
#include "client/audit-journal.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-id128.h>
#include <systemd/sd-journal.h>
#include <unistd.h>

#include "client/audit-events.h"
#include "common/cleanup.h"
#include "common/escape.h"

#define HELPER_UNIT "sbxctl-helper.service"
#define HELPER_USER "sbxctl"
#define PREFIX "SBXCTL_"
/* Of a value; the helper's own are shorter (AUDIT_VALUE_MAX), others' may be anything. */
#define VALUE_MAX 2048

struct audit_journal {
    sd_journal *journal;
    struct audit_selection selection;
    uid_t helper;
};

/* ---- What is read ---- */

static int add_match(sd_journal *journal, const char *field, const char *value)
{
    _cleanup_free_ char *match = NULL;

    if (asprintf(&match, "%s=%s", field, value) < 0) {
        match = NULL;
        return -ENOMEM;
    }
    return sd_journal_add_match(journal, match, 0);
}

static bool is_selected(const char *const *events, const char *name)
{
    for (; events && *events; events++)
        if (strcmp(*events, name) == 0)
            return true;
    return events == NULL;
}

/* Matches of one field are alternatives (sd_journal_add_match(3)). */
static int match_events(sd_journal *journal, const char *const *events)
{
    int r = 0;

    for (const struct audit_event_name *e = audit_event_names; r >= 0 && e->name; e++)
        if (is_selected(events, e->name))
            r = add_match(journal, "MESSAGE_ID", e->id);
    return r;
}

/* The unit and the uid are journald's own word, which nobody can forge; a MESSAGE_ID anybody can.
 */
static int match_helper(const struct audit_journal *audit)
{
    const struct audit_selection *selection = &audit->selection;
    char uid[24];

    snprintf(uid, sizeof(uid), "%u", (unsigned)audit->helper);
    int r = add_match(audit->journal, "_SYSTEMD_UNIT", HELPER_UNIT);
    r = r < 0 ? r : add_match(audit->journal, "_UID", uid);
    r = r < 0 ? r : match_events(audit->journal, selection->events);
    if (r >= 0 && selection->run_id)
        r = add_match(audit->journal, PREFIX "RUN_ID", selection->run_id);
    if (r >= 0 && selection->uid)
        r = add_match(audit->journal, PREFIX "UID", selection->uid);
    return r;
}

static int match_others(const struct audit_journal *audit)
{
    int r = match_events(audit->journal, audit->selection.events);

    r = r < 0 ? r : sd_journal_add_disjunction(audit->journal);
    return r < 0 ? r : add_match(audit->journal, "SYSLOG_IDENTIFIER", "sbxctl-helper");
}

static int match_polkit(const struct audit_journal *audit)
{
    return add_match(audit->journal, "_SYSTEMD_UNIT", "polkit.service");
}

static int match(const struct audit_journal *audit)
{
    switch (audit->selection.sender) {
    case AUDIT_FROM_OTHERS:
        return match_others(audit);
    case AUDIT_FROM_POLKIT:
        return match_polkit(audit);
    case AUDIT_FROM_HELPER:
        break;
    }
    return match_helper(audit);
}

/* A journal that one may not read looks like an empty one. */
static bool may_read(void)
{
    static const char *const places[] = { "/var/log/journal", "/run/log/journal" };
    char id[SD_ID128_STRING_MAX], path[128];
    bool exists = false;
    sd_id128_t machine;

    if (geteuid() == 0 || sd_id128_get_machine(&machine) < 0)
        return true;
    for (size_t i = 0; i < ELEMENTS(places); i++) {
        snprintf(path, sizeof(path), "%s/%s/system.journal", places[i],
                 sd_id128_to_string(machine, id));
        if (access(path, R_OK) == 0)
            return true;
        exists |= errno == EACCES;
    }
    return !exists;
}

int audit_journal_open(const struct audit_selection *selection, struct audit_journal **ret)
{
    const struct passwd *helper = getpwnam(HELPER_USER);

    if (!helper)
        return -ESRCH;
    if (!may_read())
        return -EACCES;
    struct audit_journal *audit = calloc(1, sizeof(*audit));
    if (!audit)
        return -ENOMEM;
    audit->selection = *selection;
    audit->helper = helper->pw_uid;
    int r = sd_journal_open(&audit->journal,
                            SD_JOURNAL_LOCAL_ONLY |
                                (selection->sender == AUDIT_FROM_OTHERS ? 0 : SD_JOURNAL_SYSTEM));
    r = r < 0 ? r : match(audit);
    r = r < 0 ? r
        : selection->since_usec == 0
            ? sd_journal_seek_head(audit->journal)
            : sd_journal_seek_realtime_usec(audit->journal, selection->since_usec);
    if (r < 0) {
        audit_journal_close(audit);
        return r;
    }
    *ret = audit;
    return 0;
}

void audit_journal_close(struct audit_journal *journal)
{
    if (!journal)
        return;
    sd_journal_close(journal->journal);
    free(journal);
}

int audit_journal_seek_end(struct audit_journal *journal)
{
    int r = sd_journal_seek_tail(journal->journal);

    /* The tail is behind the last entry, and stays there as the journal grows, unless one steps. */
    return r < 0 ? r : sd_journal_previous(journal->journal);
}

int audit_journal_wait(struct audit_journal *journal)
{
    int r = sd_journal_wait(journal->journal, UINT64_MAX);
    return r < 0 ? r : 0;
}

/* ---- A record ---- */

/* The field as text that is valid UTF-8, cut to VALUE_MAX; NULL if there is none. */
static char *get_field(sd_journal *journal, const char *field)
{
    size_t size, skip = strlen(field) + 1;
    const void *data;

    if (sd_journal_get_data(journal, field, &data, &size) < 0 || size < skip)
        return NULL;
    size -= skip;
    return utf8_text((const char *)data + skip, size < VALUE_MAX ? size : VALUE_MAX);
}

static const char *event_of(const char *id)
{
    for (const struct audit_event_name *e = audit_event_names; e->name; e++)
        if (id && strcmp(e->id, id) == 0)
            return e->name;
    return NULL;
}

/* Where the name in JSON is not just the field's in another spelling: units, and what neighbours
 * call it. */
static const struct {
    const char *field, *member;
} renamed[] = {
    { "ACTION", "actions" },      { "ARGV", "arguments" },
    { "CPUS", "cpuPercent" },     { "MEMORY", "memoryBytes" },
    { "PACKAGE", "resolved" },    { "PACKAGES", "packages" },
    { "TIMEOUT", "timeoutUSec" }, { "MEMORY_PEAK", "memoryPeakBytes" },
};

/* What another field is called, or what journald and the reader say of a record: a field of
 * somebody's that happens to be spelled like it would have another type, or be taken for it. */
static bool is_reserved(const char *member)
{
    static const char *const own[] = { "timeUSec", "event", "message", "sender", "helperPid" };

    for (size_t i = 0; i < ELEMENTS(own); i++)
        if (strcmp(own[i], member) == 0)
            return true;
    for (size_t i = 0; i < ELEMENTS(renamed); i++)
        if (strcmp(renamed[i].member, member) == 0)
            return true;
    return false;
}

/* "SCRIPT_NAME" as "scriptName", and "WALL_USEC" as "wallUSec". Returns whether it may be one. */
static bool member_name(const char *field, char *ret, size_t size)
{
    size_t n = 0;
    bool upper = false;

    for (size_t i = 0; i < ELEMENTS(renamed); i++)
        if (strcmp(renamed[i].field, field) == 0) {
            snprintf(ret, size, "%s", renamed[i].member);
            return true;
        }
    for (const char *p = field; *p && n + 5 < size; p++) {
        if (*p == '_') {
            upper = true;
        } else if (strcmp(p, "USEC") == 0 && upper) {
            n += (size_t)snprintf(ret + n, size - n, "USec");
            break;
        } else {
            ret[n++] = (char)(upper ? *p : tolower(*p));
            upper = false;
        }
    }
    ret[n] = '\0';
    return !is_reserved(ret);
}

/* By the field and never by the value, so that a member has one type. */
static bool is_number(const char *field)
{
    static const char *const numbers[] = {
        "UID",  "PID",         "MEMORY",    "CPUS",        "TIMEOUT",    "EXIT_CODE",      "FILES",
        "PORT", "CONNECTIONS", "HELD_BACK", "MEMORY_PEAK", "BYTES_SENT", "BYTES_RECEIVED",
    };
    const char *end = strrchr(field, '_');

    for (size_t i = 0; i < ELEMENTS(numbers); i++)
        if (strcmp(numbers[i], field) == 0)
            return true;
    return end && (strcmp(end, "_USEC") == 0 || strcmp(end, "_BYTES") == 0);
}

static bool is_list(const char *field)
{
    return strcmp(field, "ACTION") == 0 || strcmp(field, "PACKAGE") == 0 ||
           strcmp(field, "PACKAGES") == 0;
}

static int add_to_list(json_object *record, const char *member, json_object *value)
{
    json_object *list = json_object_object_get(record, member);

    if (!list) {
        list = json_object_new_array();
        if (json_add(record, member, list) < 0) {
            json_object_put(value);
            return -ENOMEM;
        }
    }
    return json_append(list, value);
}

static int add_value(json_object *record, const char *field, const char *text)
{
    char member[64];
    char *end;

    if (!member_name(field, member, sizeof(member)))
        return 0;
    if (!is_number(field)) {
        json_object *value = json_object_new_string(text);
        return is_list(field) ? add_to_list(record, member, value)
                              : json_add(record, member, value);
    }
    errno = 0;
    int64_t number = strtoll(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0')
        return 0;
    return json_add(record, member, json_object_new_int64(number));
}

int audit_journal_add_datum(json_object *record, const char *data, size_t size)
{
    const char *equals = memchr(data, '=', size);
    char field[64];

    if (size <= strlen(PREFIX) || memcmp(data, PREFIX, strlen(PREFIX)) != 0 || !equals)
        return 0;
    int length = (int)(equals - data - (ptrdiff_t)strlen(PREFIX));
    if (length <= 0 || length >= (int)sizeof(field))
        return 0;
    snprintf(field, sizeof(field), "%.*s", length, data + strlen(PREFIX));
    size -= (size_t)(equals + 1 - data);
    _cleanup_free_ char *text = utf8_text(equals + 1, size < VALUE_MAX ? size : VALUE_MAX);
    return text ? add_value(record, field, text) : -ENOMEM;
}

/* Who wrote it, by what journald says. */
static int add_sender(sd_journal *journal, json_object *record)
{
    static const struct {
        const char *field, *member;
    } fields[] = { { "_COMM", "command" }, { "_EXE", "program" }, { "_SYSTEMD_UNIT", "unit" } };
    _cleanup_free_ char *uid = get_field(journal, "_UID"), *pid = get_field(journal, "_PID");
    json_object *sender = json_object_new_object();
    int r = json_add(record, "sender", sender);

    if (r >= 0 && uid) {
        const struct passwd *user = getpwuid((uid_t)strtoul(uid, NULL, 10));
        r = json_add(sender, "uid", json_object_new_int64(strtoll(uid, NULL, 10)));
        r = r < 0 || !user ? r : json_add_string(sender, "user", user->pw_name);
    }
    if (r >= 0 && pid)
        r = json_add(sender, "pid", json_object_new_int64(strtoll(pid, NULL, 10)));
    for (size_t i = 0; r >= 0 && i < ELEMENTS(fields); i++) {
        _cleanup_free_ char *text = get_field(journal, fields[i].field);
        r = text ? json_add_string(sender, fields[i].member, text) : 0;
    }
    return r;
}

/* Whether the process that wrote the record of a start is still there to write that of the end. */
static int add_boot(sd_journal *journal, json_object *record)
{
    _cleanup_free_ char *boot = get_field(journal, "_BOOT_ID"), *pid = get_field(journal, "_PID");
    char ours[SD_ID128_STRING_MAX] = "";
    sd_id128_t id;

    if (sd_id128_get_boot(&id) >= 0)
        sd_id128_to_string(id, ours);
    int64_t helper = boot && pid && strcmp(boot, ours) == 0 ? strtoll(pid, NULL, 10) : 0;
    return json_add(record, "helperPid", json_object_new_int64(helper));
}

static bool is_helpers(const struct audit_journal *audit)
{
    _cleanup_free_ char *unit = get_field(audit->journal, "_SYSTEMD_UNIT");
    _cleanup_free_ char *uid = get_field(audit->journal, "_UID");

    return unit && uid && strcmp(unit, HELPER_UNIT) == 0 && strtoul(uid, NULL, 10) == audit->helper;
}

static int convert(struct audit_journal *audit, uint64_t time_usec, json_object **ret)
{
    _cleanup_json_ json_object *record = json_object_new_object();
    _cleanup_free_ char *id = get_field(audit->journal, "MESSAGE_ID");
    const char *event = event_of(id);
    const void *data;
    size_t size;

    int r = record ? json_add_uint64(record, "timeUSec", time_usec) : -ENOMEM;
    if (r >= 0 && event)
        r = json_add_string(record, "event", event);
    SD_JOURNAL_FOREACH_DATA(audit->journal, data, size)
    {
        r = r < 0 ? r : audit_journal_add_datum(record, data, size);
    }
    if (audit->selection.sender != AUDIT_FROM_HELPER) {
        _cleanup_free_ char *message = get_field(audit->journal, "MESSAGE");
        r = r < 0 || !message ? r : json_add_string(record, "message", message);
        r = r < 0 ? r : add_sender(audit->journal, record);
    } else if (event && strcmp(event, "start") == 0) {
        r = r < 0 ? r : add_boot(audit->journal, record);
    }
    if (r >= 0)
        *ret = TAKE_PTR(record);
    return r;
}

int audit_journal_next(struct audit_journal *journal, json_object **ret)
{
    for (;;) {
        uint64_t at;
        int r = sd_journal_next(journal->journal);

        if (r <= 0)
            return r;
        r = sd_journal_get_realtime_usec(journal->journal, &at);
        if (r < 0)
            return r;
        if (at < journal->selection.since_usec ||
            (journal->selection.until_usec > 0 && at > journal->selection.until_usec))
            continue;
        if (journal->selection.sender == AUDIT_FROM_OTHERS && is_helpers(journal))
            continue;
        r = convert(journal, at, ret);
        return r < 0 ? r : 1;
    }
}
