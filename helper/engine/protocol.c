/* The engine protocol's messages as JSON and back, see protocol.h. Called by the broker and by
 * every engine; must never interpret a message beyond its form. */
#include "protocol.h"

#include <stdio.h>
#include <string.h>

#include "common/file.h"
#include "common/message.h"

/* A message on its way in: numbers go where they belong at once, texts are copied when all is known
 * to be right. */
struct incoming {
    struct engine_message message;
    const char *run_id, *image, *image_digest, *sandbox_id, *phase, *text, *why;
    const char *layer, *layer_target, *wheels, *hosts;
};

static const char *const why_names[] = {
    [ENGINE_WHY_EXIT] = "exit",
    [ENGINE_WHY_OOM] = "oom",
    [ENGINE_WHY_TIMEOUT] = "timeout",
    [ENGINE_WHY_KILLED] = "killed",
};
static const char *const target_paths[] = {
    [ENGINE_TARGET_NONE] = "",
    [ENGINE_TARGET_PACKAGES] = "/packages",
    [ENGINE_TARGET_NODE_MODULES] = "/node_modules",
};

static const struct json_field start_fields[] = {
    FIELD_TEXT(incoming, "runId", run_id, ENGINE_RUN_ID_MAX, MANDATORY),
    FIELD_TEXT(incoming, "image", image, ENGINE_TEXT_MAX),
    FIELD_TEXT(incoming, "layer", layer, ENGINE_LAYER_LENGTH),
    FIELD_TEXT(incoming, "layerTarget", layer_target, 16),
    FIELD_TEXT(incoming, "wheels", wheels, ENGINE_TEXT_MAX),
    FIELD_UINT32(incoming, "ownerUid", message.start.owner_uid, 0, UINT32_MAX, MANDATORY),
    FIELD_UINT32(incoming, "cpuPercent", message.start.cpu_percent, 1, UINT32_MAX, MANDATORY),
    FIELD_UINT32(incoming, "tasks", message.start.tasks, 1, UINT32_MAX, MANDATORY),
    FIELD_UINT32(incoming, "workspaceInodes", message.start.workspace_inodes, 1, UINT32_MAX,
                 MANDATORY),
    FIELD_UINT64(incoming, "memoryBytes", message.start.memory_bytes, 1, MANDATORY),
    FIELD_UINT64(incoming, "workspaceBytes", message.start.workspace_bytes, 1, MANDATORY),
    FIELD_UINT64(incoming, "scratchBytes", message.start.scratch_bytes, 1, MANDATORY),
    FIELD_UINT64(incoming, "lifetimeUSec", message.start.lifetime_usec, 1, MANDATORY),
    FIELD_BOOL(incoming, "network", message.start.network),
    FIELD_TEXT(incoming, "hosts", hosts, ENGINE_HOSTS_MAX),
};
static const struct json_field kill_fields[] = {
    FIELD_UINT64(incoming, "graceUSec", message.kill.grace_usec, 0),
};
static const struct json_field progress_fields[] = {
    FIELD_TEXT(incoming, "phase", phase, sizeof(((struct engine_progress *)0)->phase) - 1,
               MANDATORY),
    FIELD_UINT64(incoming, "current", message.progress.current, 0),
    FIELD_UINT64(incoming, "total", message.progress.total, 0),
};
static const struct json_field ready_fields[] = {
    FIELD_TEXT(incoming, "sandboxId", sandbox_id, ENGINE_TEXT_MAX, MANDATORY),
    FIELD_TEXT(incoming, "image", image, ENGINE_TEXT_MAX),
    FIELD_TEXT(incoming, "imageDigest", image_digest, ENGINE_TEXT_MAX),
};
static const struct json_field ended_fields[] = {
    FIELD_TEXT(incoming, "why", why, 16, MANDATORY),
    FIELD_UINT64(incoming, "oomKills", message.ended.oom_kills, 0),
    FIELD_UINT64(incoming, "cpuUSec", message.ended.cpu_usec, 0),
    FIELD_UINT64(incoming, "memoryPeakBytes", message.ended.memory_peak_bytes, 0),
    FIELD_UINT64(incoming, "taskRefusals", message.ended.task_refusals, 0),
    FIELD_UINT64(incoming, "leftovers", message.ended.leftovers, 0),
    FIELD_BOOL(incoming, "cleaned", message.ended.cleaned, MANDATORY),
    FIELD_BOOL(incoming, "stands", message.ended.stands),
};
static const struct json_field removed_fields[] = {
    FIELD_BOOL(incoming, "cleaned", message.removed.cleaned, MANDATORY),
};
static const struct json_field error_fields[] = {
    FIELD_TEXT(incoming, "phase", phase, sizeof(((struct engine_error *)0)->phase) - 1, MANDATORY),
    FIELD_TEXT(incoming, "message", text, ENGINE_TEXT_MAX, MANDATORY),
};

static const struct json_field prepare_fields[] = {
    FIELD_TEXT(incoming, "image", image, ENGINE_TEXT_MAX),
    FIELD_BOOL(incoming, "anyState", message.prepare.any_state),
    FIELD_BOOL(incoming, "look", message.prepare.look),
};
static const struct json_field prepared_fields[] = {
    FIELD_TEXT(incoming, "image", image, ENGINE_TEXT_MAX),
    FIELD_TEXT(incoming, "imageDigest", image_digest, ENGINE_TEXT_MAX),
};

static const struct message_type types[] = {
    [ENGINE_START] = { "start", start_fields, ELEMENTS(start_fields) },
    [ENGINE_KILL] = { "kill", kill_fields, ELEMENTS(kill_fields) },
    [ENGINE_PROGRESS] = { "progress", progress_fields, ELEMENTS(progress_fields) },
    [ENGINE_READY] = { "ready", ready_fields, ELEMENTS(ready_fields) },
    [ENGINE_ENDED] = { "ended", ended_fields, ELEMENTS(ended_fields) },
    [ENGINE_ERROR] = { "error", error_fields, ELEMENTS(error_fields) },
    [ENGINE_PREPARE] = { "prepare", prepare_fields, ELEMENTS(prepare_fields) },
    [ENGINE_PREPARED] = { "prepared", prepared_fields, ELEMENTS(prepared_fields) },
    [ENGINE_REMOVED] = { "removed", removed_fields, ELEMENTS(removed_fields) },
};

static const struct message_protocol protocol = {
    ENGINE_PROTOCOL_VERSION,
    ENGINE_PACKET_MAX,
    types,
    ELEMENTS(types),
};

const char *engine_target_path(enum engine_target target)
{
    return target_paths[target];
}

/* ---- in */

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
    message_copy_text(start->run_id, in->run_id);
    message_copy_text(start->image, in->image);
    message_copy_text(start->layer, in->layer);
    message_copy_text(start->wheels, in->wheels);
    message_copy_text(start->hosts, in->hosts);
    int target = message_find_name(target_paths, ELEMENTS(target_paths),
                                   in->layer_target ? in->layer_target : "");
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
        message_copy_text(m->progress.phase, in->phase);
        return 0;
    case ENGINE_READY:
        message_copy_text(m->ready.sandbox_id, in->sandbox_id);
        message_copy_text(m->ready.image, in->image);
        message_copy_text(m->ready.image_digest, in->image_digest);
        return 0;
    case ENGINE_ENDED:
        why = message_find_name(why_names, ELEMENTS(why_names), in->why);
        if (why < 0)
            return -EBADMSG;
        m->ended.why = (enum engine_why)why;
        return 0;
    case ENGINE_ERROR:
        message_copy_text(m->error.phase, in->phase);
        message_copy_text(m->error.message, in->text);
        return 0;
    case ENGINE_PREPARE:
        message_copy_text(m->prepare.image, in->image);
        return 0;
    case ENGINE_PREPARED:
        message_copy_text(m->prepared.image, in->image);
        message_copy_text(m->prepared.image_digest, in->image_digest);
        return 0;
    case ENGINE_KILL:
    case ENGINE_REMOVED:
    default:
        return 0;
    }
}

int engine_message_parse(const char *data, size_t size, struct engine_message *ret)
{
    _cleanup_json_ json_object *object = NULL;
    struct incoming in = { 0 };
    int type;

    int r = message_open(&protocol, data, size, &object, &type);
    if (r < 0)
        return r;
    in.message.type = (enum engine_type)type;
    /* Counters that are not told are not known. */
    if (in.message.type == ENGINE_ENDED)
        in.message.ended = (struct engine_ended){
            .oom_kills = UINT64_MAX,
            .cpu_usec = UINT64_MAX,
            .memory_peak_bytes = UINT64_MAX,
            .task_refusals = UINT64_MAX,
            .leftovers = UINT64_MAX,
        };
    r = message_dispatch(&protocol, type, object, &in);
    r = r < 0 ? r : finish(&in);
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
    r = r < 0 ? r : json_add_string(o, "layerTarget", target_paths[m->layer_target]);
    r = r < 0 ? r : json_add_string(o, "wheels", m->wheels);
    r = r < 0 ? r : json_add_uint64(o, "ownerUid", m->owner_uid);
    r = r < 0 ? r : json_add_uint64(o, "cpuPercent", m->cpu_percent);
    r = r < 0 ? r : json_add_uint64(o, "tasks", m->tasks);
    r = r < 0 ? r : json_add_uint64(o, "workspaceInodes", m->workspace_inodes);
    r = r < 0 ? r : json_add_uint64(o, "memoryBytes", m->memory_bytes);
    r = r < 0 ? r : json_add_uint64(o, "workspaceBytes", m->workspace_bytes);
    r = r < 0 ? r : json_add_uint64(o, "scratchBytes", m->scratch_bytes);
    r = r < 0 ? r : json_add_uint64(o, "lifetimeUSec", m->lifetime_usec);
    r = r < 0 ? r : json_add_bool(o, "network", m->network);
    return r < 0 ? r : json_add_string(o, "hosts", m->hosts);
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
    r = r < 0 ? r : json_add_bool(o, "cleaned", m->cleaned);
    return r < 0 || !m->stands ? r : json_add_bool(o, "stands", true);
}

static int add_error(json_object *o, const struct engine_error *m)
{
    int r = json_add_string(o, "phase", m->phase);
    return r < 0 ? r : json_add_string(o, "message", m->message);
}

static int add_prepare(json_object *o, const struct engine_prepare *m)
{
    int r = json_add_string(o, "image", m->image);
    r = r < 0 ? r : json_add_bool(o, "anyState", m->any_state);
    return r < 0 || !m->look ? r : json_add_bool(o, "look", true);
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
    case ENGINE_REMOVED:
        return json_add_bool(o, "cleaned", m->removed.cleaned);
    default:
        return -EINVAL;
    }
}

int engine_message_format(const struct engine_message *message, char **ret, size_t *ret_size)
{
    _cleanup_json_ json_object *object = NULL;

    int r = message_new(&protocol, (int)message->type, &object);
    r = r < 0 ? r : add_body(object, message);
    return r < 0 ? r : message_write(&protocol, object, ret, ret_size);
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
