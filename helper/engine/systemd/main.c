/* sbxctl-engine-systemd: sandboxes as transient units of PID 1. Socket-activated; runs as root,
 * because PID 1 takes such requests from nobody else, and without any capability. Must never see a
 * byte that a user wrote. */
#include <stdio.h>
#include <string.h>
#include <systemd/sd-daemon.h>

#include "common/cleanup.h"
#include "common/degradation.h"
#include "engine/account.h"
#include "engine/service.h"
#include "runtime.h"
#include "sandbox.h"
#include "unit.h"

/* Ends what an earlier service (@connection 0) or a connection that died left behind. */
static int sweep(uint64_t connection, int *ret_systemd)
{
    _cleanup_(sd_bus_flush_close_unrefp) sd_bus *bus = NULL;

    int r = sd_bus_open_system(&bus);
    if (r < 0) {
        fprintf(stderr, SD_ERR "The system bus cannot be reached: %s\n", strerror(-r));
        return r;
    }
    int version = unit_systemd_version(bus);
    if (version < 0) {
        fprintf(stderr, SD_ERR "PID 1 does not tell its version: %s\n", strerror(-version));
        return version;
    }
    r = unit_sweep(bus, connection);
    account_remove(RUNTIME_DIR, connection);
    if (r < 0) {
        fprintf(stderr, SD_ERR "Cannot look for abandoned sandboxes: %s\n", strerror(-r));
        return r;
    }
    *ret_systemd = version;
    return 0;
}

/* Version 1 has no limit on swap that systemd would set (MemorySwapMax=). */
static bool has_swap_limit(void)
{
    return access("/sys/fs/cgroup/memory", F_OK) < 0;
}

static void tell_degradations(int systemd)
{
    if (systemd < UNIT_SYSTEMD_PRIVATE_PIDS)
        degradation_tell(DEGRADATION_SOCKET, DEGRADATION_PRIVATE_PIDS);
    if (!has_swap_limit())
        degradation_tell(DEGRADATION_SOCKET, DEGRADATION_SWAP_LIMIT);
}

static int run(void)
{
    struct engine_service_event event;
    struct engine_service service;
    int systemd;

    int r = engine_service_open(&service);
    r = r < 0 ? r : sweep(0, &systemd);
    if (r < 0)
        return r;
    tell_degradations(systemd);
    sd_notify(0, "READY=1");
    for (;;) {
        r = engine_service_wait(&service, &event);
        if (r < 0)
            return r;
        switch (event.type) {
        case ENGINE_SERVICE_CONNECTION:
            _exit(sandbox_serve(event.sock, event.connection, (unsigned)systemd) < 0);
        case ENGINE_SERVICE_LOST:
            _exit(sweep(event.connection, &systemd) < 0);
        case ENGINE_SERVICE_DONE:
        default:
            sd_notify(0, "STOPPING=1");
            return 0;
        }
    }
}

int main(void)
{
    return run() < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
