/* The broker's one object: everything that lives as long as the process. Passed to the methods and
 * the runs. */
#pragma once

#include <systemd/sd-event.h>

#include "broker/audit-quota.h"
#include "broker/cloud-budget.h"
#include "broker/config.h"
#include "broker/index.h"
#include "broker/polkit.h"
#include "broker/staging.h"
#include "broker/store.h"
#include "common/varlink.h"

struct approving;
struct fd_store;
struct attachment;
struct keeper;
struct layers;
struct pool;
struct pull;
struct removal;
struct run;

struct manager {
    sd_event *event;
    struct config config;
    struct varlink_server *server;
    struct audit *audit;
    struct audit_quota *quota;
    struct run_index *index;
    struct cloud_budget *budget;
    struct store *store;
    struct polkit *polkit;
    struct approving *dialogs; /* those whose dialog is open; one per user at most */
    struct run *runs;          /* all that have not been reported */
    struct removal *removals;  /* sandboxes whose runs have gone on */
    struct queue queue;
    bool dispatching;               /* runs are being started */
    sd_event_source *places;        /* callers will be told of their places in the queue */
    struct attachment *attachments; /* who follows a run */
    sd_event_source *unstoring;     /* what the service manager did not hear is told again */
    struct fd_store *passed;        /* what the process was started with, until it serves */
    struct keeper *keeper;
    struct layers *layers;
    struct pool *pool;
    struct pull *pulls; /* images that are being got */
    struct staging staging;
    const char *state_directory;
    sd_event_source *idle;
    bool connected; /* somebody is */
    bool stopping;
    bool misconfigured;      /* why manager_init() failed */
    uint64_t refusals_since; /* when counting of refused callers began, and how many there were */
    unsigned refusals;
};

/* Makes the parts and recovers what an earlier broker left behind. @store is taken over. Returns 0
 * or a negative errno, having logged why. */
int manager_init(struct manager *manager, struct store *store, const char *state_directory);
void manager_release(struct manager *manager);
/* After manager_init() failed: hangs up on those who wait, who would have the service manager start
 * this again and again. */
void manager_turn_away(struct manager *manager);
/* Serves the sockets handed over by the service manager until idle or told to stop. */
int manager_serve(struct manager *manager);
/* To be called when a run is gone: it may be time to exit. */
void manager_run_gone(struct manager *manager);
/* The same when nothing waits in the pool any more. */
void manager_pool_changed(struct manager *manager);
/* Something that it is to forget was not heard by the service manager (fd-store.h). */
void manager_unstore_later(struct manager *manager);
