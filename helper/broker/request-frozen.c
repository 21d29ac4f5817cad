/* Freezing and thawing of requests, see request-frozen.h. A descriptor is told by the inode of its
 * memfd: the service manager gives them back in any order. */
#include "broker/request-frozen.h"
#include "common/memfd.h"
#include "launch/protocol.h"

#include <string.h>
#include <sys/stat.h>

/* ---- Freezing ---- */

static uint64_t inode_of(int fd)
{
    struct stat st;

    return fd >= 0 && fstat(fd, &st) == 0 ? st.st_ino : 0;
}

static json_object *strings(char *const *items, size_t n)
{
    _cleanup_json_ json_object *array = json_object_new_array();

    for (size_t i = 0; array && i < n; i++)
        if (json_append(array, json_object_new_string(items[i])) < 0)
            return NULL;
    return TAKE_PTR(array);
}

static json_object *freeze_inputs(const struct request *request)
{
    _cleanup_json_ json_object *array = json_object_new_array();

    for (size_t i = 0; array && i < request->n_inputs; i++) {
        const struct request_input *input = &request->inputs[i];
        json_object *object = json_object_new_object();

        if (!object || json_add_string(object, "name", input->name) < 0 ||
            json_add_uint64(object, "size", input->size) < 0 ||
            json_add_uint64(object, "inode", inode_of(input->fd)) < 0) {
            json_object_put(object);
            return NULL;
        }
        if (json_append(array, object) < 0)
            return NULL;
    }
    return TAKE_PTR(array);
}

json_object *request_freeze(const struct request *request)
{
    _cleanup_json_ json_object *o = json_object_new_object();

    if (!o || json_add_string(o, "scriptName", request->script_name) < 0 ||
        json_add_uint64(o, "scriptInode", inode_of(request->script)) < 0 ||
        json_add_uint64(o, "scriptBytes", request->script_bytes) < 0 ||
        json_add_string(o, "scriptSha256", request->script_sha256) < 0 ||
        json_add_string(o, "sha256", request->sha256) < 0 ||
        json_add_string(o, "language", request->language) < 0 ||
        json_add_string(o, "engine", request->engine) < 0 ||
        json_add_string(o, "image", request->image) < 0 ||
        json_add_string(o, "template", request->template) < 0 ||
        json_add(o, "arguments", strings(request->arguments, request->n_arguments)) < 0 ||
        json_add(o, "environment", strings(request->environment, request->n_environment)) < 0 ||
        json_add(o, "inputs", freeze_inputs(request)) < 0 ||
        json_add_uint64(o, "stdinInode", inode_of(request->stdin_memfd)) < 0 ||
        json_add_bool(o, "network", request->network) < 0 ||
        json_add(o, "hosts", strings(request->hosts.items, request->hosts.n)) < 0 ||
        json_add(o, "packages", strings(request->packages, request->n_packages)) < 0 ||
        json_add_bool(o, "requireHashes", request->require_hashes) < 0 ||
        json_add_bool(o, "allowSecrets", request->allow_secrets) < 0 ||
        json_add_uint64(o, "memoryBytes", request->memory_bytes) < 0 ||
        json_add_uint64(o, "cpuPercent", request->cpu_percent) < 0 ||
        json_add_uint64(o, "timeoutUSec", request->timeout_usec) < 0 ||
        json_add_bool(o, "detach", request->detach) < 0)
        return NULL;
    return TAKE_PTR(o);
}

size_t request_fds(const struct request *request, int ret[VARLINK_FDS_MAX])
{
    size_t n = 0;

    if (request->script >= 0)
        ret[n++] = request->script;
    if (request->stdin_memfd >= 0)
        ret[n++] = request->stdin_memfd;
    for (size_t i = 0; i < request->n_inputs && n < VARLINK_FDS_MAX; i++)
        if (request->inputs[i].fd >= 0)
            ret[n++] = request->inputs[i].fd;
    return n;
}

/* ---- Thawing ---- */

struct raw {
    const char *script_name, *script_sha256, *sha256, *language, *engine, *image, *template;
    uint64_t script_inode, script_bytes, stdin_inode, memory_bytes, cpu_percent, timeout_usec;
    json_object *arguments, *environment, *inputs, *hosts, *packages;
    bool network, require_hashes, allow_secrets, detach;
};

#define AT(member) offsetof(struct raw, member)
static const struct json_field fields[] = {
    { "scriptName", JSON_FIELD_STRING, AT(script_name), true, 0, REQUEST_NAME_MAX },
    { "scriptInode", JSON_FIELD_UINT64, AT(script_inode), true, 0, INT64_MAX },
    { "scriptBytes", JSON_FIELD_UINT64, AT(script_bytes), true, 0, INT64_MAX },
    { "scriptSha256", JSON_FIELD_STRING, AT(script_sha256), true, 0, REQUEST_SHA256_TEXT - 1 },
    { "sha256", JSON_FIELD_STRING, AT(sha256), true, 0, REQUEST_SHA256_TEXT - 1 },
    { "language", JSON_FIELD_STRING, AT(language), false, 0, 0 },
    { "engine", JSON_FIELD_STRING, AT(engine), false, 0, 0 },
    { "image", JSON_FIELD_STRING, AT(image), false, 0, 0 },
    { "template", JSON_FIELD_STRING, AT(template), false, 0, 0 },
    { "arguments", JSON_FIELD_ARRAY, AT(arguments), true, 0, 0 },
    { "environment", JSON_FIELD_ARRAY, AT(environment), true, 0, 0 },
    { "inputs", JSON_FIELD_ARRAY, AT(inputs), true, 0, 0 },
    { "stdinInode", JSON_FIELD_UINT64, AT(stdin_inode), true, 0, INT64_MAX },
    { "network", JSON_FIELD_BOOL, AT(network), true, 0, 0 },
    { "hosts", JSON_FIELD_ARRAY, AT(hosts), true, 0, 0 },
    { "packages", JSON_FIELD_ARRAY, AT(packages), true, 0, 0 },
    { "requireHashes", JSON_FIELD_BOOL, AT(require_hashes), true, 0, 0 },
    { "allowSecrets", JSON_FIELD_BOOL, AT(allow_secrets), true, 0, 0 },
    { "memoryBytes", JSON_FIELD_UINT64, AT(memory_bytes), false, 0, INT64_MAX },
    { "cpuPercent", JSON_FIELD_UINT64, AT(cpu_percent), false, 0, INT64_MAX },
    { "timeoutUSec", JSON_FIELD_UINT64, AT(timeout_usec), false, 0, INT64_MAX },
    { "detach", JSON_FIELD_BOOL, AT(detach), true, 0, 0 },
};
#undef AT

struct raw_input {
    const char *name;
    uint64_t size, inode;
};

static const struct json_field input_fields[] = {
    { "name", JSON_FIELD_STRING, offsetof(struct raw_input, name), true, 0, LAUNCH_NAME_MAX - 1 },
    { "size", JSON_FIELD_UINT64, offsetof(struct raw_input, size), true, 0, INT64_MAX },
    { "inode", JSON_FIELD_UINT64, offsetof(struct raw_input, inode), true, 0, INT64_MAX },
};

static int parse_raw(json_object *object, struct raw *ret)
{
    const char *bad;

    *ret = (struct raw){ .memory_bytes = UINT64_MAX,
                         .cpu_percent = UINT64_MAX,
                         .timeout_usec = UINT64_MAX };
    return json_dispatch(object, fields, ELEMENTS(fields), false, ret, &bad) < 0 ? -EBADMSG : 0;
}

static int parse_raw_input(json_object *inputs, size_t i, struct raw_input *ret)
{
    json_object *object = json_object_array_get_idx(inputs, i);
    const char *bad;

    return json_object_is_type(object, json_type_object) &&
                   json_dispatch(object, input_fields, ELEMENTS(input_fields), false, ret, &bad) >=
                       0
               ? 0
               : -EBADMSG;
}

/* A NULL-terminated list. */
static int thaw_strings(json_object *array, char ***ret, size_t *ret_n)
{
    size_t n = json_object_array_length(array);

    *ret = calloc(n + 1, sizeof(char *));
    if (!*ret)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++) {
        json_object *item = json_object_array_get_idx(array, i);
        if (!json_object_is_type(item, json_type_string))
            return -EBADMSG;
        (*ret)[i] = strdup(json_object_get_string(item));
        if (!(*ret)[i])
            return -ENOMEM;
        *ret_n = i + 1;
    }
    return 0;
}

static int thaw_hosts(json_object *array, struct request *request)
{
    int r = 0;

    for (size_t i = 0; r >= 0 && i < json_object_array_length(array); i++) {
        json_object *item = json_object_array_get_idx(array, i);
        r = json_object_is_type(item, json_type_string)
                ? host_list_add(&request->hosts, json_object_get_string(item))
                : -EBADMSG;
    }
    return r;
}

static int thaw_inputs(json_object *array, struct request *request)
{
    size_t n = json_object_array_length(array);

    request->inputs = calloc(n + 1, sizeof(struct request_input));
    if (!request->inputs)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++) {
        struct raw_input raw = { 0 };
        int r = parse_raw_input(array, i, &raw);
        if (r < 0)
            return r;
        request->inputs[i] =
            (struct request_input){ .name = strdup(raw.name), .fd = -1, .size = raw.size };
        request->n_inputs = i + 1;
        if (!request->inputs[i].name)
            return -ENOMEM;
    }
    return 0;
}

static int copy_text(const char *text, char **ret)
{
    *ret = text ? strdup(text) : NULL;
    return text && !*ret ? -ENOMEM : 0;
}

static int thaw_into(const struct raw *raw, struct request *request)
{
    strcpy(request->script_sha256, raw->script_sha256);
    strcpy(request->sha256, raw->sha256);
    request->script_bytes = raw->script_bytes;
    request->network = raw->network;
    request->require_hashes = raw->require_hashes;
    request->allow_secrets = raw->allow_secrets;
    request->memory_bytes = raw->memory_bytes;
    request->cpu_percent = raw->cpu_percent;
    request->timeout_usec = raw->timeout_usec;
    request->detach = raw->detach;
    int r = copy_text(raw->script_name, &request->script_name);
    if (r >= 0)
        r = copy_text(raw->language, &request->language);
    if (r >= 0)
        r = copy_text(raw->engine, &request->engine);
    if (r >= 0)
        r = copy_text(raw->image, &request->image);
    if (r >= 0)
        r = copy_text(raw->template, &request->template);
    if (r >= 0)
        r = thaw_strings(raw->arguments, &request->arguments, &request->n_arguments);
    if (r >= 0)
        r = thaw_strings(raw->environment, &request->environment, &request->n_environment);
    if (r >= 0)
        r = thaw_strings(raw->packages, &request->packages, &request->n_packages);
    if (r >= 0)
        r = thaw_hosts(raw->hosts, request);
    return r < 0 ? r : thaw_inputs(raw->inputs, request);
}

int request_thaw(json_object *object, struct request *ret)
{
    struct request request = REQUEST_NULL;
    struct raw raw;

    int r = parse_raw(object, &raw);
    if (r >= 0)
        r = thaw_into(&raw, &request);
    if (r < 0) {
        request_release(&request);
        return r;
    }
    *ret = request;
    return 0;
}

/* ---- Descriptors ---- */

/* Whoever read from it last may have left its position anywhere. */
static int take_memfd(uint64_t inode, int *fds, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (fds[i] >= 0 && inode_of(fds[i]) == inode && memfd_is_sealed(fds[i]) &&
            lseek(fds[i], 0, SEEK_SET) == 0)
            return TAKE_FD(fds[i]);
    return -ENOENT;
}

int request_thaw_fds(json_object *object, struct request *request, int *fds, size_t n)
{
    struct raw raw;

    int r = parse_raw(object, &raw);
    if (r < 0)
        return r;
    request->script = take_memfd(raw.script_inode, fds, n);
    if (raw.stdin_inode != 0)
        request->stdin_memfd = take_memfd(raw.stdin_inode, fds, n);
    if (request->script < 0 || (raw.stdin_inode != 0 && request->stdin_memfd < 0))
        return -ENOENT;
    for (size_t i = 0; i < request->n_inputs; i++) {
        struct raw_input input = { 0 };
        r = parse_raw_input(raw.inputs, i, &input);
        if (r < 0)
            return r;
        request->inputs[i].fd = take_memfd(input.inode, fds, n);
        if (request->inputs[i].fd < 0)
            return -ENOENT;
    }
    return 0;
}
