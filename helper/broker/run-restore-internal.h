/* What the restoring of runs consists of; for run-restore*.c only. */
#pragma once

#include "broker/fd-store.h"
#include "broker/run-internal.h"
#include "broker/run-stored.h"

/* A state before it is believed; strings and objects are borrowed. */
struct run_frozen {
    uint32_t version, uid, gid;
    int64_t pid;
    const char *id, *session, *unit, *sandbox_id, *image, *image_digest, *layer;
    uint64_t asked_usec, created_usec, go_usec, started_usec;
    uint64_t memory_bytes, cpu_percent, timeout_usec, cloud_day, cloud_from_usec;
    bool network, cloud_taken;
    json_object *request, *resolved, *inputs;
};

/* run-restore.c */
/* Takes a descriptor of the run's; -1: there is none, or no more of them. */
int run_stored_take(struct fd_store *store, const char *id, enum run_stored_role role);
/* Returns 0 or -EBADMSG. */
int run_stored_read_live(int fd, struct run_live *ret);
/* A run by what was kept of it; takes over @request and @plan, also on failure. NULL out of memory.
 */
struct run *run_thaw(struct manager *manager, const struct run_frozen *frozen,
                     struct request *request, struct plan *plan);

/* Return 0, or a negative errno for one that is lost: -EPERM where the configuration does not allow
 * it any more. */
int run_restore_waiting(struct manager *manager, struct fd_store *store,
                        const struct run_frozen *frozen);
int run_restore_going(struct manager *manager, struct fd_store *store,
                      const struct run_frozen *frozen);
