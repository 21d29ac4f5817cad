/* Restoring of runs, see run-restore.h. What is restored is what was frozen: the request by its
 * digest, the limits as they were promised. Whatever does not fit together is lost, and said to be.
 */
#include "broker/run-restore.h"
#include "broker/run-id.h"
#include "broker/run-restore-internal.h"
#include "broker/store-protocol.h"
#include "common/file.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <systemd/sd-daemon.h>

#define AT(member) offsetof(struct run_frozen, member)
static const struct json_field frozen_fields[] = {
    { "version", JSON_FIELD_UINT32, AT(version), true, RUN_STORED_VERSION, RUN_STORED_VERSION },
    { "id", JSON_FIELD_STRING, AT(id), true, 0, RUN_ID_TEXT - 1 },
    { "uid", JSON_FIELD_UINT32, AT(uid), true, 0, UINT32_MAX - 1 },
    { "gid", JSON_FIELD_UINT32, AT(gid), true, 0, UINT32_MAX - 1 },
    { "pid", JSON_FIELD_INT64, AT(pid), true, 0, INT32_MAX },
    { "session", JSON_FIELD_STRING, AT(session), false, 0, 0 },
    { "unit", JSON_FIELD_STRING, AT(unit), false, 0, 0 },
    { "askedUSec", JSON_FIELD_UINT64, AT(asked_usec), true, 0, INT64_MAX },
    { "createdUSec", JSON_FIELD_UINT64, AT(created_usec), true, 0, INT64_MAX },
    { "request", JSON_FIELD_OBJECT, AT(request), true, 0, 0 },
    { "goUSec", JSON_FIELD_UINT64, AT(go_usec), false, 1, INT64_MAX },
    { "startedUSec", JSON_FIELD_UINT64, AT(started_usec), false, 0, INT64_MAX },
    { "network", JSON_FIELD_BOOL, AT(network), false, 0, 0 },
    { "memoryBytes", JSON_FIELD_UINT64, AT(memory_bytes), false, 0, INT64_MAX },
    { "cpuPercent", JSON_FIELD_UINT64, AT(cpu_percent), false, 0, INT64_MAX },
    { "timeoutUSec", JSON_FIELD_UINT64, AT(timeout_usec), false, 0, INT64_MAX },
    { "sandboxId", JSON_FIELD_STRING, AT(sandbox_id), false, 0, ENGINE_TEXT_MAX },
    { "image", JSON_FIELD_STRING, AT(image), false, 0, ENGINE_TEXT_MAX },
    { "imageDigest", JSON_FIELD_STRING, AT(image_digest), false, 0, ENGINE_TEXT_MAX },
    { "layer", JSON_FIELD_STRING, AT(layer), false, 0, LAYER_KEY_LENGTH },
    { "resolved", JSON_FIELD_ARRAY, AT(resolved), false, 0, 0 },
    { "cloudTaken", JSON_FIELD_BOOL, AT(cloud_taken), false, 0, 0 },
    { "cloudDay", JSON_FIELD_UINT64, AT(cloud_day), false, 0, INT64_MAX },
    { "cloudFromUSec", JSON_FIELD_UINT64, AT(cloud_from_usec), false, 0, INT64_MAX },
    { "inputs", JSON_FIELD_ARRAY, AT(inputs), false, 0, 0 },
};
#undef AT

static int read_state(int fd, json_object **ret_object, struct run_frozen *ret)
{
    _cleanup_json_ json_object *object = NULL;
    const char *bad;

    *ret = (struct run_frozen){ 0 };
    int r = store_payload_read(fd, &object);
    if (r < 0)
        return r;
    if (json_dispatch(object, frozen_fields, ELEMENTS(frozen_fields), false, ret, &bad) < 0 ||
        !run_id_valid(ret->id))
        return -EBADMSG;
    *ret_object = TAKE_PTR(object);
    return 0;
}

int run_stored_take(struct fd_store *store, const char *id, enum run_stored_role role)
{
    char name[RUN_STORED_NAME];

    return fd_store_take_named(store, run_stored_name(id, role, name));
}

int run_stored_read_live(int fd, struct run_live *ret)
{
    return fd >= 0 && pread_full(fd, ret, sizeof(*ret), 0) == (ssize_t)sizeof(*ret) &&
                   ret->version == RUN_STORED_VERSION
               ? 0
               : -EBADMSG;
}

struct run *run_thaw(struct manager *manager, const struct run_frozen *frozen,
                     struct request *request, struct plan *plan)
{
    struct run *run = run_new(manager, frozen->id, request, plan);

    if (!run)
        return NULL;
    run->uid = frozen->uid;
    run->gid = frozen->gid;
    run->pid = (pid_t)frozen->pid;
    run->session = frozen->session ? strdup(frozen->session) : NULL;
    run->unit = frozen->unit ? strdup(frozen->unit) : NULL;
    run->asked_usec = frozen->asked_usec;
    run->created_realtime = frozen->created_usec;
    return run;
}

static void remove_from_store(struct manager *manager, const char *id, enum run_stored_role role)
{
    char name[RUN_STORED_NAME];

    if (fd_store_remove(run_stored_name(id, role, name)) < 0)
        manager_unstore_later(manager);
}

static void remove_all_from_store(struct manager *manager, const char *id)
{
    for (enum run_stored_role role = 0; role < RUN_STORED_ROLES; role++)
        remove_from_store(manager, id, role);
}

static void give_up(struct manager *manager, const char *id, int error)
{
    fprintf(stderr, SD_WARNING "run %s: it did not outlive the last broker: %s\n", id,
            error == -EPERM ? "the configuration does not allow it any more" : strerror(-error));
    remove_all_from_store(manager, id);
}

/* Its results were given to its user, and nobody was told any more. */
static bool is_done(const struct manager *manager, const char *id)
{
    const struct index_entry *entry = index_get(manager->index, id);

    return entry && entry->final &&
           faccessat(manager->staging.directory, id, F_OK, AT_SYMLINK_NOFOLLOW) < 0;
}

static void restore_one(struct manager *manager, struct fd_store *store, const char *id)
{
    _cleanup_json_ json_object *object = NULL;
    _cleanup_close_ int going = run_stored_take(store, id, RUN_STORED_GOING);
    _cleanup_close_ int waiting = run_stored_take(store, id, RUN_STORED_WAITING);
    struct run_frozen frozen;

    if (is_done(manager, id)) {
        remove_all_from_store(manager, id);
        return;
    }
    int r = read_state(going >= 0 ? going : waiting, &object, &frozen);
    if (r >= 0 && strcmp(frozen.id, id) != 0)
        r = -EBADMSG;
    if (r >= 0)
        r = going >= 0 ? run_restore_going(manager, store, &frozen)
                       : run_restore_waiting(manager, store, &frozen);
    if (r >= 0 && going >= 0) {
        remove_from_store(manager, id, RUN_STORED_WAITING);
        remove_from_store(manager, id, RUN_STORED_FILES);
    }
    if (r < 0)
        give_up(manager, id, r);
    else
        fprintf(stderr, SD_NOTICE "run %s: it goes on\n", id);
}

/* "run.<id>.<role>": the id, if it is such a name. */
static bool parse_name(const char *name, char id[RUN_ID_LENGTH_MAX + 1])
{
    const char *begin = name + strlen(RUN_STORED_PREFIX), *dot;

    if (strncmp(name, RUN_STORED_PREFIX, strlen(RUN_STORED_PREFIX)) != 0)
        return false;
    dot = strchr(begin, '.');
    if (!dot || dot - begin > RUN_ID_LENGTH_MAX)
        return false;
    snprintf(id, RUN_ID_LENGTH_MAX + 1, "%.*s", (int)(dot - begin), begin);
    return run_id_valid(id);
}

void runs_restore(struct manager *manager, struct fd_store *store)
{
    char id[RUN_ID_LENGTH_MAX + 1], last[RUN_ID_LENGTH_MAX + 1] = "";

    for (size_t i = 0; i < fd_store_size(store); i++) {
        if (!parse_name(fd_store_name(store, i), id) || strcmp(id, last) == 0 ||
            run_is_known(manager, id))
            continue;
        strcpy(last, id);
        restore_one(manager, store, id);
    }
}

void runs_go_on(struct manager *manager)
{
    for (struct run *run = manager->runs, *next; run; run = next) {
        next = run->next;
        if (run->state == STATE_GOING)
            run_go_on(run);
    }
    run_dispatch(manager);
}
