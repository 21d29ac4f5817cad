/* Start, recovery, serving and end of the broker, see manager.h. */
#include "broker/manager.h"
#include "broker/attach.h"
#include "broker/fd-store.h"
#include "broker/keeper.h"
#include "broker/layers.h"
#include "broker/methods.h"
#include "broker/pool.h"
#include "broker/recover.h"
#include "broker/removal.h"
#include "broker/run-restore.h"
#include "broker/run.h"
#include "common/clock.h"
#include "common/degradation.h"
#include "common/foreign.h"
#include "config-paths.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <systemd/sd-daemon.h>

#define CONNECTIONS_MAX 1024
#define UNSTORING_USEC (100 * 1000ULL)
/* FileDescriptorName= of the socket unit. */
#define SOCKET_NAME "varlink"
/* Refused callers that are told of in an interval. */
#define REFUSALS_MAX 100
#define REFUSALS_INTERVAL_USEC (60 * 1000 * 1000ULL)
#define AUDIT_INTERVAL_USEC (60 * 1000 * 1000ULL)

/* ---- Exit on idle ---- */

static int on_idle(sd_event_source *source, uint64_t usec, void *userdata)
{
    struct manager *manager = userdata;

    /* A process cannot end before all of its threads, and until then the next one cannot start.
     * What the disk did not take, or the service manager not hear, is known to this one alone. */
    if (foreign_pending() > 0 || !index_retry(manager->index) || !fd_store_retry()) {
        (void)sd_event_source_set_time_relative(source, manager->config.idle_exit_usec);
        (void)sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
        return 0;
    }
    /* The listening socket stays with the service manager: who connects from here on starts the
     * next broker. */
    (void)sd_notify(0, "STOPPING=1\nSTATUS=Idle, exiting.");
    return sd_event_exit(manager->event, 0);
}

static void update_idle(struct manager *manager)
{
    bool idle = !manager->connected && !manager->runs && !manager->removals &&
                !pool_is_held(manager->pool) && !keeper_is_busy(manager->keeper);

    manager->idle = sd_event_source_disable_unref(manager->idle);
    if (manager->stopping && !run_any_left(manager) && !manager->removals)
        (void)sd_event_exit(manager->event, 0);
    else if (idle)
        (void)sd_event_add_time_relative(manager->event, &manager->idle, CLOCK_MONOTONIC,
                                         manager->config.idle_exit_usec, 0, on_idle, manager);
}

static void on_busy_changed(bool busy, void *userdata)
{
    struct manager *manager = userdata;
    manager->connected = busy;
    update_idle(manager);
}

void manager_run_gone(struct manager *manager)
{
    pool_fill_later(manager->pool);
    if (!manager->runs || manager->stopping)
        update_idle(manager);
}

void manager_pool_changed(struct manager *manager)
{
    if (!manager->runs && !manager->idle)
        update_idle(manager);
}

/* ---- What the service manager holds ---- */

static int on_unstoring(sd_event_source *source, uint64_t usec, void *userdata)
{
    struct manager *manager = userdata;

    manager->unstoring = sd_event_source_disable_unref(manager->unstoring);
    if (!fd_store_retry())
        manager_unstore_later(manager);
    return 0;
}

void manager_unstore_later(struct manager *manager)
{
    if (!manager->unstoring)
        (void)sd_event_add_time_relative(manager->event, &manager->unstoring, CLOCK_MONOTONIC,
                                         UNSTORING_USEC, 0, on_unstoring, manager);
}

/* ---- Start ---- */

static int open_directories(struct manager *manager)
{
    _cleanup_free_ char *index = NULL, *budget = NULL;
    int r;

    if (asprintf(&index, "%s/index", manager->state_directory) < 0 ||
        asprintf(&budget, "%s/cloud-time.json", manager->state_directory) < 0)
        return -ENOMEM;
    r = staging_open(manager->state_directory, &manager->staging);
    if (r < 0)
        return r;
    r = index_open(index, &manager->index);
    if (r < 0)
        return r;
    index_attach(manager->index, manager->event);
    return cloud_budget_open(budget, manager->config.cloud_seconds * USEC_PER_SEC,
                             &manager->budget);
}

static int load_config(struct manager *manager)
{
    _cleanup_free_ char *error = NULL;
    int r = config_load(SBXCTL_CONFIG_DIR, SBXCTL_VENDOR_CONFIG_DIR, &manager->config, &error);

    manager->misconfigured = r < 0;
    if (r < 0)
        fprintf(stderr, SD_ERR "configuration: %s\n", error ? error : strerror(-r));
    return r;
}

/* The unit has no rate limit, for the audit's sake, and a flood of these would push its records out
 * of the journal. */
static void on_refused(const struct peer *peer, const char *why, void *userdata)
{
    struct manager *manager = userdata;
    uint64_t now = clock_now();

    if (now - manager->refusals_since >= REFUSALS_INTERVAL_USEC) {
        manager->refusals_since = now;
        manager->refusals = 0;
    }
    if (++manager->refusals > REFUSALS_MAX)
        return;
    if (manager->refusals == REFUSALS_MAX)
        fprintf(stderr, SD_INFO "many connections are ended; not all of them are told\n");
    fprintf(stderr, SD_INFO "connection of uid %u ended: %s\n", (unsigned)peer->uid, why);
}

static int make_server(struct manager *manager)
{
    static const struct varlink_interface *const interfaces[] = { &sandbox_interface };
    const struct varlink_server_options options = {
        .vendor = "sbxctl",
        .product = "sbxctl-helper",
        .version = SBXCTL_VERSION,
        .url = "https://sbxctl.invalid/",
        .connections_max = CONNECTIONS_MAX,
        .connections_per_user_max = (unsigned)manager->config.connections_per_user,
        .userdata = manager,
        .busy_changed = on_busy_changed,
        .refused = on_refused,
    };
    return varlink_server_new(manager->event, &options, interfaces, ELEMENTS(interfaces),
                              &manager->server);
}

int manager_init(struct manager *manager, struct store *store, const char *state_directory)
{
    int r;

    *manager = (struct manager){ .store = store,
                                 .state_directory = state_directory,
                                 .staging = STAGING_NULL };
    r = load_config(manager);
    if (r < 0)
        return r;
    manager->queue.limits = manager->config.queue;
    r = sd_event_new(&manager->event);
    if (r >= 0)
        r = audit_open(AUDIT_SOCKET, &manager->audit);
    if (r >= 0)
        audit_attach(manager->audit, manager->event);
    if (r >= 0)
        r = audit_quota_new(manager->event, manager->audit, manager->config.audit_refusals,
                            AUDIT_INTERVAL_USEC, &manager->quota);
    if (r >= 0)
        r = polkit_new(manager->event, &manager->polkit);
    if (r >= 0)
        r = open_directories(manager);
    if (r >= 0)
        r = store_attach(store, manager->event);
    if (r >= 0)
        r = fd_store_open(&manager->passed);
    if (r >= 0) {
        runs_restore(manager, manager->passed);
        recover(manager);
        r = layers_new(manager, &manager->layers);
    }
    if (r >= 0)
        r = keeper_new(manager, &manager->keeper);
    if (r >= 0)
        r = pool_new(manager, &manager->pool);
    if (r >= 0) {
        r = make_server(manager);
    }
    if (r < 0)
        fprintf(stderr, SD_ERR "start: %s\n", strerror(-r));
    return r;
}

static void turn_away(int listener)
{
    int fd;

    if (fcntl(listener, F_SETFL, O_NONBLOCK) < 0)
        return;
    while ((fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0) {
        struct ucred peer = { .uid = (uid_t)-1 };
        (void)getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &(socklen_t){ sizeof(peer) });
        foreign_close_socket(fd, peer.uid);
    }
}

void manager_turn_away(struct manager *manager)
{
    if (!manager->passed && fd_store_open(&manager->passed) < 0)
        return;
    for (size_t i = 0; i < fd_store_size(manager->passed); i++) {
        if (strcmp(fd_store_name(manager->passed, i), SOCKET_NAME) != 0)
            continue;
        _cleanup_close_ int listener = fd_store_take(manager->passed, i);
        turn_away(listener);
    }
}

void manager_release(struct manager *manager)
{
    attach_free_all(manager);
    run_free_all(manager);
    removal_free_all(manager);
    manager->keeper = keeper_free(manager->keeper);
    manager->layers = layers_free(manager->layers);
    manager->pool = pool_free(manager->pool);
    manager->server = varlink_server_unref(manager->server);
    manager->idle = sd_event_source_disable_unref(manager->idle);
    manager->places = sd_event_source_disable_unref(manager->places);
    manager->unstoring = sd_event_source_disable_unref(manager->unstoring);
    manager->store = store_free(manager->store);
    manager->polkit = polkit_free(manager->polkit);
    manager->quota = audit_quota_free(manager->quota);
    manager->audit = audit_close(manager->audit);
    manager->index = index_close(manager->index);
    manager->budget = cloud_budget_free(manager->budget);
    staging_close(&manager->staging);
    config_release(&manager->config);
    manager->passed = fd_store_free(manager->passed);
    manager->event = sd_event_unref(manager->event);
}

/* ---- Serving ---- */

static int on_signal(sd_event_source *source, const struct signalfd_siginfo *info, void *userdata)
{
    struct manager *manager = userdata;

    (void)sd_notify(0, "STOPPING=1");
    manager->stopping = true;
    run_cancel_all(manager);
    pool_empty(manager->pool, NULL);
    update_idle(manager);
    return 0;
}

int manager_serve(struct manager *manager)
{
    int r = 0;

    if (fd_store_size(manager->passed) == 0) {
        fprintf(stderr, SD_ERR "no socket was passed: start it by sbxctl-helper.socket\n");
        return -ENOTCONN;
    }
    for (size_t i = 0; r >= 0 && i < fd_store_size(manager->passed); i++)
        if (strcmp(fd_store_name(manager->passed, i), SOCKET_NAME) == 0)
            r = varlink_server_listen(manager->server, fd_store_take(manager->passed, i));
    /* What is left of others ends with it. */
    manager->passed = fd_store_free(manager->passed);
    if (r < 0)
        return r;
    runs_go_on(manager);
    r = sd_event_add_signal(manager->event, NULL, SIGTERM | SD_EVENT_SIGNAL_PROCMASK, on_signal,
                            manager);
    if (r >= 0)
        r = sd_event_add_signal(manager->event, NULL, SIGINT | SD_EVENT_SIGNAL_PROCMASK, on_signal,
                                manager);
    if (r < 0)
        return r;
    if (!peer_pidfd_supported())
        degradation_tell(DEGRADATION_SOCKET, DEGRADATION_PEER_PIDFD);
    (void)sd_notify(0, "READY=1");
    update_idle(manager);
    return sd_event_loop(manager->event);
}
