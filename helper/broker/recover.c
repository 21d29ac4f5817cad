/* Recovery at the start, see recover.h. */
#include "broker/recover.h"
#include "broker/audit.h"
#include "broker/run-cloud.h"
#include "broker/run-id.h"
#include "broker/run.h"
#include "common/clock.h"
#include "common/directory.h"

#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <systemd/sd-daemon.h>

/* ---- Runs that never ended ---- */

struct unended {
    const struct manager *manager;
    const struct index_entry *entry;
};

static bool find_unended(const struct index_entry *entry, void *userdata)
{
    struct unended *unended = userdata;

    if (entry->final || run_is_known(unended->manager, entry->id))
        return true;
    unended->entry = entry;
    return false;
}

static int mark_lost(struct manager *manager, const struct index_entry *entry)
{
    char id[RUN_ID_LENGTH_MAX + 1];

    snprintf(id, sizeof(id), "%s", entry->id);
    _cleanup_json_ json_object *result = index_read_short_result(manager->index, entry->id);
    struct audit_record record;
    int r;

    if (!result)
        return index_get(manager->index, id) ? -EIO : 0;
    uint64_t cloud_usec = run_cloud_of_lost(manager, result, entry->created_usec);
    json_object_object_del(result, "outputDirectory");
    r = json_add_string(result, "status", run_status_name(RUN_LOST));
    if (r >= 0)
        r = json_add_string(result, "reason",
                            "The helper was ended while the run was active; how the run ended is "
                            "not known, and nothing of it goes on.");
    if (r >= 0)
        r = json_add_uint64(result, "endedUSec", clock_usec(CLOCK_REALTIME));
    if (r < 0)
        return r;
    audit_record_init(&record, AUDIT_END);
    audit_add(&record, "RUN_ID", entry->id);
    audit_add_user(&record, entry->uid);
    audit_add(&record, "ENGINE", json_get_string(result, "engine"));
    audit_add(&record, "RESULT", run_status_name(RUN_LOST));
    if (cloud_usec != UINT64_MAX)
        audit_add_u64(&record, "CLOUD_USEC", cloud_usec);
    (void)audit_tell(manager->audit, &record);
    return index_put(manager->index, entry->id, entry->uid, entry->created_usec, true, result);
}

/* An entry that cannot be written now (a full disk) is tried again at the next start. */
static void recover_index(struct manager *manager)
{
    for (;;) {
        struct unended unended = { .manager = manager };
        char id[RUN_ID_LENGTH_MAX + 1];

        index_foreach(manager->index, find_unended, &unended);
        if (!unended.entry)
            return;
        snprintf(id, sizeof(id), "%s", unended.entry->id);
        int r = mark_lost(manager, unended.entry);
        if (r < 0)
            fprintf(stderr, SD_ERR "run %s: not marked as lost: %s\n", id, strerror(-r));
        const struct index_entry *entry = index_get(manager->index, id);
        if (entry && !entry->final)
            return;
    }
}

/* ---- Half-filled directories ---- */

static void tell(struct manager *manager, enum audit_event event, const char *id,
                 const char *result, const char *reason)
{
    const struct index_entry *entry = index_get(manager->index, id);
    struct audit_record record;

    audit_record_init(&record, event);
    audit_add(&record, "RUN_ID", id);
    if (entry)
        audit_add_user(&record, entry->uid);
    audit_add(&record, "RESULT", result);
    audit_add(&record, "REASON", reason);
    (void)audit_tell(manager->audit, &record);
}

static bool discard(struct manager *manager, const char *id)
{
    if (run_discard_staging(manager->store, id) < 0)
        return false;
    tell(manager, AUDIT_CLEANUP, id, "removed", "it was half written when the helper ended");
    return true;
}

/* A run whose results were ready to be given to its user, or were being given. */
struct publication {
    struct manager *manager;
    struct store_job *job;
    char id[RUN_ID_LENGTH_MAX + 1];
};

static void on_published(int error, json_object *result, int fd, void *userdata)
{
    struct publication *publication = userdata;
    struct manager *manager = publication->manager;
    const struct index_entry *entry = index_get(manager->index, publication->id);

    close_fd(fd);
    tell(manager, AUDIT_SAVED, publication->id, error < 0 ? strerrordesc_np(-error) : "saved",
         NULL);
    if (error < 0 && entry)
        (void)mark_lost(manager, entry);
    if (error < 0)
        (void)discard(manager, publication->id);
    store_job_free(publication->job);
    free(publication);
}

static void publish(struct manager *manager, const struct index_entry *entry)
{
    struct publication *publication = calloc(1, sizeof(*publication));
    struct passwd user, *found = NULL;
    char buffer[2048];

    if (!publication)
        return;
    (void)getpwuid_r(entry->uid, &user, buffer, sizeof(buffer), &found);
    publication->manager = manager;
    snprintf(publication->id, sizeof(publication->id), "%s", entry->id);
    if (store_publish_staged(manager->store, entry->id, entry->uid,
                             found ? found->pw_gid : (gid_t)entry->uid, on_published, publication,
                             &publication->job) < 0)
        free(publication);
}

static void sweep_staging(struct manager *manager)
{
    _cleanup_closedir_ DIR *dir =
        directory_take(openat(manager->staging.directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    struct audit_record record;
    uint64_t removed = 0;

    for (struct dirent *entry; dir && (entry = directory_next(dir));) {
        const struct index_entry *known = index_get(manager->index, entry->d_name);

        if (run_is_known(manager, entry->d_name))
            continue;
        if (known && known->final && known->kept)
            publish(manager, known);
        else
            removed += discard(manager, entry->d_name);
    }
    if (removed == 0)
        return;
    audit_record_init(&record, AUDIT_SWEEP);
    audit_add_u64(&record, "FILES", removed);
    (void)audit_tell(manager->audit, &record);
}

void recover(struct manager *manager)
{
    recover_index(manager);
    sweep_staging(manager);
}
