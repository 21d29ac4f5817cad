/* Sentences of audit tables, see audit-words.h. */
#include "client/audit-words.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/quantity.h"

static char *words(const char *format, ...) __attribute__((format(printf, 1, 2)));

static char *words(const char *format, ...)
{
    char *text = NULL;
    va_list ap;

    va_start(ap, format);
    int n = vasprintf(&text, format, ap);
    va_end(ap);
    return n < 0 ? NULL : text;
}

static const char *get(json_object *object, const char *member)
{
    const char *text = json_get_string(object, member);
    return text ? text : "";
}

static bool get_number(json_object *object, const char *member, uint64_t *ret)
{
    json_object *value = json_object_object_get(object, member);

    if (!json_object_is_type(value, json_type_int))
        return false;
    *ret = json_object_get_uint64(value);
    return true;
}

static char *joined(json_object *list)
{
    char *text = strdup("");

    for (size_t i = 0; text && i < json_object_array_length(list); i++) {
        const char *item = json_object_get_string(json_object_array_get_idx(list, i));
        char *longer = words("%s%s%s", text, i > 0 ? ", " : "", item ? item : "");
        free(text);
        text = longer;
    }
    return text;
}

char *audit_words_text(json_object *value)
{
    if (json_object_is_type(value, json_type_array))
        return joined(value);
    return strdup(value ? json_object_get_string(value) : "");
}

char *audit_words_user(json_object *object)
{
    uint64_t uid;

    if (json_get_string(object, "user"))
        return strdup(get(object, "user"));
    return get_number(object, "uid", &uid) ? words("%" PRIu64, uid) : strdup("");
}

/* ---- Rights ---- */

char *audit_words_memory(json_object *object)
{
    char text[QUANTITY_TEXT];
    uint64_t bytes;

    return strdup(get_number(object, "memoryBytes", &bytes) ? format_bytes(bytes, text) : "");
}

char *audit_words_cpus(json_object *object)
{
    uint64_t percent;

    return get_number(object, "cpuPercent", &percent) ? words("%g", (double)percent / 100)
                                                      : strdup("");
}

char *audit_words_timeout(json_object *object)
{
    char text[QUANTITY_TEXT];
    uint64_t usec;

    return strdup(get_number(object, "timeoutUSec", &usec) ? format_usec(usec, text) : "");
}

char *audit_words_network(json_object *object)
{
    _cleanup_free_ char *hosts = audit_words_text(json_object_object_get(object, "hosts"));

    if (!hosts || hosts[0] == '\0')
        return strdup(get(object, "network"));
    return words("%s: %s", get(object, "network"), hosts);
}

/* ---- Decisions ---- */

char *audit_words_actions(json_object *object)
{
    static const char prefix[] = "io.sbxctl.";
    json_object *list = json_object_object_get(object, "actions");
    size_t n = json_object_is_type(list, json_type_array) ? json_object_array_length(list) : 0;
    char *text = strdup("");

    for (size_t i = 0; text && i < n; i++) {
        const char *action = json_object_get_string(json_object_array_get_idx(list, i));
        if (strncmp(action, prefix, strlen(prefix)) == 0)
            action += strlen(prefix);
        char *longer = words("%s%s%s", text, i > 0 ? ", " : "", action);
        free(text);
        text = longer;
    }
    return text;
}

char *audit_words_approved(json_object *object)
{
    const char *decision = get(object, "decision");

    if (json_get_string(object, "approvedBy"))
        return strdup(get(object, "approvedBy"));
    if (strcmp(decision, "allowed") != 0)
        return strdup(decision[0] ? "nobody" : "");
    return strdup(strcmp(get(object, "approval"), "dialog") == 0 ? "a dialog" : "policy alone");
}

/* ---- Failures ---- */

char *audit_words_why(json_object *run)
{
    uint64_t code;

    if (json_get_string(run, "reason"))
        return json_get_string(run, "field")
                   ? words("%s: %s", get(run, "field"), get(run, "reason"))
                   : strdup(get(run, "reason"));
    if (json_get_string(run, "signal"))
        return words("signal %s", get(run, "signal"));
    if (get_number(run, "exitCode", &code))
        return words("exit status %" PRIu64, code);
    if (strcmp(get(run, "verdict"), "denied") == 0) {
        _cleanup_free_ char *actions = audit_words_actions(run);
        return words("%s: %s", get(run, "decision"), actions ? actions : "");
    }
    return strdup("");
}

/* ---- Packages ---- */

char *audit_words_packages(json_object *run)
{
    json_object *installation = json_object_object_get(run, "installation");
    json_object *resolved = json_object_object_get(installation, "resolved");
    size_t n = resolved ? json_object_array_length(resolved) : 0;
    char *text = words("%s", get(installation, "result"));

    for (size_t i = 0; text && i < n; i++) {
        const char *item = json_object_get_string(json_object_array_get_idx(resolved, i));
        char *longer = words("%s%s%.*s", text, i > 0 ? " " : ": ", (int)strcspn(item, " "), item);
        free(text);
        text = longer;
    }
    return text;
}

/* ---- Connections ---- */

char *audit_words_host(json_object *connection)
{
    const char *host = get(connection, "host"), *rule = get(connection, "rule");
    uint64_t port, more;

    if (get_number(connection, "connections", &more) && host[0] == '\0')
        return words("%" PRIu64 " more, without a record each", more);
    if (!get_number(connection, "port", &port))
        return strdup(rule);
    return words("%s:%" PRIu64 "%s%s%s", host, port, rule[0] ? " (" : "", rule, rule[0] ? ")" : "");
}

static char *bytes_of(json_object *connection, const char *member)
{
    char text[QUANTITY_TEXT];
    uint64_t bytes;

    return strdup(get_number(connection, member, &bytes) ? format_bytes(bytes, text) : "");
}

char *audit_words_sent(json_object *connection)
{
    return bytes_of(connection, "bytesSent");
}

char *audit_words_received(json_object *connection)
{
    return bytes_of(connection, "bytesReceived");
}

/* ---- Records ---- */

static char *words_of_request(json_object *record)
{
    _cleanup_free_ char *memory = audit_words_memory(record), *cpus = audit_words_cpus(record);
    _cleanup_free_ char *timeout = audit_words_timeout(record);
    _cleanup_free_ char *network = audit_words_network(record);

    return words("%s, %s, %s, %s CPU%s, %s, network %s", get(record, "scriptName"),
                 get(record, "engine"), memory ? memory : "", cpus ? cpus : "",
                 cpus && strcmp(cpus, "1") == 0 ? "" : "s", timeout ? timeout : "",
                 network ? network : "");
}

static char *words_of_decision(json_object *record)
{
    _cleanup_free_ char *actions = audit_words_actions(record);

    return words("%s: %s", get(record, "decision"), actions ? actions : "");
}

static char *words_of_end(json_object *record)
{
    _cleanup_free_ char *why = audit_words_why(record);
    char text[QUANTITY_TEXT] = "";
    uint64_t usec;

    if (get_number(record, "wallUSec", &usec))
        format_usec(usec, text);
    return words("%s%s%s%s%s", get(record, "result"), text[0] ? " after " : "", text,
                 why && *why ? ": " : "", why ? why : "");
}

static char *words_of_connection(json_object *record)
{
    _cleanup_free_ char *host = audit_words_host(record);
    return words("%s %s", get(record, "verdict"), host ? host : "");
}

static char *words_of_packages(json_object *record)
{
    _cleanup_free_ char *asked = audit_words_text(json_object_object_get(record, "packages"));
    return words("%s: %s", get(record, "result"), asked ? asked : "");
}

char *audit_words_record(json_object *record)
{
    const char *event = get(record, "event");
    uint64_t n = 0;

    if (strcmp(event, "request") == 0 || strcmp(event, "start") == 0)
        return words_of_request(record);
    if (strcmp(event, "decision") == 0)
        return words_of_decision(record);
    if (strcmp(event, "end") == 0)
        return words_of_end(record);
    if (strcmp(event, "connection") == 0)
        return words_of_connection(record);
    if (strcmp(event, "packages") == 0)
        return words_of_packages(record);
    if (strcmp(event, "rejected") == 0)
        return audit_words_why(record);
    if (strcmp(event, "pull") == 0)
        return words("%s: %s", get(record, "image"), get(record, "result"));
    if (strcmp(event, "marked") == 0)
        return strdup(get(record, "verdict"));
    if (strcmp(event, "held-back") == 0 && get_number(record, "heldBack", &n))
        return words("%" PRIu64 " requests that came to nothing", n);
    if (strcmp(event, "saved") == 0 && get_number(record, "files", &n))
        return words("%s, %" PRIu64 " files", get(record, "result"), n);
    return strdup(get(record, "result"));
}

/* ---- Forgeries ---- */

char *audit_words_sender(json_object *record)
{
    json_object *sender = json_object_object_get(record, "sender");
    _cleanup_free_ char *user = audit_words_user(sender);
    const char *command = get(sender, "command"), *unit = get(sender, "unit");

    return words("%s%s%s%s%s%s", user && *user ? user : "somebody", command[0] ? " (" : "", command,
                 unit[0] ? ", " : "", unit, command[0] ? ")" : "");
}

char *audit_words_claim(json_object *record)
{
    _cleanup_free_ char *claimed = audit_words_record(record), *user = audit_words_user(record);

    if (!json_get_string(record, "event"))
        return words("to be sbxctl-helper: %s", get(record, "message"));
    return words("%s of run %s of %s: %s", get(record, "event"), get(record, "runId"),
                 user && *user ? user : "somebody", claimed ? claimed : "");
}
