/* Matching, see audit-filter.h. */
#include "client/audit-filter.h"

#include <fnmatch.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

static bool is_text(json_object *object, const char *member, const char *wanted)
{
    const char *text = json_get_string(object, member);
    return text && strcmp(text, wanted) == 0;
}

static bool is_user(json_object *object, const char *wanted)
{
    json_object *uid = json_object_object_get(object, "uid");
    char number[24];

    snprintf(number, sizeof(number), "%" PRId64, json_object_get_int64(uid));
    return is_text(object, "user", wanted) || (uid && strcmp(number, wanted) == 0);
}

static bool has_begin(json_object *object, const char *member, const char *wanted)
{
    const char *text = json_get_string(object, member);
    return text && strncmp(text, wanted, strlen(wanted)) == 0;
}

static bool has_verdict(json_object *object, const char *wanted)
{
    static const char *const members[] = { "verdict", "decision", "result", "mark" };

    for (size_t i = 0; i < ELEMENTS(members); i++)
        if (is_text(object, members[i], wanted))
            return true;
    return false;
}

static bool is_host(json_object *object, const char *wanted)
{
    const char *host = json_get_string(object, "host");
    const char *address = json_get_string(object, "address");

    return (host && fnmatch(wanted, host, FNM_CASEFOLD) == 0) ||
           (address && strcasecmp(address, wanted) == 0);
}

static bool takes_both(const struct audit_filter *filter, json_object *object, const char *id)
{
    return (!filter->user || is_user(object, filter->user)) &&
           (!filter->run || has_begin(object, id, filter->run)) &&
           (!filter->engine || is_text(object, "engine", filter->engine));
}

bool audit_filter_takes_connection(const struct audit_filter *filter, json_object *connection)
{
    return !filter->host || is_host(connection, filter->host);
}

bool audit_filter_takes_run(const struct audit_filter *filter, json_object *run)
{
    json_object *connections = json_object_object_get(run, "connections");

    if (!takes_both(filter, run, "id") || (filter->verdict && !has_verdict(run, filter->verdict)))
        return false;
    for (size_t i = 0; filter->host && connections && i < json_object_array_length(connections);
         i++)
        if (is_host(json_object_array_get_idx(connections, i), filter->host))
            return true;
    return !filter->host;
}

bool audit_filter_takes_record(const struct audit_filter *filter, json_object *record)
{
    return takes_both(filter, record, "runId") &&
           (!filter->verdict || has_verdict(record, filter->verdict)) &&
           audit_filter_takes_connection(filter, record);
}
