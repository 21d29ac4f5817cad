/* Kernel, control groups, clock and disk, see doctor.h. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/openat2.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/timex.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <linux/magic.h>
#include <unistd.h>

#include "client/doctor.h"
#include "common/clock.h"
#include "common/quantity.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

#define STATE_DIRECTORY "/var/lib/sbxctl"
/* A run may leave as much as a workspace holds, and a thousand files. */
#define BYTES_LOW (UINT64_C(256) << 20)
#define BYTES_FULL (UINT64_C(64) << 20)
#define FILES_LOW 2000
#define FILES_FULL 1000

/* ---- Kernel ---- */

static bool has_openat2(void)
{
    struct open_how how = { .flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_BENEATH };
    _cleanup_close_ int fd = (int)syscall(SYS_openat2, AT_FDCWD, ".", &how, sizeof(how));

    return fd >= 0 || errno != ENOSYS;
}

static bool has_pidfd(void)
{
    _cleanup_close_ int fd = (int)syscall(SYS_pidfd_open, getpid(), 0);
    return fd >= 0 || errno != ENOSYS;
}

static bool has_peer_pidfd(void)
{
    int pair[2], pidfd = -1;
    socklen_t size = sizeof(pidfd);

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return true;
    bool has = getsockopt(pair[0], SOL_SOCKET, SO_PEERPIDFD, &pidfd, &size) == 0;
    close_fd(pair[0]);
    close_fd(pair[1]);
    close_fd(pidfd);
    return has;
}

void doctor_kernel(struct doctor *doctor)
{
    static const char meaning[] = "It is older than Linux 5.6; the helper does not work with it.";
    static const char command[] = "apt-get install --yes linux-image-amd64 && systemctl reboot";
    struct utsname name = {};

    uname(&name);
    if (!has_openat2())
        doctor_tell(doctor, DOCTOR_FAILURE, meaning, command, "The kernel %s has no openat2().",
                    name.release);
    else if (!has_pidfd())
        doctor_tell(doctor, DOCTOR_FAILURE, meaning, command, "The kernel %s has no pidfd_open().",
                    name.release);
    else
        doctor_tell(doctor, DOCTOR_OK, NULL, NULL, "The kernel %s has what is needed%s.",
                    name.release,
                    has_peer_pidfd() ? "" : "; audit records name no session before Linux 6.5");
}

/* The first number in a file of /proc; -1 if there is none. */
static int64_t read_number(const char *path)
{
    FILE *f = fopen(path, "re");
    int64_t number = -1;

    if (!f)
        return -1;
    if (fscanf(f, "%" SCNd64, &number) != 1)
        number = -1;
    fclose(f);
    return number;
}

void doctor_namespaces(struct doctor *doctor)
{
    static const struct {
        const char *path, *name;
        int64_t bad, good;
        enum doctor_state state;
        const char *meaning;
    } settings[] = {
        { "/proc/sys/user/max_user_namespaces", "user.max_user_namespaces", 0, 65536,
          DOCTOR_FAILURE, "The engine systemd gives each sandbox one, so its runs fail." },
        { "/proc/sys/user/max_net_namespaces", "user.max_net_namespaces", 0, 65536, DOCTOR_FAILURE,
          "Each sandbox has a network of its own, so runs fail." },
        { "/proc/sys/kernel/unprivileged_userns_clone", "kernel.unprivileged_userns_clone", 0, 1,
          DOCTOR_WARNING, "The engine e2b makes one without a privilege, so its runs fail." },
        { "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
          "kernel.apparmor_restrict_unprivileged_userns", 1, 0, DOCTOR_WARNING,
          "AppArmor keeps the engine e2b from making one, so its runs fail." },
    };
    bool is_good = true;

    for (size_t i = 0; i < ELEMENTS(settings); i++) {
        if (read_number(settings[i].path) != settings[i].bad)
            continue;
        is_good = false;
        doctor_tell_owned(doctor, settings[i].state, settings[i].meaning,
                          doctor_text("echo '%s = %" PRId64 "' >/etc/sysctl.d/60-sbxctl.conf && "
                                      "sysctl -p /etc/sysctl.d/60-sbxctl.conf",
                                      settings[i].name, settings[i].good),
                          "Namespaces are restricted: %s is %" PRId64 ".", settings[i].name,
                          settings[i].bad);
    }
    if (is_good)
        doctor_tell(doctor, DOCTOR_OK, NULL, NULL, "Namespaces can be made.");
}

/* ---- Control groups ---- */

/* Version 1: name, hierarchy, number, enabled (cgroups(7)). */
static bool is_enabled_v1(const char *controller)
{
    FILE *f = fopen("/proc/cgroups", "re");
    char line[128], name[64];
    bool enabled = false;
    int on;

    while (f && fgets(line, sizeof(line), f))
        if (sscanf(line, "%63s %*d %*d %d", name, &on) == 2 && strcmp(name, controller) == 0)
            enabled = on == 1;
    if (f)
        fclose(f);
    return enabled;
}

static bool is_enabled_v2(const char *controller)
{
    FILE *f = fopen("/sys/fs/cgroup/cgroup.controllers", "re");
    char name[64];
    bool enabled = false;

    while (f && fscanf(f, "%63s", name) == 1)
        enabled |= strcmp(name, controller) == 0;
    if (f)
        fclose(f);
    return enabled;
}

void doctor_cgroups(struct doctor *doctor)
{
    static const char *const needed[] = { "memory", "cpu", "pids" };
    struct statfs fs = {};
    bool is_good = true;

    statfs("/sys/fs/cgroup", &fs);
    bool is_v2 = fs.f_type == CGROUP2_SUPER_MAGIC;
    for (size_t i = 0; i < ELEMENTS(needed); i++) {
        if (is_v2 ? is_enabled_v2(needed[i]) : is_enabled_v1(needed[i]))
            continue;
        is_good = false;
        doctor_tell_owned(doctor, DOCTOR_FAILURE,
                          "That limit of runs does not hold. Look for cgroup_disable= in the "
                          "kernel's command line, too.",
                          doctor_text("sed -i 's/^GRUB_CMDLINE_LINUX=\"/&cgroup_enable=%s /' "
                                      "/etc/default/grub && update-grub && systemctl reboot",
                                      needed[i]),
                          "The kernel has no control group controller '%s'.", needed[i]);
    }
    if (is_good)
        doctor_tell(doctor, DOCTOR_OK, NULL, NULL, "Control groups are there%s.",
                    is_v2 ? ""
                          : ", of version 1: what a run's memory limit does not hold may go to "
                            "swap, if there is any");
}

/* ---- Clock ---- */

/* When this system was put together: nothing of it can be younger than now. */
static time_t newest_file(void)
{
    static const char *const paths[] = { "/proc/self/exe", "/usr/lib/os-release",
                                         STATE_DIRECTORY "/users" };
    time_t newest = 0;
    struct stat st;

    for (size_t i = 0; i < ELEMENTS(paths); i++)
        if (stat(paths[i], &st) == 0 && st.st_mtime > newest)
            newest = st.st_mtime;
    return newest;
}

void doctor_clock(struct doctor *doctor)
{
    static const time_t day = 86400;
    time_t now = (time_t)(clock_usec(CLOCK_REALTIME) / USEC_PER_SEC);
    struct timex timex = {};
    char text[32] = "";
    struct tm tm;

    if (gmtime_r(&now, &tm))
        strftime(text, sizeof(text), "%Y-%m-%d", &tm);
    if (now + day < newest_file()) {
        doctor_tell(doctor, DOCTOR_FAILURE,
                    "Audit records have a wrong time, and certificates are not believed.",
                    "timedatectl set-ntp true",
                    "The clock is wrong: by it, this is %s, before the system was installed.",
                    text);
        return;
    }
    /* A container has the clock of its host. */
    bool is_container = access("/run/host/container-manager", F_OK) == 0 ||
                        access("/run/systemd/container", F_OK) == 0 ||
                        access("/.dockerenv", F_OK) == 0;
    if (!is_container && adjtimex(&timex) >= 0 && (timex.status & STA_UNSYNC) != 0)
        doctor_tell(doctor, DOCTOR_WARNING,
                    "The times in audit records are as good as the machine's own clock.",
                    "timedatectl set-ntp true", "The clock is not synchronised.");
    else
        doctor_tell(doctor, DOCTOR_OK, NULL, NULL, "The clock says %s.", text);
}

/* ---- Disk ---- */

/* What the caller can remove to make room; an administrator has to look whose it is. */
static char *make_room(void)
{
    if (geteuid() == 0)
        return doctor_text("du -xh --max-depth=2 " STATE_DIRECTORY " | sort -h | tail");
    return doctor_text("sbxctl rm --all");
}

void doctor_disk(struct doctor *doctor)
{
    char free_bytes[QUANTITY_TEXT];
    struct statvfs fs;

    if (statvfs(STATE_DIRECTORY, &fs) < 0)
        return;
    uint64_t bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
    bool has_files = fs.f_files > 0;
    format_bytes(bytes, free_bytes);
    if (bytes < BYTES_FULL)
        doctor_tell_owned(doctor, DOCTOR_FAILURE, "What runs make cannot be kept.", make_room(),
                          "The disk is full: " STATE_DIRECTORY " has %s left.", free_bytes);
    else if (has_files && fs.f_favail < FILES_FULL)
        doctor_tell_owned(doctor, DOCTOR_FAILURE, "What runs make cannot be kept.", make_room(),
                          "The disk is full: " STATE_DIRECTORY " has room for %" PRIu64
                          " more files (inodes).",
                          (uint64_t)fs.f_favail);
    else if (bytes < BYTES_LOW || (has_files && fs.f_favail < FILES_LOW))
        doctor_tell_owned(doctor, DOCTOR_WARNING, "Runs will soon be refused for it.", make_room(),
                          "The disk is nearly full: " STATE_DIRECTORY " has %s and %" PRIu64
                          " files left.",
                          free_bytes, (uint64_t)fs.f_favail);
    else
        doctor_tell(doctor, DOCTOR_OK, NULL, NULL, "There is room for results: %s.", free_bytes);
}
