/* Events of installers, see install-events.h. */
#include "broker/install-events.h"
#include "common/escape.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define SMALL "abcdefghijklmnopqrstuvwxyz-"
#define VERSION_MAX 128
#define HASH_MAX 160

struct raw_event {
    const char *event, *phase, *name, *kind, *package, *message, *hint;
    uint64_t current, total;
    json_object *packages;
};

static const struct json_field fields[] = {
#define AT(member) offsetof(struct raw_event, member)
    { "event", JSON_FIELD_STRING, AT(event), true, 0, 0 },
    { "phase", JSON_FIELD_STRING, AT(phase), false, 0, INSTALL_PHASE_MAX },
    { "name", JSON_FIELD_STRING, AT(name), false, 0, 0 },
    { "current", JSON_FIELD_UINT64, AT(current), false, 0, INT64_MAX },
    { "total", JSON_FIELD_UINT64, AT(total), false, 0, INT64_MAX },
    { "kind", JSON_FIELD_STRING, AT(kind), false, 0, INSTALL_KIND_MAX },
    { "package", JSON_FIELD_STRING, AT(package), false, 0, 0 },
    { "message", JSON_FIELD_STRING, AT(message), false, 0, 0 },
    { "hint", JSON_FIELD_STRING, AT(hint), false, 0, 0 },
    { "packages", JSON_FIELD_ARRAY, AT(packages), false, 0, 0 },
#undef AT
};

/* One printable line of @text, cut to @size with its NUL. */
static int copy_text(char *to, size_t size, const char *text)
{
    _cleanup_free_ char *escaped = escape_text(text, strlen(text), size - 1);

    if (!escaped)
        return -ENOMEM;
    snprintf(to, size, "%s", escaped);
    return 0;
}

static bool is_word(const char *word)
{
    return word && *word && word[strspn(word, SMALL)] == '\0';
}

static int parse_progress(const struct raw_event *raw, struct install_progress *ret)
{
    if (!is_word(raw->phase))
        return -EBADMSG;
    strcpy(ret->phase, raw->phase);
    ret->current = raw->current;
    ret->total = raw->total;
    return copy_text(ret->name, sizeof(ret->name), raw->name ? raw->name : "");
}

static int parse_failure(const struct raw_event *raw, struct install_failure *ret)
{
    if (!is_word(raw->kind) || !raw->message)
        return -EBADMSG;
    strcpy(ret->kind, raw->kind);
    int r = copy_text(ret->package, sizeof(ret->package), raw->package ? raw->package : "");
    if (r == 0)
        r = copy_text(ret->reason, sizeof(ret->reason), raw->message);
    return r < 0 ? r : copy_text(ret->hint, sizeof(ret->hint), raw->hint ? raw->hint : "");
}

struct raw_package {
    const char *name, *version, *hash;
};

/* Only what is known goes on, and nothing that would have to be escaped. */
static json_object *copy_package(json_object *object)
{
    static const struct json_field package_fields[] = {
        { "name", JSON_FIELD_STRING, offsetof(struct raw_package, name), true, 0,
          PACKAGE_NAME_MAX },
        { "version", JSON_FIELD_STRING, offsetof(struct raw_package, version), true, 0,
          VERSION_MAX },
        { "hash", JSON_FIELD_STRING, offsetof(struct raw_package, hash), false, 0, HASH_MAX },
    };
    _cleanup_json_ json_object *copy = json_object_new_object();
    struct raw_package raw = { .hash = "" };
    char name[PACKAGE_NAME_MAX + 1], version[VERSION_MAX + 1], hash[HASH_MAX + 1];

    if (!copy || !json_object_is_type(object, json_type_object) ||
        json_dispatch(object, package_fields, ELEMENTS(package_fields), true, &raw,
                      &(const char *){ NULL }) < 0 ||
        copy_text(name, sizeof(name), raw.name) < 0 ||
        copy_text(version, sizeof(version), raw.version) < 0 ||
        copy_text(hash, sizeof(hash), raw.hash) < 0 || json_add_string(copy, "name", name) < 0 ||
        json_add_string(copy, "version", version) < 0 || json_add_string(copy, "hash", hash) < 0)
        return NULL;
    return TAKE_PTR(copy);
}

static int parse_resolved(json_object *packages, json_object **ret)
{
    _cleanup_json_ json_object *list = json_object_new_array();
    size_t n = packages ? json_object_array_length(packages) : 0;

    if (!list)
        return -ENOMEM;
    if (!packages || n > INSTALL_RESOLVED_MAX)
        return -EBADMSG;
    for (size_t i = 0; i < n; i++) {
        json_object *copy = copy_package(json_object_array_get_idx(packages, i));
        if (!copy)
            return -EBADMSG;
        if (json_object_array_add(list, copy) < 0) {
            json_object_put(copy);
            return -ENOMEM;
        }
    }
    *ret = TAKE_PTR(list);
    return 0;
}

int install_event_parse(const char *line, size_t size, struct install_event *ret)
{
    _cleanup_json_ json_object *object = NULL;
    struct raw_event raw = { 0 };

    *ret = (struct install_event){ .type = INSTALL_EVENT_NOTHING };
    if (size == 0 || line[0] != '{')
        return 0;
    int r = json_parse_guarded(line, size, &object);
    if (r < 0)
        return r == -ENOMEM ? r : -EBADMSG;
    if (json_dispatch(object, fields, ELEMENTS(fields), true, &raw, &(const char *){ NULL }) < 0)
        return -EBADMSG;
    if (strcmp(raw.event, "progress") == 0) {
        r = parse_progress(&raw, &ret->progress);
        ret->type = INSTALL_EVENT_PROGRESS;
    } else if (strcmp(raw.event, "resolved") == 0) {
        r = parse_resolved(raw.packages, &ret->resolved);
        ret->type = INSTALL_EVENT_RESOLVED;
    } else if (strcmp(raw.event, "error") == 0) {
        r = parse_failure(&raw, &ret->failure);
        ret->type = INSTALL_EVENT_ERROR;
    } else if (strcmp(raw.event, "done") == 0) {
        ret->type = INSTALL_EVENT_DONE;
    }
    return r;
}

/* Old packages of npm have capitals, with which nobody may ask for one any more. A rule for the
 * same letters is meant for them, too. */
static bool normalise(enum ecosystem ecosystem, const char *name, char ret[PACKAGE_NAME_MAX + 1])
{
    char small[PACKAGE_NAME_MAX + 1];
    size_t n = strlen(name);

    if (n >= sizeof(small))
        return false;
    for (size_t i = 0; i <= n; i++)
        small[i] = (char)(name[i] >= 'A' && name[i] <= 'Z' ? name[i] - 'A' + 'a' : name[i]);
    return package_normalise_name(ecosystem, small, ret);
}

bool install_is_allowed(enum ecosystem ecosystem, char *const *denied, json_object *resolved,
                        struct install_failure *ret)
{
    char star[] = "*", *const any[] = { star, NULL };
    char normal[PACKAGE_NAME_MAX + 1], shown[101] = "";

    for (size_t i = 0; i < json_object_array_length(resolved); i++) {
        const char *name = json_get_string(json_object_array_get_idx(resolved, i), "name");
        const char *rule = NULL;
        if (normalise(ecosystem, name, normal) &&
            package_is_allowed(ecosystem, any, denied, normal, &rule))
            continue;
        (void)copy_text(shown, sizeof(shown), name);
        install_fail(ret, "denied",
                     "Leave out what needs it, or ask the administrator, who decides about it in "
                     "section [Packages] of sbxctl.conf.",
                     "The package '%s' would come along, and it is refused by Denied=%.100s.",
                     shown, rule ? rule : "");
        snprintf(ret->package, sizeof(ret->package), "%s", name);
        return false;
    }
    return true;
}

void install_fail(struct install_failure *ret, const char *kind, const char *hint,
                  const char *format, ...)
{
    va_list args;

    *ret = (struct install_failure){ 0 };
    snprintf(ret->kind, sizeof(ret->kind), "%s", kind);
    snprintf(ret->hint, sizeof(ret->hint), "%s", hint);
    va_start(args, format);
    vsnprintf(ret->reason, sizeof(ret->reason), format, args);
    va_end(args);
}
