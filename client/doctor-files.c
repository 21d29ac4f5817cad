/* Directories, accounts and the journal, see doctor.h. */
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <systemd/sd-id128.h>
#include <unistd.h>

#include "client/doctor.h"
#include "client/helper.h"

#define STATE_DIRECTORY "/var/lib/sbxctl"
#define JOURNAL_SOCKET "/run/systemd/journal/socket"

/* ---- Account ---- */

void doctor_account(struct doctor *doctor)
{
    const struct passwd *user = getpwuid(getuid());
    struct stat st;

    if (!user) {
        doctor_tell(doctor, DOCTOR_WARNING, "Nobody can approve anything for it.",
                    "systemctl restart systemd-userdbd.service nscd.service sssd.service",
                    "There is no account for uid %u.", (unsigned)getuid());
        return;
    }
    if (stat(user->pw_dir, &st) < 0 && errno == ENOENT) {
        _cleanup_free_ char *name = doctor_word(user->pw_name);
        doctor_tell_owned(
            doctor, DOCTOR_WARNING, "Runs can be made, but programs that start them may not.",
            doctor_text("mkhomedir_helper %s", name), "The home directory %s of %s does not exist.",
            user->pw_dir, user->pw_name);
        return;
    }
    doctor_tell(doctor, DOCTOR_OK, NULL, NULL, "%s has an account.", user->pw_name);
}

/* ---- State ---- */

struct place {
    const char *path, *owner;
    mode_t mode;
};

/* As systemd/tmpfiles.conf makes them; a test compares the two. */
static const struct place places[] = {
    { "/run/sbxctl", "root", 0755 },
    { "/run/sbxctl/engine", "root", 0755 },
    { STATE_DIRECTORY, HELPER_USER, 0711 },
    { STATE_DIRECTORY "/users", HELPER_USER, 0711 },
    { STATE_DIRECTORY "/index", HELPER_USER, 0700 },
    { STATE_DIRECTORY "/staging", HELPER_USER, 0700 },
    { STATE_DIRECTORY "/layers", HELPER_USER, 0700 },
};

/* Returns whether it is as it should be. */
static bool look_at_place(struct doctor *doctor, const struct place *place)
{
    static const char meaning[] = "The helper cannot keep what runs make, or others may see it.";
    static const char command[] = "systemd-tmpfiles --create sbxctl.conf";
    const struct passwd *owner = getpwnam(place->owner);
    struct stat st;

    if (lstat(place->path, &st) < 0) {
        if (errno == EACCES)
            return true; /* a parent's fault, which is told of it */
        doctor_tell(doctor, DOCTOR_FAILURE, meaning, command, "%s: %s.", place->path,
                    strerror(errno));
        return false;
    }
    if (!S_ISDIR(st.st_mode)) {
        doctor_tell_owned(doctor, DOCTOR_FAILURE, meaning,
                          doctor_text("mv %s %s.wrong && %s", place->path, place->path, command),
                          "%s is no directory.", place->path);
        return false;
    }
    if (owner && st.st_uid != owner->pw_uid) {
        const struct passwd *found = getpwuid(st.st_uid);
        doctor_tell_owned(doctor, DOCTOR_FAILURE, meaning,
                          doctor_text("chown %s: %s", place->owner, place->path),
                          "%s belongs to %s instead of %s.", place->path,
                          found ? found->pw_name : "nobody known", place->owner);
        return false;
    }
    if ((st.st_mode & 07777) != place->mode) {
        doctor_tell_owned(doctor, DOCTOR_FAILURE, meaning,
                          doctor_text("chmod %04o %s", (unsigned)place->mode, place->path),
                          "%s has mode %04o instead of %04o.", place->path,
                          (unsigned)st.st_mode & 07777, (unsigned)place->mode);
        return false;
    }
    return true;
}

/* The caller's own, which it may have changed itself. */
static bool look_at_own(struct doctor *doctor)
{
    _cleanup_free_ char *path = doctor_text(STATE_DIRECTORY "/users/%u", (unsigned)getuid());
    struct stat st;

    if (lstat(path, &st) < 0 || (S_ISDIR(st.st_mode) && st.st_uid == getuid()))
        return true;
    doctor_tell_owned(doctor, DOCTOR_FAILURE, "What your runs make cannot be kept.",
                      S_ISDIR(st.st_mode) ? doctor_text("chown %u %s", (unsigned)getuid(), path)
                                          : doctor_text("mv %s %s.wrong", path, path),
                      "%s is not your directory.", path);
    return false;
}

void doctor_state(struct doctor *doctor)
{
    bool is_good = true;

    if (!getpwnam(HELPER_USER)) {
        doctor_tell(doctor, DOCTOR_FAILURE, "The helper runs as that user, and does not start.",
                    "systemd-sysusers sbxctl.conf && systemd-tmpfiles --create sbxctl.conf",
                    "There is no user %s.", HELPER_USER);
        doctor->state_is_bad = true;
        return;
    }
    for (size_t i = 0; i < ELEMENTS(places); i++)
        is_good = look_at_place(doctor, &places[i]) && is_good;
    doctor->state_is_bad = !is_good;
    if (look_at_own(doctor) && is_good)
        doctor_tell(doctor, DOCTOR_OK, NULL, NULL, STATE_DIRECTORY " is as it should be.");
}

/* ---- Journal ---- */

static int connect_journal(void)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX, .sun_path = JOURNAL_SOCKET };
    _cleanup_close_ int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return -errno;
    return connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ? -errno : 0;
}

static bool is_persistent(void)
{
    char id[SD_ID128_STRING_MAX], path[128];
    sd_id128_t machine;

    if (sd_id128_get_machine(&machine) < 0)
        return true;
    snprintf(path, sizeof(path), "/var/log/journal/%s/system.journal",
             sd_id128_to_string(machine, id));
    return access(path, F_OK) == 0 || errno != ENOENT;
}

/* A drop-in of somebody's may have given the helper one. */
static bool look_at_rate(struct doctor *doctor)
{
    _cleanup_free_ char *path = NULL;
    uint64_t usec = 0;

    if (!doctor->manager ||
        sd_bus_path_encode("/org/freedesktop/systemd1/unit", "sbxctl-helper.service", &path) < 0 ||
        sd_bus_get_property_trivial(doctor->manager, "org.freedesktop.systemd1", path,
                                    "org.freedesktop.systemd1.Service", "LogRateLimitIntervalUSec",
                                    NULL, 't', &usec) < 0 ||
        usec == 0)
        return true;
    doctor_tell(
        doctor, DOCTOR_WARNING, "Records of runs are dropped when users make many.",
        "systemctl revert sbxctl-helper.service && systemctl try-restart "
        "sbxctl-helper.service",
        "sbxctl-helper.service has a rate limit for its records (LogRateLimitIntervalSec=).");
    return false;
}

void doctor_journal(struct doctor *doctor)
{
    static const char meaning[] =
        "Nothing runs without its record in the journal (AuditRequired=).";
    int r = connect_journal();

    if (r < 0) {
        if (!doctor_socket_tell(doctor, DOCTOR_FAILURE, "systemd-journald.socket", meaning) &&
            !doctor_unit_tell(doctor, DOCTOR_FAILURE, "systemd-journald.service", meaning))
            doctor_tell(doctor, DOCTOR_FAILURE, meaning,
                        "systemctl restart systemd-journald.socket systemd-journald.service",
                        "The journal takes no records: %s: %s.", JOURNAL_SOCKET, strerror(-r));
        return;
    }
    if (doctor_unit_tell(doctor, DOCTOR_FAILURE, "systemd-journald.service", meaning))
        return;
    if (!is_persistent()) {
        /* `journalctl --flush` does nothing once it was called since the boot. */
        doctor_tell(doctor, DOCTOR_WARNING, "What runs did is forgotten at the next reboot.",
                    "mkdir -p /var/log/journal && systemd-tmpfiles --create --prefix "
                    "/var/log/journal && systemctl kill --signal=USR1 systemd-journald.service",
                    "The journal is kept in memory only.");
        return;
    }
    if (look_at_rate(doctor))
        doctor_tell(doctor, DOCTOR_OK, NULL, NULL, "The journal takes records, and keeps them.");
}
