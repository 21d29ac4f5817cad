/* The result object of a run: the interface's type Result, also run.json and what the index keeps.
 */
#include "broker/collapse.h"
#include "broker/keeper.h"
#include "broker/result.h"
#include "broker/run-internal.h"
#include "common/escape.h"
#include "common/file.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Text of a stream in the result: all of it, or its two ends. */
#define TEXT_MAX (64 * 1024)
#define TEXT_MARK "\n[... %" PRIu64 " bytes are left out here ...]\n"

static bool read_kept(int fd, char *buffer, size_t size, uint64_t offset)
{
    return pread_full(fd, buffer, size, (off_t)offset) == (ssize_t)size;
}

/* The kept bytes as text for people and models; NULL if they cannot be had. */
static char *stream_text(int fd, uint64_t kept, bool *ret_shortened)
{
    _cleanup_free_ char *buffer = malloc(TEXT_MAX + 128);
    size_t size;

    *ret_shortened = kept > TEXT_MAX;
    if (!buffer)
        return NULL;
    if (!*ret_shortened) {
        size = (size_t)kept;
        if (!read_kept(fd, buffer, size, 0))
            return NULL;
    } else {
        size = TEXT_MAX / 2;
        if (!read_kept(fd, buffer, size, 0))
            return NULL;
        size += (size_t)snprintf(buffer + size, 128, TEXT_MARK, kept - TEXT_MAX);
        if (!read_kept(fd, buffer + size, TEXT_MAX / 2, kept - TEXT_MAX / 2))
            return NULL;
        size += TEXT_MAX / 2;
    }
    return utf8_text(buffer, collapse_text(buffer, size));
}

static char *output_path(const struct run *run, const char *name)
{
    char *path;
    if (asprintf(&path, "%s/users/%u/%s%s%s", run->manager->state_directory, (unsigned)run->uid,
                 run->id, *name ? "/" : "", name) < 0)
        return NULL;
    return path;
}

static json_object *stream_object(const struct run *run, size_t which, const char *name)
{
    const struct stream *stream = run->streams[which];
    _cleanup_json_ json_object *object = json_object_new_object();
    _cleanup_free_ char *text = NULL, *path = run->collected ? output_path(run, name) : NULL;
    bool shortened = false;

    text = stream_text(run->kept[which], stream_kept(stream), &shortened);
    if (!object || json_add_string(object, "text", text) < 0 ||
        json_add_uint64(object, "bytes", stream_bytes(stream)) < 0 ||
        json_add_uint64(object, "keptBytes", stream_kept(stream)) < 0 ||
        json_add_bool(object, "truncated", stream_kept(stream) < stream_bytes(stream)) < 0 ||
        json_add_bool(object, "textShortened", shortened) < 0 ||
        json_add_string(object, "path", path) < 0)
        return NULL;
    return TAKE_PTR(object);
}

static int add_request(const struct run *run, json_object *result)
{
    const struct request *request = &run->request;
    int r;

    r = json_add_string(result, "engine", run->plan.engine);
    if (r >= 0 && run->image[0])
        r = json_add_string(result, "image", run->image);
    if (r >= 0 && run->image_digest[0])
        r = json_add_string(result, "imageDigest", run->image_digest);
    if (r >= 0 && run->sandbox_id[0])
        r = json_add_string(result, "sandboxId", run->sandbox_id);
    if (r >= 0)
        r = json_add_string(result, "language", run->plan.language->name);
    if (r >= 0)
        r = json_add_string(result, "scriptName", request->script_name);
    if (r >= 0)
        r = json_add_string(result, "scriptSha256", request->script_sha256);
    if (r >= 0)
        r = json_add_string(result, "requestSha256", request->sha256);
    if (r >= 0)
        r = json_add(result, "policy",
                     result_policy(&run->manager->config, &run->plan.limits, &run->plan.hosts));
    return r;
}

static int add_outcome(const struct run *run, json_object *result)
{
    const struct outcome *outcome = &run->outcome;
    char name[16];
    int r;

    r = json_add_string(result, "reason", outcome->reason);
    if (r >= 0 && outcome->hint[0])
        r = json_add_string(result, "hint", outcome->hint);
    if (r >= 0 && outcome->have_exit_code)
        r = json_add(result, "exitCode", json_object_new_int(outcome->exit_code));
    if (r >= 0 && outcome->signal != 0) {
        const char *known = sigabbrev_np(outcome->signal);
        if (known)
            snprintf(name, sizeof(name), "SIG%s", known);
        else
            snprintf(name, sizeof(name), "%d", outcome->signal);
        r = json_add_string(result, "signal", name);
    }
    return r;
}

static int add_usage(const struct run *run, json_object *result)
{
    const struct engine_ended *ended = &run->facts.ended;
    json_object *usage = json_object_new_object();
    int r = json_add(result, "usage", usage);

    if (r >= 0)
        r = json_add_uint64(usage, "wallUSec", run->end_usec - run->go_usec);
    if (r >= 0)
        r = json_add_uint64(usage, "waitUSec", run->go_usec - run->asked_usec);
    if (r >= 0)
        r = json_add_uint64(usage, "cpuUSec", facts_cpu_usec(&run->facts));
    if (r >= 0)
        r = json_add_uint64(usage, "cloudUSec", run_cloud_usec(run));
    if (r >= 0)
        r = json_add_bool(usage, "warm", run->warm);
    if (r >= 0)
        r = json_add_bool(usage, "warmInterpreter", run->interpreter_warm);
    if (!run->facts.have_ended)
        return r;
    if (r >= 0)
        r = json_add_uint64(usage, "memoryPeakBytes", ended->memory_peak_bytes);
    if (r >= 0 && ended->oom_kills != UINT64_MAX)
        r = json_add_uint64(result, "oomKills", ended->oom_kills);
    if (r >= 0 && run->facts.have_exited)
        r = json_add_uint64(result, "leftovers", facts_leftovers(&run->facts));
    return r;
}

/* The store's lists, each file with its path and type added. */
static int add_files(const struct run *run, json_object *result)
{
    json_object *files = NULL, *skipped = NULL;
    int r = 0;

    if (!json_object_object_get_ex(run->collected, "files", &files) ||
        !json_object_object_get_ex(run->collected, "skipped", &skipped))
        return -EBADMSG;
    for (size_t i = 0; r >= 0 && i < json_object_array_length(files); i++) {
        json_object *file = json_object_array_get_idx(files, i), *name = NULL;
        _cleanup_free_ char *below = NULL, *path = NULL;

        if (!json_object_object_get_ex(file, "name", &name) ||
            asprintf(&below, "files/%s", json_object_get_string(name)) < 0)
            return -EBADMSG;
        path = output_path(run, below);
        if (!path)
            return -ENOMEM;
        r = json_add_string(file, "path", path);
        if (r >= 0)
            r = json_add_string(file, "type", result_mime_type(json_object_get_string(name)));
    }
    if (r >= 0)
        r = json_add(result, "files", json_object_get(files));
    if (r >= 0)
        r = json_add(result, "skippedFiles", json_object_get(skipped));
    return r;
}

json_object *run_result(const struct run *run, enum run_status status)
{
    const char *const reasons[] = {
        [RUN_QUEUED] = "The run waits for its turn.",
        [RUN_STARTING] = run->state == STATE_INSTALLING ? "Its packages are being installed."
                                                        : "The sandbox is being made.",
        [RUN_RUNNING] = "The program runs.",
    };
    _cleanup_json_ json_object *result = json_object_new_object();
    _cleanup_free_ char *directory = NULL;
    int r;

    if (!result)
        return NULL;
    r = json_add_string(result, "id", run->id);
    if (r >= 0)
        r = json_add_string(result, "status", run_status_name(status));
    if (r >= 0)
        r = status <= RUN_RUNNING ? json_add_string(result, "reason", reasons[status])
                                  : add_outcome(run, result);
    if (r >= 0)
        r = add_request(run, result);
    if (r >= 0 && run->layer[0])
        r = json_add_string(result, "layer", run->layer);
    if (r >= 0 && run->resolved)
        r = json_add(result, "packages", json_object_get(run->resolved));
    if (r >= 0 && run->started_realtime != 0)
        r = json_add_uint64(result, "startedUSec", run->started_realtime);
    if (r >= 0 && run->ended_realtime != 0)
        r = json_add_uint64(result, "endedUSec", run->ended_realtime);
    if (r >= 0 && status > RUN_RUNNING)
        r = keeper_add_expiry(run->manager, result);
    if (r >= 0 && status > RUN_RUNNING && run->go_usec != 0)
        r = add_usage(run, result);
    if (r >= 0 && status > RUN_RUNNING && run->go_usec != 0 && run->plan.egress)
        r = json_add(result, "networkUse", network_use_object(&run->network));
    if (r >= 0 && status >= RUN_RUNNING && run->streams[0] && run->streams[1]) {
        r = json_add(result, "stdout", stream_object(run, 0, "stdout"));
        if (r >= 0)
            r = json_add(result, "stderr", stream_object(run, 1, "stderr"));
    }
    if (r >= 0 && run->collected) {
        directory = output_path(run, "");
        r = add_files(run, result);
        if (r >= 0)
            r = directory ? json_add_string(result, "outputDirectory", directory) : -ENOMEM;
    }
    return r < 0 ? NULL : TAKE_PTR(result);
}
