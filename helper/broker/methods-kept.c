/* What a caller does with what was kept of its runs, see methods-runs.h: the methods that wait for
 * the store. */
#include "broker/methods-runs.h"
#include "broker/result.h"
#include "broker/run.h"
#include "common/base64.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define READ_MAX (512 * 1024)

struct parameters {
    const char *id, *name;
    uint64_t offset, length;
};

#define AT(member) offsetof(struct parameters, member)
static const struct json_field remove_fields[] = {
    { "id", JSON_FIELD_STRING, AT(id), true, 0, 64 },
};

static const struct json_field read_fields[] = {
    { "id", JSON_FIELD_STRING, AT(id), true, 0, 64 },
    { "name", JSON_FIELD_STRING, AT(name), true, 0, 64 * 1024 },
    { "offset", JSON_FIELD_UINT64, AT(offset), false, 0, INT64_MAX },
    { "length", JSON_FIELD_UINT64, AT(length), false, 1, READ_MAX },
};
#undef AT

/* Finds the caller's finished run by the parameter "id". Returns 1 with it, or what answering with
 * an error returned (0 or negative). */
static int find_finished(struct varlink_call *call, struct manager *manager,
                         const struct json_field *fields, size_t n_fields,
                         struct parameters *parameters, const struct index_entry **ret)
{
    struct run *run;
    const char *bad;

    if (json_dispatch(varlink_call_parameters(call), fields, n_fields, false, parameters, &bad) < 0)
        return varlink_error_invalid_parameter(call, bad);
    int r = methods_find_run(call, manager, parameters->id, ret, &run);
    return r > 0 && run ? methods_answer_id(call, "io.sbxctl.Sandbox.RunActive", parameters->id)
                        : r;
}

/* A call that waits for the store. */
struct store_call {
    struct manager *manager;
    struct varlink_call *call;
    struct store_job *job;
    char *id, *name;
    uint64_t offset, length;
};

static void store_call_free(struct store_call *wait)
{
    varlink_call_on_gone(wait->call, NULL, NULL);
    varlink_call_unref(wait->call);
    store_job_free(wait->job);
    free(wait->id);
    free(wait->name);
    free(wait);
}

static void on_store_caller_gone(struct varlink_call *call, void *userdata)
{
    store_call_free(userdata);
}

static struct store_call *store_call_new(struct manager *manager, struct varlink_call *call,
                                         const struct parameters *parameters)
{
    struct store_call *wait = calloc(1, sizeof(*wait));

    if (!wait)
        return NULL;
    wait->manager = manager;
    wait->call = varlink_call_ref(call);
    wait->offset = parameters->offset;
    wait->length = parameters->length;
    wait->id = strdup(parameters->id);
    wait->name = parameters->name ? strdup(parameters->name) : NULL;
    if (!wait->id || (parameters->name && !wait->name)) {
        store_call_free(wait);
        return NULL;
    }
    return wait;
}

static void on_removed(int error, json_object *result, int fd, void *userdata)
{
    struct store_call *wait = userdata;

    close_fd(fd);
    /* The caller may have removed the directory already. */
    if (error < 0 && error != -ENOENT) {
        result_answer_failed(wait->call, strerrordesc_np(-error));
    } else {
        (void)index_remove(wait->manager->index, wait->id);
        (void)varlink_reply(wait->call, NULL);
    }
    store_call_free(wait);
}

int method_remove(struct varlink_call *call, struct manager *manager)
{
    struct parameters parameters = { 0 };
    const struct index_entry *entry;
    struct store_call *wait;
    int r =
        find_finished(call, manager, remove_fields, ELEMENTS(remove_fields), &parameters, &entry);

    if (r <= 0)
        return r;
    wait = store_call_new(manager, call, &parameters);
    if (!wait)
        return -ENOMEM;
    r = store_remove(manager->store, entry->uid, entry->id, on_removed, wait, &wait->job);
    if (r < 0)
        store_call_free(wait);
    /* A removal goes on when its caller hangs up: half a directory helps nobody. */
    return r;
}

/* ---- RemoveAll ---- */

/* One after the other, so that nobody fills the store's queue with removals. Ends early when its
 * caller is gone. */
struct removal {
    struct manager *manager;
    struct varlink_call *call; /* NULL: gone */
    struct store_job *job;
    char (*ids)[RUN_ID_TEXT];
    size_t n, allocated, next;
    uid_t uid;
    uint64_t removed, failed;
    char reason[256];
};

static void removal_free(struct removal *removal)
{
    if (removal->call)
        varlink_call_on_gone(removal->call, NULL, NULL);
    varlink_call_unref(removal->call);
    store_job_free(removal->job);
    free(removal->ids);
    free(removal);
}

static void removal_answer(struct removal *removal)
{
    json_object *reply = json_object_new_object();

    (void)json_add_uint64(reply, "removed", removal->removed);
    if (removal->failed > 0) {
        (void)json_add_uint64(reply, "failed", removal->failed);
        (void)json_add_string(reply, "reason", removal->reason);
    }
    if (removal->call)
        (void)varlink_reply(removal->call, reply);
    else
        json_object_put(reply);
    removal_free(removal);
}

static void note_failure(struct removal *removal, int error, json_object *result)
{
    const char *reason = result ? json_get_string(result, "reason") : NULL;

    if (removal->failed++ == 0)
        snprintf(removal->reason, sizeof(removal->reason), "Run %s: %s",
                 removal->ids[removal->next - 1], reason ? reason : strerror(-error));
}

static void remove_next(struct removal *removal);

static void on_one_removed(int error, json_object *result, int fd, void *userdata)
{
    struct removal *removal = userdata;

    close_fd(fd);
    removal->job = store_job_free(removal->job);
    if (error >= 0 || error == -ENOENT)
        error = index_remove(removal->manager->index, removal->ids[removal->next - 1]);
    if (error >= 0)
        removal->removed++;
    else if (error != -ENOENT)
        note_failure(removal, error, result);
    remove_next(removal);
}

/* Frees the removal after the last one. */
static void remove_next(struct removal *removal)
{
    while (removal->next < removal->n && removal->call) {
        const char *id = removal->ids[removal->next++];
        int r = index_get_owned(removal->manager->index, id, removal->uid)
                    ? store_remove(removal->manager->store, removal->uid, id, on_one_removed,
                                   removal, &removal->job)
                    : 0;
        if (r < 0)
            note_failure(removal, r, NULL);
        else if (removal->job)
            return;
    }
    removal_answer(removal);
}

static bool add_finished(const struct index_entry *entry, void *userdata)
{
    struct removal *removal = userdata;

    if (entry->uid != removal->uid || !entry->final ||
        run_find(removal->manager, entry->id, entry->uid))
        return true;
    if (removal->n == removal->allocated) {
        size_t allocated = removal->allocated ? removal->allocated * 2 : 64;
        void *ids = realloc(removal->ids, allocated * sizeof(removal->ids[0]));
        if (!ids)
            return false; /* the others another time */
        removal->ids = ids;
        removal->allocated = allocated;
    }
    snprintf(removal->ids[removal->n++], sizeof(removal->ids[0]), "%s", entry->id);
    return true;
}

static void on_removal_caller_gone(struct varlink_call *call, void *userdata)
{
    struct removal *removal = userdata;

    removal->call = varlink_call_unref(removal->call);
}

int method_remove_all(struct varlink_call *call, struct manager *manager)
{
    struct removal *removal;
    const char *bad;

    if (json_dispatch(varlink_call_parameters(call), NULL, 0, false, NULL, &bad) < 0)
        return varlink_error_invalid_parameter(call, bad);
    removal = calloc(1, sizeof(*removal));
    if (!removal)
        return -ENOMEM;
    removal->manager = manager;
    removal->call = varlink_call_ref(call);
    removal->uid = varlink_call_peer(call)->uid;
    varlink_call_on_gone(call, on_removal_caller_gone, removal);
    index_foreach(manager->index, add_finished, removal);
    remove_next(removal);
    return 0;
}

/* ---- Read ---- */

static int read_part(int fd, uint64_t offset, uint64_t length, json_object **ret)
{
    _cleanup_free_ unsigned char *bytes = malloc(length);
    _cleanup_free_ char *text = NULL;
    _cleanup_json_ json_object *reply = json_object_new_object();
    struct stat st;
    ssize_t n;

    if (!bytes || !reply)
        return -ENOMEM;
    if (fstat(fd, &st) < 0)
        return -errno;
    n = pread(fd, bytes, length, (off_t)offset);
    if (n < 0)
        return -errno;
    text = base64_encode(bytes, (size_t)n, NULL);
    if (!text || json_add_string(reply, "data", text) < 0 ||
        json_add_uint64(reply, "bytes", (uint64_t)st.st_size) < 0)
        return -ENOMEM;
    *ret = TAKE_PTR(reply);
    return 0;
}

static void on_opened(int error, json_object *result, int fd, void *userdata)
{
    struct store_call *wait = userdata;
    json_object *reply = NULL;

    if (error >= 0)
        error = read_part(fd, wait->offset, wait->length, &reply);
    close_fd(fd);
    if (error == -ENOENT || error == -EPERM || error == -EINVAL) {
        json_object *fields = json_object_new_object();
        (void)json_add_string(fields, "name", wait->name);
        (void)varlink_error(wait->call, "io.sbxctl.Sandbox.NoSuchFile", fields);
    } else if (error < 0) {
        result_answer_failed(wait->call, strerrordesc_np(-error));
    } else {
        (void)varlink_reply(wait->call, reply);
    }
    store_call_free(wait);
}

int method_read(struct varlink_call *call, struct manager *manager)
{
    struct parameters parameters = { .length = READ_MAX };
    _cleanup_free_ char *path = NULL;
    const struct index_entry *entry;
    struct store_call *wait;
    bool stream;
    int r = find_finished(call, manager, read_fields, ELEMENTS(read_fields), &parameters, &entry);

    if (r <= 0)
        return r;
    stream = strcmp(parameters.name, "stdout") == 0 || strcmp(parameters.name, "stderr") == 0 ||
             strcmp(parameters.name, "script") == 0;
    if (asprintf(&path, "%s%s", stream ? "" : "files/", parameters.name) < 0)
        return -ENOMEM;
    wait = store_call_new(manager, call, &parameters);
    if (!wait)
        return -ENOMEM;
    r = store_open(manager->store, entry->uid, entry->id, path, on_opened, wait, &wait->job);
    if (r < 0)
        store_call_free(wait);
    else
        varlink_call_on_gone(call, on_store_caller_gone, wait);
    return r;
}
