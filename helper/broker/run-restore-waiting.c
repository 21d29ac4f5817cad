/* Restoring of a run that waits: what was frozen is its request, which is planned anew, and must
 * come to what was approved. Called by run-restore.c. */
#include "broker/digest.h"
#include "broker/request-frozen.h"
#include "broker/run-queue.h"
#include "broker/run-restore-internal.h"

#include <fcntl.h>
#include <string.h>

/* Returns 1 if it is what was approved, 0 if the configuration makes something else of it now. */
static int is_unchanged(struct request *request, const struct plan *plan)
{
    char frozen[REQUEST_SHA256_TEXT];

    strcpy(frozen, request->sha256);
    int r = request_digest(request, plan);
    if (r < 0)
        return r;
    return strcmp(frozen, request->sha256) == 0;
}

/* What the service manager still has may be older than what we know: one that ended does not begin
 * again, nor one that was removed. */
static bool is_awaited(const struct manager *manager, const struct run_frozen *frozen)
{
    const struct index_entry *entry = index_get_owned(manager->index, frozen->id, frozen->uid);

    return entry && !entry->final;
}

/* It may have been getting ready, and begins anew. All of it is ours: nothing was given away. */
static void remove_half_filled(struct manager *manager, const char *id)
{
    static const char *const names[] = { "script", "stdout", "stderr" };
    _cleanup_close_ int dir =
        openat(manager->staging.directory, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    for (size_t i = 0; dir >= 0 && i < ELEMENTS(names); i++)
        (void)unlinkat(dir, names[i], 0);
    if (dir >= 0)
        (void)unlinkat(dir, "files", AT_REMOVEDIR);
    (void)unlinkat(manager->staging.directory, id, AT_REMOVEDIR);
}

static int thaw_waiting(struct fd_store *store, const struct run_frozen *frozen,
                        struct request *request)
{
    int fds[VARLINK_FDS_MAX];
    size_t n = 0;

    int r = request_thaw(frozen->request, request);
    if (r < 0)
        return r;
    while (n < VARLINK_FDS_MAX &&
           (fds[n] = run_stored_take(store, frozen->id, RUN_STORED_FILES)) >= 0)
        n++;
    r = request_thaw_fds(frozen->request, request, fds, n);
    for (size_t i = 0; i < n; i++)
        close_fd(fds[i]);
    if (r < 0)
        request_release(request);
    return r;
}

int run_restore_waiting(struct manager *manager, struct fd_store *store,
                        const struct run_frozen *frozen)
{
    _cleanup_close_ int live = run_stored_take(store, frozen->id, RUN_STORED_LIVE);
    struct run_live last;
    struct request request;
    struct refusal refusal;
    struct plan plan;
    struct run *run;

    int r = run_stored_read_live(live, &last);
    if (r >= 0 && (last.went || !is_awaited(manager, frozen)))
        r = -ENOENT;
    if (r >= 0)
        r = thaw_waiting(store, frozen, &request);
    if (r < 0)
        return r;
    r = policy_apply(&manager->config, &request, &plan, &refusal);
    if (r < 0) {
        request_release(&request);
        return r;
    }
    r = is_unchanged(&request, &plan);
    /* One that never fits would hold up all others in the end. */
    if (r > 0 && run_queue_admit(&manager->config, &plan, &refusal) < 0)
        r = 0;
    if (r <= 0) {
        plan_release(&plan);
        request_release(&request);
        return r < 0 ? r : -EPERM;
    }
    run = run_thaw(manager, frozen, &request, &plan);
    if (!run)
        return -ENOMEM;
    run->stored = true;
    run->pushed = 1U << RUN_STORED_WAITING | 1U << RUN_STORED_FILES | 1U << RUN_STORED_LIVE;
    run->live = TAKE_FD(live);
    run->state = STATE_WAITING;
    remove_half_filled(manager, run->id);
    r = run_queue_again(run);
    if (r < 0)
        run_forget(run);
    return r;
}
