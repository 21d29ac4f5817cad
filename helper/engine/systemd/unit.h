/* One transient unit per sandbox, asked of PID 1 over the system bus: start, signal, look at.
 * Called by sandbox.c for its own unit and by the sweep; holds every property of the sandbox in one
 * place (unit-start.c). */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-bus.h>

#include "engine/protocol.h"

#define UNIT_PREFIX "sbxctl-run-"
#define UNIT_DESCRIPTION "sbxctl run %s of uid %" PRIu32 " (engine connection %" PRIu64 ")"
#define UNIT_NAME_MAX (sizeof(UNIT_PREFIX) + ENGINE_RUN_ID_MAX + sizeof(".service"))

/* PID 1, as sd_bus_call_method() and its like want it: destination, object, interface. */
#define UNIT_DESTINATION "org.freedesktop.systemd1"
#define UNIT_MANAGER UNIT_DESTINATION, "/org/freedesktop/systemd1", UNIT_DESTINATION ".Manager"

/* The first version of PID 1 that knows PrivatePIDs=. */
#define UNIT_SYSTEMD_PRIVATE_PIDS 257

struct unit_spec {
    const char *name;
    const struct engine_start *start;
    uint64_t connection;  /* of the engine service, noted in the unit's description for the sweep */
    int control;          /* the launcher's end of the control socket, borrowed */
    const char *etc;      /* host directory with the sandbox's /etc, see etc.h */
    const char *account;  /* host directory with passwd and group, see account.h */
    const char *cpu_list; /* host file for /sys/devices/system/cpu/online */
    unsigned systemd;     /* version of PID 1 */
};

/* Writes the name of a run's unit. */
void unit_name(const char *run_id, char ret[UNIT_NAME_MAX]);

/* The version of PID 1, like 257, or a negative errno. */
int unit_systemd_version(sd_bus *bus);

/* Asks for the unit; it stays loaded, also when it is over, until @bus is closed or gone. Returns 0
 * when the start is queued (the launcher's READY tells that it succeeded), or a negative errno with
 * PID 1's words in @ret_error, to be freed. */
int unit_start(sd_bus *bus, const struct unit_spec *spec, char **ret_error);

/* Signals every process of the unit. Returns 0, also if there is no such unit or nothing in it, or
 * a negative errno. */
int unit_kill(sd_bus *bus, const char *name, int signal);
/* Asks PID 1 to stop the unit, without waiting for it. Returns as unit_kill() does. */
int unit_stop(sd_bus *bus, const char *name);

/* How a unit stands. A unit that is not loaded is inactive, with empty texts. */
struct unit_state {
    bool active;         /* has, or may have, processes */
    char result[32];     /* "success", "exit-code", "signal", "timeout", "oom-kill", ... */
    int32_t exit_status; /* of the launcher, or the failed step of systemd's (systemd.exec(5)) */
    /* As PID 1 remembers them (cgroup v2); UINT64_MAX: it does not. */
    uint64_t cpu_nsec, memory_peak;
};
/* Returns 0 or a negative errno. */
int unit_get_state(sd_bus *bus, const char *name, struct unit_state *ret);

#define UNIT_CGROUP_MAX 256
/* The path of the unit's control group below the hierarchy's root; empty if it has none (any more).
 * Returns 0 or a negative errno. */
int unit_get_cgroup(sd_bus *bus, const char *name, char ret[UNIT_CGROUP_MAX]);

/* Ends every unit of ours that the connection @connection of this service started, or all if it is
 * 0. Returns how many there were, or a negative errno. */
int unit_sweep(sd_bus *bus, uint64_t connection);
