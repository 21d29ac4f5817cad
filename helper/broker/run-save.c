/* Saving of a run: its staging directory, the collection of its outputs, run.json, and the
 * publishing. */
#include "broker/layers.h"
#include "broker/run-internal.h"
#include "broker/run.h"
#include "common/file.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <systemd/sd-daemon.h>

/* Of stderr, to find in it why a program failed. */
#define SAID_MAX (64 * 1024)
#define STAGED_FILE (O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW)

static int keep_script(struct run *run)
{
    _cleanup_close_ int fd = openat(run->staging, "script", STAGED_FILE, 0600);
    off_t offset = 0;

    if (fd < 0)
        return -errno;
    while ((uint64_t)offset < run->request.script_bytes) {
        ssize_t n = sendfile(fd, run->request.script, &offset,
                             (size_t)run->request.script_bytes - (size_t)offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : -EIO;
    }
    return 0;
}

int run_make_staging(struct run *run)
{
    int r = staging_make(&run->manager->staging, run->id, &run->staging, run->kept);

    return r < 0 ? r : keep_script(run);
}

struct discard {
    struct store_job *job;
};

static void on_discarded(int error, json_object *result, int fd, void *userdata)
{
    struct discard *discard = userdata;

    close_fd(fd);
    store_job_free(discard->job);
    free(discard);
    if (error < 0 && error != -ENOENT)
        fprintf(stderr, SD_WARNING "a staging directory stays for the next start: %s\n",
                strerror(-error));
}

int run_discard_staging(struct store *store, const char *id)
{
    struct discard *discard = calloc(1, sizeof(*discard));
    int r;

    if (!discard)
        return -ENOMEM;
    r = store_discard(store, id, on_discarded, discard, &discard->job);
    if (r < 0)
        free(discard);
    return r;
}

void run_remove_staging(struct run *run)
{
    run->job = store_job_free(run->job);
    if (run->staging < 0)
        return;
    run->staging = close_fd(run->staging);
    /* By the store, since a publication that failed half-way left files of the caller's. */
    (void)run_discard_staging(run->manager->store, run->id);
}

void run_make_record(struct run *run)
{
    run->record = openat(run->staging, "run.json", STAGED_FILE, 0600);
    /* One of a helper that was ended before the publication. */
    if (run->record < 0 && errno == EEXIST && unlinkat(run->staging, "run.json", 0) == 0)
        run->record = openat(run->staging, "run.json", STAGED_FILE, 0600);
}

static int write_record(struct run *run)
{
    const char *text;
    size_t size;

    if (run->record < 0)
        run_make_record(run);
    if (run->record < 0)
        return -errno;
    text = json_text(run->result, &size);
    if (!text)
        return -ENOMEM;
    return write_all(run->record, text, size);
}

static void not_saved(struct run *run, int error)
{
    fprintf(stderr, SD_ERR "run %s: outputs not saved: %s\n", run->id, strerror(-error));
    (void)run_audit_saved(run, error);
    snprintf(run->outcome.hint, sizeof(run->outcome.hint), "Its outputs could not be saved: %s.",
             strerror(-error));
    json_object_put(TAKE_PTR(run->result));
    json_object_put(TAKE_PTR(run->collected));
    run->noted = false;
    run_conclude(run);
}

static void on_published(int error, json_object *result, int fd, void *userdata)
{
    struct run *run = userdata;

    close_fd(fd);
    run->job = store_job_free(run->job);
    if (error < 0) {
        not_saved(run, error);
        return;
    }
    run->published = true;
    (void)run_audit_saved(run, 0);
    run_conclude(run);
}

/* All is known and in the staging directory. */
static void give_away(struct run *run)
{
    int error = run->collect_error;

    if (error >= 0) {
        run->result = run_result(run, run->outcome.status);
        error = run->collected && run->result ? write_record(run) : -ENOMEM;
    }
    /* Noted before it is given away: what is found afterwards, by whoever comes next, is known. */
    if (error >= 0) {
        (void)run_note_final(run);
        error = store_publish(run->job, on_published, run);
    }
    /* The sandbox stood until now for its workspace only. */
    run->sandbox = sandbox_free(run->sandbox);
    run->claim = layer_claim_free(run->claim);
    run_leave_queue(run);
    if (error < 0)
        not_saved(run, error);
}

static void on_collected(int error, json_object *result, int fd, void *userdata)
{
    struct run *run = userdata;

    close_fd(fd);
    run->is_collected = true;
    run->collect_error = error;
    if (error >= 0)
        run->collected = json_object_get(result);
    /* How it ended is told by the engine, which may be the slower one. */
    if (run->state == STATE_SAVING)
        give_away(run);
}

/* Before the collection, while the workspace is as the program left it. */
static void measure_workspace(struct run *run)
{
    int workspace = run->sandbox ? sandbox_workspace(run->sandbox) : -1;
    struct statvfs fs;

    if (workspace < 0 || fstatvfs(workspace, &fs) < 0)
        return;
    run->facts.workspace_used = (uint64_t)(fs.f_blocks - fs.f_bfree) * fs.f_frsize;
    run->facts.workspace_full = fs.f_bavail == 0 || fs.f_favail == 0;
}

/* Decides how the run ended, with the end of what it said on stderr at hand. */
static void decide(struct run *run)
{
    uint64_t kept = stream_kept(run->streams[1]), size = kept < SAID_MAX ? kept : SAID_MAX;
    _cleanup_free_ char *said = malloc(SAID_MAX);

    if (said && pread_full(run->kept[1], said, size, (off_t)(kept - size)) == (ssize_t)size) {
        run->facts.said = said;
        run->facts.said_size = size;
    }
    run->facts.network_refusal = run->network.refusal[0] ? run->network.refusal : NULL;
    outcome_decide(&run->facts, &run->outcome);
    run->facts.said = NULL;
}

void run_collect(struct run *run)
{
    const struct config *config = &run->manager->config;
    struct store_collect request = {
        .run_id = run->id,
        .uid = run->uid,
        .gid = run->gid,
        .workspace = run->sandbox ? sandbox_workspace(run->sandbox) : -1,
        .files_max = config->output_files,
        .bytes_max = config->workspace_bytes,
        .inputs = run->inputs,
        .n_inputs = run->n_put,
    };

    measure_workspace(run);
    int r = store_collect(run->manager->store, &request, on_collected, run, &run->job);
    if (r < 0) {
        run->is_collected = true;
        run->collect_error = r;
    }
}

void run_save(struct run *run)
{
    run->state = STATE_SAVING;
    run_arm(run, 0, NULL);
    if (!run->job && !run->is_collected)
        run_collect(run);
    decide(run);
    /* What the program made is not lost with this process, whoever waits for it. */
    if (!run->stored && run->sandbox)
        run_store_going(run);
    if (run->is_collected)
        give_away(run);
}
