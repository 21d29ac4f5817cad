/* The engine protocol's messages as JSON and back, see protocol.h. Called by the broker and by
 * every engine; must never interpret a message beyond its form. */
#include "protocol.h"

#include <stdio.h>
#include <string.h>

#include "common/file.h"
#include "common/json.h"

/* A message on its way in: numbers go where they belong at once, texts are copied when all is known
 * to be right. */
struct incoming {
    struct engine_message message;
    const char *run_id, *image, *image_digest, *sandbox_id, *phase, *text, *why;
    const char *layer, *layer_target, *wheels;
};

struct head {
    uint32_t version;
    const char *type;
};

static const char *const type_names[] = {
    [ENGINE_START] = "start",     [ENGINE_KILL] = "kill",         [ENGINE_PROGRESS] = "progress",
    [ENGINE_READY] = "ready",     [ENGINE_ENDED] = "ended",       [ENGINE_ERROR] = "error",
    [ENGINE_PREPARE] = "prepare", [ENGINE_PREPARED] = "prepared",
};
static const char *const why_names[] = {
    [ENGINE_WHY_EXIT] = "exit",
    [ENGINE_WHY_OOM] = "oom",
    [ENGINE_WHY_TIMEOUT] = "timeout",
    [ENGINE_WHY_KILLED] = "killed",
};
static const char *const target_names[] = {
    [ENGINE_TARGET_NONE] = "",
    [ENGINE_TARGET_PACKAGES] = "/packages",
    [ENGINE_TARGET_NODE_MODULES] = "/node_modules",
};

#define MANDATORY .mandatory = true
#define TEXT(key, member, limit, ...)                                                        \
    {                                                                                        \
        .name = key, .type = JSON_FIELD_STRING, .offset = offsetof(struct incoming, member), \
        .max = (limit), __VA_ARGS__                                                          \
    }
#define NUMBER32(key, member, least, ...)                                          \
    {                                                                              \
        .name = key, .type = JSON_FIELD_UINT32, .min = (least), .max = UINT32_MAX, \
        .offset = offsetof(struct incoming, message.member), __VA_ARGS__           \
    }
#define NUMBER64(key, member, least, ...)                                         \
    {                                                                             \
        .name = key, .type = JSON_FIELD_UINT64, .min = (least), .max = INT64_MAX, \
        .offset = offsetof(struct incoming, message.member), __VA_ARGS__          \
    }
#define TRUTH(key, member, ...)                                                                    \
    {                                                                                              \
        .name = key, .type = JSON_FIELD_BOOL, .offset = offsetof(struct incoming, message.member), \
        __VA_ARGS__                                                                                \
    }

static const struct json_field head_fields[] = {
    { "version", JSON_FIELD_UINT32, offsetof(struct head, version), true, 0, UINT32_MAX },
    { "type", JSON_FIELD_STRING, offsetof(struct head, type), true, 0, 16 },
};
static const struct json_field start_fields[] = {
    TEXT("runId", run_id, ENGINE_RUN_ID_MAX, MANDATORY),
    TEXT("image", image, ENGINE_TEXT_MAX),
    TEXT("layer", layer, ENGINE_LAYER_LENGTH),
    TEXT("layerTarget", layer_target, 16),
    TEXT("wheels", wheels, ENGINE_TEXT_MAX),
    NUMBER32("ownerUid", start.owner_uid, 0, MANDATORY),
    NUMBER32("cpuPercent", start.cpu_percent, 1, MANDATORY),
    NUMBER32("tasks", start.tasks, 1, MANDATORY),
    NUMBER32("workspaceInodes", start.workspace_inodes, 1, MANDATORY),
    NUMBER64("memoryBytes", start.memory_bytes, 1, MANDATORY),
    NUMBER64("workspaceBytes", start.workspace_bytes, 1, MANDATORY),
    NUMBER64("scratchBytes", start.scratch_bytes, 1, MANDATORY),
    NUMBER64("lifetimeUSec", start.lifetime_usec, 1, MANDATORY),
    TRUTH("network", start.network),
};
static const struct json_field kill_fields[] = {
    NUMBER64("graceUSec", kill.grace_usec, 0),
};
static const struct json_field progress_fields[] = {
    TEXT("phase", phase, sizeof(((struct engine_progress *)0)->phase) - 1, MANDATORY),
    NUMBER64("current", progress.current, 0),
    NUMBER64("total", progress.total, 0),
};
static const struct json_field ready_fields[] = {
    TEXT("sandboxId", sandbox_id, ENGINE_TEXT_MAX, MANDATORY),
    TEXT("image", image, ENGINE_TEXT_MAX),
    TEXT("imageDigest", image_digest, ENGINE_TEXT_MAX),
};
static const struct json_field ended_fields[] = {
    TEXT("why", why, 16, MANDATORY),
    NUMBER64("oomKills", ended.oom_kills, 0),
    NUMBER64("cpuUSec", ended.cpu_usec, 0),
    NUMBER64("memoryPeakBytes", ended.memory_peak_bytes, 0),
    NUMBER64("taskRefusals", ended.task_refusals, 0),
    NUMBER64("leftovers", ended.leftovers, 0),
    TRUTH("cleaned", ended.cleaned, MANDATORY),
};
static const struct json_field error_fields[] = {
    TEXT("phase", phase, sizeof(((struct engine_error *)0)->phase) - 1, MANDATORY),
    TEXT("message", text, ENGINE_TEXT_MAX, MANDATORY),
};

static const struct json_field prepare_fields[] = {
    TEXT("image", image, ENGINE_TEXT_MAX),
    TRUTH("anyState", prepare.any_state),
};
static const struct json_field prepared_fields[] = {
    TEXT("image", image, ENGINE_TEXT_MAX),
    TEXT("imageDigest", image_digest, ENGINE_TEXT_MAX),
};

static const struct {
    const struct json_field *fields;
    size_t n_fields;
} messages[] = {
    [ENGINE_START] = { start_fields, ELEMENTS(start_fields) },
    [ENGINE_KILL] = { kill_fields, ELEMENTS(kill_fields) },
    [ENGINE_PROGRESS] = { progress_fields, ELEMENTS(progress_fields) },
    [ENGINE_READY] = { ready_fields, ELEMENTS(ready_fields) },
    [ENGINE_ENDED] = { ended_fields, ELEMENTS(ended_fields) },
    [ENGINE_ERROR] = { error_fields, ELEMENTS(error_fields) },
    [ENGINE_PREPARE] = { prepare_fields, ELEMENTS(prepare_fields) },
    [ENGINE_PREPARED] = { prepared_fields, ELEMENTS(prepared_fields) },
};

/* Index of @name in @names, or -1. */
static int lookup(const char *const *names, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(names[i], name) == 0)
            return (int)i;
    return -1;
}

/* ---- in */

/* The dispatcher has checked the length against the size of @target; an absent text is empty. */
static void copy_text(char *target, const char *text)
{
    strcpy(target, text ? text : "");
}

/* It becomes part of unit, container and file names. */
static bool run_id_is_valid(const char *id)
{
    return *id != '\0' && id[strspn(id, "0123456789abcdef")] == '\0';
}

static bool layer_is_valid(const char *layer)
{
    size_t n = strspn(layer, "0123456789abcdef");

    return layer[n] == '\0' && (n == 0 || n == ENGINE_LAYER_LENGTH);
}

/* They become paths. */
static int finish_start(struct incoming *in)
{
    struct engine_start *start = &in->message.start;

    if (!run_id_is_valid(in->run_id))
        return -EBADMSG;
    copy_text(start->run_id, in->run_id);
    copy_text(start->image, in->image);
    copy_text(start->layer, in->layer);
    copy_text(start->wheels, in->wheels);
    int target =
        lookup(target_names, ELEMENTS(target_names), in->layer_target ? in->layer_target : "");
    if (target < 0 || !layer_is_valid(start->layer) ||
        (target == ENGINE_TARGET_NONE) != (start->layer[0] == '\0'))
        return -EBADMSG;
    start->layer_target = (enum engine_target)target;
    if (start->wheels[0] == '\0')
        return 0;
    return start->wheels[0] == '/' && path_is_plain(start->wheels + 1) ? 0 : -EBADMSG;
}

/* Copies the texts, and checks what a table cannot say. */
static int finish(struct incoming *in)
{
    struct engine_message *m = &in->message;
    int why;

    switch (m->type) {
    case ENGINE_START:
        return finish_start(in);
    case ENGINE_PROGRESS:
        copy_text(m->progress.phase, in->phase);
        return 0;
    case ENGINE_READY:
        copy_text(m->ready.sandbox_id, in->sandbox_id);
        copy_text(m->ready.image, in->image);
        copy_text(m->ready.image_digest, in->image_digest);
        return 0;
    case ENGINE_ENDED:
        why = lookup(why_names, ELEMENTS(why_names), in->why);
        if (why < 0)
            return -EBADMSG;
        m->ended.why = (enum engine_why)why;
        return 0;
    case ENGINE_ERROR:
        copy_text(m->error.phase, in->phase);
        copy_text(m->error.message, in->text);
        return 0;
    case ENGINE_PREPARE:
        copy_text(m->prepare.image, in->image);
        return 0;
    case ENGINE_PREPARED:
        copy_text(m->prepared.image, in->image);
        copy_text(m->prepared.image_digest, in->image_digest);
        return 0;
    case ENGINE_KILL:
    default:
        return 0;
    }
}

static int parse_head(json_object *object, enum engine_type *ret)
{
    struct head head = { 0 };
    const char *field;

    if (json_dispatch(object, head_fields, ELEMENTS(head_fields), true, &head, &field) < 0)
        return -EBADMSG;
    int type = lookup(type_names, ELEMENTS(type_names), head.type);
    if (head.version != ENGINE_PROTOCOL_VERSION || type < 0)
        return -EPROTONOSUPPORT;
    *ret = (enum engine_type)type;
    return 0;
}

int engine_message_parse(const char *data, size_t size, struct engine_message *ret)
{
    _cleanup_json_ json_object *object = NULL;
    struct incoming in = { 0 };
    const char *field;

    int r = json_parse_guarded(data, size, &object);
    if (r < 0)
        return r == -ENOMEM ? r : -EBADMSG;
    r = parse_head(object, &in.message.type);
    if (r < 0)
        return r;
    /* Counters that are not told are not known. */
    if (in.message.type == ENGINE_ENDED)
        in.message.ended = (struct engine_ended){
            .oom_kills = UINT64_MAX,
            .cpu_usec = UINT64_MAX,
            .memory_peak_bytes = UINT64_MAX,
            .task_refusals = UINT64_MAX,
            .leftovers = UINT64_MAX,
        };
    if (json_dispatch(object, messages[in.message.type].fields, messages[in.message.type].n_fields,
                      true, &in, &field) < 0)
        return -EBADMSG;
    r = finish(&in);
    if (r < 0)
        return r;
    *ret = in.message;
    return 0;
}

/* ---- out */

/* Each returns 0 or the first negative error of the calls that are joined here. */
static int add_start(json_object *o, const struct engine_start *m)
{
    int r = json_add_string(o, "runId", m->run_id);
    r = r < 0 ? r : json_add_string(o, "image", m->image);
    r = r < 0 ? r : json_add_string(o, "layer", m->layer);
    r = r < 0 ? r : json_add_string(o, "layerTarget", target_names[m->layer_target]);
    r = r < 0 ? r : json_add_string(o, "wheels", m->wheels);
    r = r < 0 ? r : json_add_uint64(o, "ownerUid", m->owner_uid);
    r = r < 0 ? r : json_add_uint64(o, "cpuPercent", m->cpu_percent);
    r = r < 0 ? r : json_add_uint64(o, "tasks", m->tasks);
    r = r < 0 ? r : json_add_uint64(o, "workspaceInodes", m->workspace_inodes);
    r = r < 0 ? r : json_add_uint64(o, "memoryBytes", m->memory_bytes);
    r = r < 0 ? r : json_add_uint64(o, "workspaceBytes", m->workspace_bytes);
    r = r < 0 ? r : json_add_uint64(o, "scratchBytes", m->scratch_bytes);
    r = r < 0 ? r : json_add_uint64(o, "lifetimeUSec", m->lifetime_usec);
    return r < 0 ? r : json_add_bool(o, "network", m->network);
}

static int add_progress(json_object *o, const struct engine_progress *m)
{
    int r = json_add_string(o, "phase", m->phase);
    r = r < 0 ? r : json_add_uint64(o, "current", m->current);
    return r < 0 ? r : json_add_uint64(o, "total", m->total);
}

static int add_ready(json_object *o, const struct engine_ready *m)
{
    int r = json_add_string(o, "sandboxId", m->sandbox_id);
    r = r < 0 ? r : json_add_string(o, "image", m->image);
    return r < 0 ? r : json_add_string(o, "imageDigest", m->image_digest);
}

/* UINT64_MAX, "cannot tell", is left out by json_add_uint64(). */
static int add_ended(json_object *o, const struct engine_ended *m)
{
    int r = json_add_string(o, "why", why_names[m->why]);
    r = r < 0 ? r : json_add_uint64(o, "oomKills", m->oom_kills);
    r = r < 0 ? r : json_add_uint64(o, "cpuUSec", m->cpu_usec);
    r = r < 0 ? r : json_add_uint64(o, "memoryPeakBytes", m->memory_peak_bytes);
    r = r < 0 ? r : json_add_uint64(o, "taskRefusals", m->task_refusals);
    r = r < 0 ? r : json_add_uint64(o, "leftovers", m->leftovers);
    return r < 0 ? r : json_add_bool(o, "cleaned", m->cleaned);
}

static int add_error(json_object *o, const struct engine_error *m)
{
    int r = json_add_string(o, "phase", m->phase);
    return r < 0 ? r : json_add_string(o, "message", m->message);
}

static int add_prepare(json_object *o, const struct engine_prepare *m)
{
    int r = json_add_string(o, "image", m->image);
    return r < 0 ? r : json_add_bool(o, "anyState", m->any_state);
}

static int add_prepared(json_object *o, const struct engine_prepared *m)
{
    int r = json_add_string(o, "image", m->image);
    return r < 0 ? r : json_add_string(o, "imageDigest", m->image_digest);
}

static int add_body(json_object *o, const struct engine_message *m)
{
    switch (m->type) {
    case ENGINE_START:
        return add_start(o, &m->start);
    case ENGINE_KILL:
        return json_add_uint64(o, "graceUSec", m->kill.grace_usec);
    case ENGINE_PROGRESS:
        return add_progress(o, &m->progress);
    case ENGINE_READY:
        return add_ready(o, &m->ready);
    case ENGINE_ENDED:
        return add_ended(o, &m->ended);
    case ENGINE_ERROR:
        return add_error(o, &m->error);
    case ENGINE_PREPARE:
        return add_prepare(o, &m->prepare);
    case ENGINE_PREPARED:
        return add_prepared(o, &m->prepared);
    default:
        return -EINVAL;
    }
}

int engine_message_format(const struct engine_message *message, char **ret, size_t *ret_size)
{
    _cleanup_json_ json_object *object = json_object_new_object();
    size_t size;

    if (!object)
        return -ENOMEM;
    int r = json_add_string(object, "type", type_names[message->type]);
    r = r < 0 ? r : json_add_uint64(object, "version", ENGINE_PROTOCOL_VERSION);
    r = r < 0 ? r : add_body(object, message);
    if (r < 0)
        return r;
    const char *text = json_text(object, &size);
    if (!text)
        return -ENOMEM;
    if (size > ENGINE_PACKET_MAX)
        return -EMSGSIZE;
    char *copy = strndup(text, size);
    if (!copy)
        return -ENOMEM;
    *ret = copy;
    *ret_size = size;
    return 0;
}

/* ---- on the socket */

int engine_send(int sock, const struct engine_message *message, const int *fds, size_t n_fds)
{
    _cleanup_free_ char *text = NULL;
    size_t size;

    int r = engine_message_format(message, &text, &size);
    return r < 0 ? r : packet_send(sock, text, size, fds, n_fds);
}

int engine_recv(int sock, struct engine_message *ret, int fds[PACKET_FDS_MAX], size_t *ret_n_fds)
{
    _cleanup_free_ char *data = malloc(ENGINE_PACKET_MAX);

    if (!data)
        return -ENOMEM;
    ssize_t n = packet_recv(sock, data, ENGINE_PACKET_MAX, fds, ret_n_fds);
    if (n <= 0)
        return (int)n;
    int r = engine_message_parse(data, (size_t)n, ret);
    if (r < 0) {
        packet_close_fds(fds);
        *ret_n_fds = 0;
        return r;
    }
    return 1;
}
