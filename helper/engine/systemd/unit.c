/* Signalling, stopping and looking at transient units, see unit.h. */
#include "unit.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <systemd/sd-daemon.h>

#include "common/cleanup.h"

#define UNIT_PATH "/org/freedesktop/systemd1/unit"

void unit_name(const char *run_id, char ret[UNIT_NAME_MAX])
{
    snprintf(ret, UNIT_NAME_MAX, UNIT_PREFIX "%.*s.service", ENGINE_RUN_ID_MAX, run_id);
}

int unit_systemd_version(sd_bus *bus)
{
    _cleanup_free_ char *version = NULL;

    int r = sd_bus_get_property_string(bus, UNIT_MANAGER, "Version", NULL, &version);
    return r < 0 ? r : atoi(version);
}

/* ---- signal, stop, look */

/* "There is none" is what the callers wanted. */
static int unless_gone(int r, const sd_bus_error *error)
{
    if (r < 0 && (sd_bus_error_has_name(error, "org.freedesktop.systemd1.NoSuchUnit") ||
                  sd_bus_error_has_name(error, "org.freedesktop.systemd1.NoSuchProcess")))
        return 0;
    return r < 0 ? r : 0;
}

int unit_kill(sd_bus *bus, const char *name, int signal)
{
    _cleanup_(sd_bus_error_free) sd_bus_error error = SD_BUS_ERROR_NULL;

    int r = sd_bus_call_method(bus, UNIT_MANAGER, "KillUnit", &error, NULL, "ssi", name, "all",
                               (int32_t)signal);
    return unless_gone(r, &error);
}

int unit_stop(sd_bus *bus, const char *name)
{
    _cleanup_(sd_bus_error_free) sd_bus_error error = SD_BUS_ERROR_NULL;

    int r = sd_bus_call_method(bus, UNIT_MANAGER, "StopUnit", &error, NULL, "ss", name, "replace");
    return unless_gone(r, &error);
}

static int read_text(sd_bus_message *m, char *target, size_t size)
{
    const char *text;

    int r = sd_bus_message_read(m, "v", "s", &text);
    if (r >= 0)
        snprintf(target, size, "%s", text);
    return r;
}

static int read_property(sd_bus_message *m, struct unit_state *state)
{
    const char *name;
    char active[32];

    int r = sd_bus_message_read(m, "s", &name);
    if (r < 0)
        return r;
    if (strcmp(name, "ActiveState") == 0) {
        r = read_text(m, active, sizeof(active));
        state->active = r >= 0 && strcmp(active, "inactive") != 0 && strcmp(active, "failed") != 0;
        return r;
    }
    if (strcmp(name, "Result") == 0)
        return read_text(m, state->result, sizeof(state->result));
    if (strcmp(name, "ExecMainStatus") == 0)
        return sd_bus_message_read(m, "v", "i", &state->exit_status);
    if (strcmp(name, "CPUUsageNSec") == 0)
        return sd_bus_message_read(m, "v", "t", &state->cpu_nsec);
    if (strcmp(name, "MemoryPeak") == 0)
        return sd_bus_message_read(m, "v", "t", &state->memory_peak);
    return sd_bus_message_skip(m, "v");
}

static int read_properties(sd_bus_message *m, struct unit_state *state)
{
    int r = sd_bus_message_enter_container(m, 'a', "{sv}");

    while (r >= 0 && (r = sd_bus_message_enter_container(m, 'e', "sv")) > 0) {
        r = read_property(m, state);
        r = r < 0 ? r : sd_bus_message_exit_container(m);
    }
    return r;
}

int unit_get_state(sd_bus *bus, const char *name, struct unit_state *ret)
{
    _cleanup_(sd_bus_message_unrefp) sd_bus_message *reply = NULL;
    _cleanup_(sd_bus_error_free) sd_bus_error error = SD_BUS_ERROR_NULL;
    _cleanup_free_ char *path = NULL;
    struct unit_state state = { .cpu_nsec = UINT64_MAX, .memory_peak = UINT64_MAX };

    int r = sd_bus_path_encode(UNIT_PATH, name, &path);
    if (r < 0)
        return r;
    /* The empty interface: those of the unit and of the service, in one round trip. */
    r = sd_bus_call_method(bus, UNIT_DESTINATION, path, "org.freedesktop.DBus.Properties", "GetAll",
                           &error, &reply, "s", "");
    if (r >= 0)
        r = read_properties(reply, &state);
    else if (sd_bus_error_has_name(&error, SD_BUS_ERROR_UNKNOWN_OBJECT))
        r = 0;
    if (r < 0)
        return r;
    *ret = state;
    return 0;
}

int unit_get_cgroup(sd_bus *bus, const char *name, char ret[UNIT_CGROUP_MAX])
{
    _cleanup_free_ char *path = NULL, *cgroup = NULL;

    int r = sd_bus_path_encode(UNIT_PATH, name, &path);
    r = r < 0 ? r
              : sd_bus_get_property_string(bus, UNIT_DESTINATION, path,
                                           "org.freedesktop.systemd1.Service", "ControlGroup", NULL,
                                           &cgroup);
    if (r < 0)
        return r;
    if (strlen(cgroup) >= UNIT_CGROUP_MAX)
        return -ENAMETOOLONG;
    strcpy(ret, cgroup);
    return 0;
}

/* ---- sweep */

static bool is_of_connection(const char *description, uint64_t connection)
{
    uint64_t owner;
    const char *mark = strrchr(description, '(');

    if (connection == 0)
        return true;
    return mark && sscanf(mark, "(engine connection %" SCNu64 ")", &owner) == 1 &&
           owner == connection;
}

int unit_sweep(sd_bus *bus, uint64_t connection)
{
    _cleanup_(sd_bus_message_unrefp) sd_bus_message *reply = NULL;
    const char *name, *description;
    int n = 0;

    int r = sd_bus_call_method(bus, UNIT_MANAGER, "ListUnitsByPatterns", NULL, &reply, "asas", 0, 1,
                               UNIT_PREFIX "*.service");
    r = r < 0 ? r : sd_bus_message_enter_container(reply, 'a', "(ssssssouso)");
    while (r >= 0 && (r = sd_bus_message_read(reply, "(ssssssouso)", &name, &description, NULL,
                                              NULL, NULL, NULL, NULL, NULL, NULL, NULL)) > 0) {
        if (!is_of_connection(description, connection))
            continue;
        n++;
        fprintf(stderr, SD_NOTICE "Ending the abandoned sandbox %s.\n", name);
        /* The kill makes it quick: a stop alone would wait for whoever ignores SIGTERM. */
        r = unit_kill(bus, name, SIGKILL);
        r = r < 0 ? r : unit_stop(bus, name);
    }
    return r < 0 ? r : n;
}
