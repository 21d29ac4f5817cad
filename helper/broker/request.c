/* Parsing of Run's parameters into the frozen request, see request.h. */
#include "broker/request-internal.h"
#include "broker/package.h"
#include "common/escape.h"
#include "common/image-reference.h"
#include "common/memfd.h"
#include "launch/protocol.h"

#include <stdio.h>
#include <string.h>

static const struct json_field run_fields[] = {
#define AT(member) offsetof(struct request_raw, member)
    { "script", JSON_FIELD_STRING, AT(script), false, 0, 0 },
    { "scriptFd", JSON_FIELD_UINT64, AT(script_fd), false, 0, VARLINK_FDS_MAX },
    { "scriptName", JSON_FIELD_STRING, AT(script_name), false, 0, REQUEST_NAME_MAX },
    { "language", JSON_FIELD_STRING, AT(language), false, 0, 64 },
    { "arguments", JSON_FIELD_ARRAY, AT(arguments), false, 0, 0 },
    { "environment", JSON_FIELD_OBJECT, AT(environment), false, 0, 0 },
    { "inputs", JSON_FIELD_ARRAY, AT(inputs), false, 0, 0 },
    { "stdin", JSON_FIELD_STRING, AT(stdin_text), false, 0, 0 },
    { "engine", JSON_FIELD_STRING, AT(engine), false, 0, 64 },
    { "image", JSON_FIELD_STRING, AT(image), false, 0, IMAGE_REFERENCE_MAX },
    { "template", JSON_FIELD_STRING, AT(template), false, 0, TEMPLATE_NAME_MAX },
    { "network", JSON_FIELD_STRING, AT(network), false, 0, 16 },
    { "networkNames", JSON_FIELD_ARRAY, AT(network_names), false, 0, 0 },
    { "packages", JSON_FIELD_ARRAY, AT(packages), false, 0, 0 },
    { "requireHashes", JSON_FIELD_BOOL, AT(require_hashes), false, 0, 0 },
    { "allowSecrets", JSON_FIELD_BOOL, AT(allow_secrets), false, 0, 0 },
    { "memoryBytes", JSON_FIELD_UINT64, AT(memory_bytes), false, 1, INT64_MAX },
    { "cpuPercent", JSON_FIELD_UINT64, AT(cpu_percent), false, 1, INT64_MAX },
    { "timeoutUSec", JSON_FIELD_UINT64, AT(timeout_usec), false, 1, INT64_MAX },
    { "streams", JSON_FIELD_STRING, AT(streams), false, 0, 16 },
    { "detach", JSON_FIELD_BOOL, AT(detach), false, 0, 0 },
    { "dryRun", JSON_FIELD_BOOL, AT(dry_run), false, 0, 0 },
    { "allowInteractiveAuthentication", JSON_FIELD_BOOL, AT(interactive), false, 0, 0 },
#undef AT
};

static void free_strings(char **strings)
{
    for (char **s = strings; s && *s; s++)
        free(*s);
    free(strings);
}

void request_release(struct request *request)
{
    free(request->script_name);
    free(request->language);
    free(request->engine);
    free(request->image);
    free(request->template);
    host_list_release(&request->hosts);
    free_strings(request->arguments);
    free_strings(request->environment);
    free_strings(request->packages);
    for (size_t i = 0; i < request->n_inputs; i++) {
        free(request->inputs[i].name);
        close_fd(request->inputs[i].fd);
    }
    free(request->inputs);
    close_fd(request->script);
    close_fd(request->stdin_memfd);
    *request = (struct request)REQUEST_NULL;
}

int request_refuse(struct request_error *error, const char *field, const char *reason)
{
    /* A field that the interface does not know is whatever the caller wrote. */
    _cleanup_free_ char *shown = escape_text(field, strlen(field), sizeof(error->field) - 1);

    snprintf(error->field, sizeof(error->field), "%s", shown ? shown : "");
    snprintf(error->reason, sizeof(error->reason), "%s", reason);
    return -EINVAL;
}

int request_refuse_name(struct request_error *error, const char *field, const char *format,
                        const char *name)
{
    _cleanup_free_ char *shown = escape_text(name, strlen(name), 100);

    request_refuse(error, field, "");
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(error->reason, sizeof(error->reason), format, shown ? shown : "");
#pragma GCC diagnostic pop
    return -EINVAL;
}

static int parse_arguments(json_object *array, struct request *request, struct request_error *error)
{
    size_t n = array ? json_object_array_length(array) : 0;

    if (n > LAUNCH_ARGV_MAX)
        return request_refuse(error, "arguments", "Too many arguments.");
    request->arguments = calloc(n + 1, sizeof(char *));
    if (!request->arguments)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++) {
        json_object *item = json_object_array_get_idx(array, i);
        if (!json_object_is_type(item, json_type_string))
            return request_refuse(error, "arguments", "");
        request->arguments[i] = strdup(json_object_get_string(item));
        if (!request->arguments[i])
            return -ENOMEM;
        request->n_arguments = i + 1;
    }
    return 0;
}

static bool environment_name_is_valid(const char *name)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_";
    static const char more[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789";
    return *name != '\0' && strchr(letters, *name) && name[strspn(name, more)] == '\0';
}

static int parse_environment(json_object *object, struct request *request,
                             struct request_error *error)
{
    size_t n = object ? (size_t)json_object_object_length(object) : 0;

    if (n > LAUNCH_ENV_MAX / 2)
        return request_refuse(error, "environment", "Too many environment variables.");
    request->environment = calloc(n + 1, sizeof(char *));
    if (!request->environment)
        return -ENOMEM;
    if (!object)
        return 0;
    json_object_object_foreach(object, name, value)
    {
        char **entry = &request->environment[request->n_environment];
        if (!environment_name_is_valid(name) || !json_object_is_type(value, json_type_string))
            return request_refuse(error, "environment",
                                  "A variable's name consists of letters, digits and underscores.");
        if (asprintf(entry, "%s=%s", name, json_object_get_string(value)) < 0) {
            *entry = NULL;
            return -ENOMEM;
        }
        request->n_environment++;
    }
    return 0;
}

static int parse_enum(const char *value, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(value, names[i]) == 0)
            return (int)i;
    return -EINVAL;
}

static int parse_modes(struct varlink_call *call, const struct request_raw *raw,
                       struct request *request, struct request_error *error)
{
    static const char *const networks[] = { "none", "internet" };
    static const char *const streams[] = { "none", "messages", "descriptors" };
    int r;

    r = raw->network ? parse_enum(raw->network, networks, ELEMENTS(networks)) : 0;
    if (r < 0)
        return request_refuse(error, "network", "");
    request->network = r == 1;
    r = raw->streams ? parse_enum(raw->streams, streams, ELEMENTS(streams)) : 0;
    if (r < 0)
        return request_refuse(error, "streams", "");
    if (r != STREAMS_NONE && !varlink_call_wants_more(call))
        return request_refuse(error, "streams", "Streams need a call with 'more'.");
    if (r != STREAMS_NONE && raw->detach)
        return request_refuse(error, "streams",
                              "A detached run has nobody to pass its streams on to.");
    if (r == STREAMS_DESCRIPTORS && raw->stdin_text)
        return request_refuse(error, "stdin", "With descriptors, stdin is one of them.");
    request->streams = (enum streams)r;
    return 0;
}

/* One pattern; "*" would be the same as none. */
static int parse_host(const char *text, struct request *request, struct request_error *error)
{
    char host[HOST_TEXT_MAX + 1];

    if (!host_pattern_parse(text, host) || strcmp(host, "*") == 0)
        return request_refuse_name(error, "networkNames",
                                   "'%s' is not the name of a host, nor *. and the end of one.",
                                   text);
    /* These two stand for something else where somebody decides by the names. */
    if (strcmp(host, "any") == 0 || strcmp(host, "none") == 0)
        return request_refuse_name(error, "networkNames", "'%s' is a word of rules, no host.",
                                   host);
    if (host_is_localhost(host))
        return request_refuse(
            error, "networkNames",
            "Inside, localhost is the sandbox itself; this machine's cannot be had.");
    for (size_t i = 0; i < request->hosts.n; i++)
        if (strcmp(request->hosts.items[i], host) == 0)
            return 0;
    return host_list_add(&request->hosts, host);
}

/* The names are what somebody may be asked to approve, so there are no more than can be shown. */
static int parse_hosts(const struct request_raw *raw, struct request *request,
                       struct request_error *error)
{
    size_t n = raw->network_names ? json_object_array_length(raw->network_names) : 0, size = 0;
    int r = 0;

    if (!raw->network_names)
        return 0;
    if (raw->network && !request->network)
        return request_refuse(error, "networkNames",
                              "Names of hosts are of no use without a network.");
    if (n > REQUEST_HOSTS_MAX)
        return request_refuse(error, "networkNames", "At most 16 hosts can be named.");
    if (n == 0)
        return request_refuse(error, "networkNames", "Name a host, or leave the list out for any.");
    for (size_t i = 0; r >= 0 && i < n; i++) {
        json_object *item = json_object_array_get_idx(raw->network_names, i);
        if (!json_object_is_type(item, json_type_string))
            return request_refuse(error, "networkNames", "");
        r = parse_host(json_object_get_string(item), request, error);
    }
    for (size_t i = 0; i < request->hosts.n; i++)
        size += strlen(request->hosts.items[i]) + 1;
    if (r >= 0 && size > REQUEST_HOSTS_TEXT_MAX)
        return request_refuse(error, "networkNames",
                              "The names of hosts have more than 511 characters together.");
    request->network = true;
    return r;
}

/* What they say is read when the language is known, see policy-packages.h. */
static int parse_packages(json_object *array, struct request *request, struct request_error *error)
{
    size_t n = array ? json_object_array_length(array) : 0;

    if (n > PACKAGES_MAX)
        return request_refuse(error, "packages", "At most 50 packages can be asked for.");
    request->packages = calloc(n + 1, sizeof(char *));
    if (!request->packages)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++) {
        json_object *item = json_object_array_get_idx(array, i);
        if (!json_object_is_type(item, json_type_string))
            return request_refuse(error, "packages", "");
        request->packages[i] = strdup(json_object_get_string(item));
        if (!request->packages[i])
            return -ENOMEM;
        request->n_packages = i + 1;
    }
    return 0;
}

static int parse_into(struct varlink_call *call, struct request *request,
                      struct request_error *error)
{
    struct request_raw raw = { .script_fd = UINT64_MAX,
                               .memory_bytes = UINT64_MAX,
                               .cpu_percent = UINT64_MAX,
                               .timeout_usec = UINT64_MAX };
    const char *bad;
    int r;

    r = json_dispatch(varlink_call_parameters(call), run_fields, ELEMENTS(run_fields), false, &raw,
                      &bad);
    if (r < 0)
        return request_refuse(error, bad, "");
    request->memory_bytes = raw.memory_bytes;
    request->cpu_percent = raw.cpu_percent;
    request->timeout_usec = raw.timeout_usec;
    request->detach = raw.detach;
    request->dry_run = raw.dry_run;
    request->interactive = raw.interactive;
    request->require_hashes = raw.require_hashes;
    request->allow_secrets = raw.allow_secrets;
    if ((raw.language && !(request->language = strdup(raw.language))) ||
        (raw.engine && !(request->engine = strdup(raw.engine))) ||
        (raw.image && !(request->image = strdup(raw.image))) ||
        (raw.template && !(request->template = strdup(raw.template))))
        return -ENOMEM;
    r = parse_modes(call, &raw, request, error);
    if (r >= 0)
        r = parse_hosts(&raw, request, error);
    if (r >= 0)
        r = parse_packages(raw.packages, request, error);
    if (r >= 0)
        r = request_parse_script(call, &raw, request, error);
    if (r >= 0)
        r = parse_arguments(raw.arguments, request, error);
    if (r >= 0)
        r = parse_environment(raw.environment, request, error);
    if (r >= 0)
        r = request_parse_inputs(call, raw.inputs, request, error);
    if (r >= 0 && raw.stdin_text)
        r = request->stdin_memfd = memfd_with("sbxctl", raw.stdin_text, strlen(raw.stdin_text));
    return r < 0 ? r : 0;
}

int request_parse(struct varlink_call *call, struct request *ret, struct request_error *error)
{
    struct request request = REQUEST_NULL;
    int r;

    *error = (struct request_error){ 0 };
    r = parse_into(call, &request, error);
    if (r < 0) {
        request_release(&request);
        return r;
    }
    *ret = request;
    return 0;
}
