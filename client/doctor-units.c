/* The system bus, and units as PID 1 knows them, see doctor.h. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "client/doctor.h"

#define PREFIX "/org/freedesktop/systemd1/unit"
#define MANAGER "org.freedesktop.systemd1"

static inline void sd_bus_message_unrefp_(sd_bus_message **message)
{
    sd_bus_message_unref(*message);
}
#define _cleanup_message_ _cleanup_(sd_bus_message_unrefp_)

static const char no_bus[] = "By it the helper asks polkit, so no run can be approved.";

/* PID 1 itself listens for root. */
static void open_manager(struct doctor *doctor)
{
    int r = geteuid() == 0 ? sd_bus_new(&doctor->manager) : -EPERM;

    r = r < 0 ? r : sd_bus_set_address(doctor->manager, "unix:path=/run/systemd/private");
    r = r < 0 ? r : sd_bus_start(doctor->manager);
    if (r < 0)
        doctor->manager = sd_bus_unref(doctor->manager);
    else
        sd_bus_set_method_call_timeout(doctor->manager, DOCTOR_PATIENCE_USEC);
}

void doctor_bus(struct doctor *doctor)
{
    if (sd_booted() <= 0) {
        doctor_tell(doctor, DOCTOR_FAILURE, "sbxctl needs systemd, which makes its sandboxes.",
                    NULL, "This machine was not booted with systemd.");
        return;
    }
    int r = sd_bus_open_system(&doctor->bus);
    if (r >= 0) {
        sd_bus_set_method_call_timeout(doctor->bus, DOCTOR_PATIENCE_USEC);
        doctor->manager = sd_bus_ref(doctor->bus);
        doctor_tell(doctor, DOCTOR_OK, NULL, NULL, "The system bus answers.");
        return;
    }
    open_manager(doctor);
    if (!doctor_socket_tell(doctor, DOCTOR_FAILURE, "dbus.socket", no_bus) &&
        !doctor_unit_tell(doctor, DOCTOR_FAILURE, "dbus.service", no_bus))
        doctor_tell(doctor, DOCTOR_FAILURE, no_bus, "systemctl start dbus.socket dbus.service",
                    "The system bus cannot be reached: %s.", strerror(-r));
}

static bool get_property(struct doctor *doctor, const char *path, const char *interface,
                         const char *name, char ret[32])
{
    _cleanup_free_ char *value = NULL;

    if (sd_bus_get_property_string(doctor->manager, MANAGER, path, interface, name, NULL, &value) <
        0)
        return false;
    snprintf(ret, 32, "%s", value);
    return true;
}

bool doctor_unit_get(struct doctor *doctor, const char *name, struct doctor_unit *ret)
{
    _cleanup_free_ char *path = NULL;
    const char *dot = strrchr(name, '.');
    const char *kind = strcmp(dot, ".socket") == 0 ? MANAGER ".Socket" : MANAGER ".Service";

    *ret = (struct doctor_unit){};
    if (!doctor->manager || sd_bus_path_encode(PREFIX, name, &path) < 0 ||
        !get_property(doctor, path, MANAGER ".Unit", "LoadState", ret->load) ||
        !get_property(doctor, path, MANAGER ".Unit", "ActiveState", ret->active))
        return false;
    (void)get_property(doctor, path, MANAGER ".Unit", "UnitFileState", ret->file);
    (void)get_property(doctor, path, kind, "Result", ret->result);
    return true;
}

/* A unit of ours, or of another's that has one, goes with a socket of its name. */
static bool has_socket(const char *name)
{
    return strncmp(name, "sbxctl-", 7) == 0 || strncmp(name, "dbus.", 5) == 0 ||
           strstr(name, "journald") != NULL;
}

/* What failed has to be forgotten, or it is not started again; and a socket is not started while
 * its service runs. */
static char *mend(const char *name, const struct doctor_unit *unit)
{
    int stem = (int)(strrchr(name, '.') - name);
    _cleanup_free_ char *unmask = NULL;

    unmask = strcmp(unit->load, "masked") == 0
                 ? doctor_text("systemctl unmask %s%s; ",
                               strcmp(unit->file, "masked-runtime") == 0 ? "--runtime " : "", name)
                 : doctor_text("%s", "");
    if (!has_socket(name))
        return doctor_text("%ssystemctl reset-failed %s; systemctl restart %s", unmask, name, name);
    return doctor_text(
        "%ssystemctl stop %.*s.service; systemctl reset-failed %.*s.socket %.*s.service; "
        "systemctl enable --now %.*s.socket",
        unmask, stem, name, stem, name, stem, name, stem, name);
}

bool doctor_masked_tell(struct doctor *doctor, enum doctor_state state, const char *name,
                        const char *meaning)
{
    struct doctor_unit unit;

    if (!doctor_unit_get(doctor, name, &unit) || strcmp(unit.load, "masked") != 0)
        return false;
    doctor_tell_owned(doctor, state, meaning, mend(name, &unit), "%s is masked.", name);
    return true;
}

bool doctor_unit_tell(struct doctor *doctor, enum doctor_state state, const char *name,
                      const char *meaning)
{
    struct doctor_unit unit;

    if (doctor_masked_tell(doctor, state, name, meaning))
        return true;
    if (!doctor_unit_get(doctor, name, &unit))
        return false;
    if (strcmp(unit.load, "not-found") == 0) {
        doctor_tell(doctor, state, meaning, NULL, "%s is not installed.", name);
        return true;
    }
    if (strcmp(unit.load, "loaded") != 0) {
        doctor_tell_owned(doctor, state, meaning, doctor_text("systemctl revert %s", name),
                          "%s cannot be read (%s).", name, unit.load);
        return true;
    }
    if (strcmp(unit.active, "failed") != 0)
        return false;
    doctor_tell_owned(doctor, state, meaning, mend(name, &unit),
                      "%s has failed (%s); the journal tells why: journalctl -u %s", name,
                      unit.result, name);
    return true;
}

bool doctor_socket_tell(struct doctor *doctor, enum doctor_state state, const char *name,
                        const char *meaning)
{
    struct doctor_unit unit;

    if (doctor_unit_tell(doctor, state, name, meaning))
        return true;
    if (!doctor_unit_get(doctor, name, &unit) || strcmp(unit.active, "active") == 0)
        return false;
    doctor_tell_owned(doctor, state, meaning, mend(name, &unit), "%s is not active.", name);
    return true;
}

/* ---- What earlier runs left ---- */

void doctor_leftovers(struct doctor *doctor)
{
    _cleanup_message_ sd_bus_message *reply = NULL;
    const char *name, *rest[5];
    const char *path;
    unsigned id, n = 0;
    int r;

    if (!doctor->manager)
        return;
    r = sd_bus_call_method(doctor->manager, MANAGER, "/org/freedesktop/systemd1",
                           MANAGER ".Manager", "ListUnitsByPatterns", NULL, &reply, "asas", 1,
                           "failed", 1, "sbxctl-run-*.service");
    r = r < 0 ? r : sd_bus_message_enter_container(reply, 'a', "(ssssssouso)");
    while (r >= 0 &&
           (r = sd_bus_message_read(reply, "(ssssssouso)", &name, &rest[0], &rest[1], &rest[2],
                                    &rest[3], &rest[4], &path, &id, &rest[0], &path)) > 0)
        n++;
    if (r < 0) {
        doctor_tell(doctor, DOCTOR_UNKNOWN, NULL, NULL, "Units of runs could not be listed: %s.",
                    strerror(-r));
        return;
    }
    if (n > 0)
        doctor_tell(doctor, DOCTOR_WARNING, "They take no resources, but should have been removed.",
                    "systemctl reset-failed 'sbxctl-run-*.service'",
                    "Units of %u runs that have ended are still there.", n);
    else
        doctor_tell(doctor, DOCTOR_OK, NULL, NULL, "No unit of an earlier run is left.");
}
