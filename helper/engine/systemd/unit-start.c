/* What a sandbox is made of: every property of its transient unit, see unit.h. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <syslog.h>

#include "common/cleanup.h"
#include "config-paths.h"
#include "engine/borrowed.h"
#include "unit.h"

#define ENGINE_UNIT "sbxctl-engine-systemd.service"

/* There is no SystemCallFilter= among these: sbxctl-launch brings a stricter one that was made at
 * build time, and PID 1 would compile it at each start. Nor is there LockPersonality=, for the same
 * reason, and because it would forbid to ask for the personality. Nor is there ProtectHome=: the
 * root has no homes. */
static const struct {
    const char *name;
    int value;
} switches[] = {
    { "DynamicUser", true },
    { "NoNewPrivileges", true },
    { "MountAPIVFS", true },
    { "PrivateNetwork", true },
    { "PrivateUsers", true },
    { "PrivateIPC", true },
    { "PrivateDevices", true },
    { "PrivateMounts", true },
    { "ProtectKernelTunables", true },
    { "ProtectKernelModules", true },
    { "ProtectKernelLogs", true },
    { "ProtectControlGroups", true },
    { "ProtectClock", true },
    { "ProtectHostname", true },
    { "RestrictRealtime", true },
    { "RestrictSUIDSGID", true },
    { "RemoveIPC", true },
    { "CPUAccounting", true },
    { "MemoryAccounting", true },
    { "SendSIGKILL", true },
    /* A unit that failed can be asked why, as long as we are on the bus. */
    { "AddRef", true },
};

static const struct {
    const char *name, *value;
} texts[] = {
    { "Type", "simple" },
    { "Slice", "sbxctl.slice" },
    { "CollectMode", "inactive-or-failed" },
    { "KillMode", "control-group" },
    /* One process killed for memory is the program's affair; the run goes on or fails by itself. */
    { "OOMPolicy", "continue" },
    { "WorkingDirectory", "/" },
    { "ProtectSystem", "strict" },
    { "ProtectProc", "invisible" },
    /* "pid" would hide /proc/meminfo, cpuinfo and stat, by which free and psutil live. */
    { "ProcSubset", "all" },
    { "KeyringMode", "private" },
    { "StandardOutput", "null" },
    { "StandardError", "null" },
};

static const struct {
    const char *name;
    uint64_t value;
} numbers[] = {
    { "CapabilityBoundingSet", 0 },
    { "AmbientCapabilities", 0 },
    { "MemorySwapMax", 0 },
    { "TimeoutStopUSec", 1000000 },
    /* The namespaces that may be made: none. */
    { "RestrictNamespaces", 0 },
};

static int add_tables(sd_bus_message *m)
{
    int r = 0;

    for (size_t i = 0; r >= 0 && i < ELEMENTS(switches); i++)
        r = sd_bus_message_append(m, "(sv)", switches[i].name, "b", switches[i].value);
    for (size_t i = 0; r >= 0 && i < ELEMENTS(texts); i++)
        r = sd_bus_message_append(m, "(sv)", texts[i].name, "s", texts[i].value);
    for (size_t i = 0; r >= 0 && i < ELEMENTS(numbers); i++)
        r = sd_bus_message_append(m, "(sv)", numbers[i].name, "t", numbers[i].value);
    return r;
}

/* Their /run, fresh as it is, could be written by everybody, without a limit; and their /sys is the
 * machine's, with the names of its network interfaces. */
static int add_for_older(sd_bus_message *m)
{
    int r = sd_bus_message_append(m, "(sv)", "TemporaryFileSystem", "a(ss)", 1, "/run",
                                  "ro,size=64k,mode=0755");
    return r < 0 ? r
                 : sd_bus_message_append(m, "(sv)", "InaccessiblePaths", "as", 2,
                                         "-+/sys/class/net", "-+/sys/devices/virtual/net");
}

/* What older versions do not know they would refuse. */
static int add_by_version(sd_bus_message *m, unsigned systemd)
{
    if (systemd < UNIT_SYSTEMD_PRIVATE_PIDS)
        return add_for_older(m);
    /* The launcher becomes PID 1: it can be neither seen nor stopped by the program, and reaps. */
    int r = sd_bus_message_append(m, "(sv)", "PrivatePIDs", "s", "yes");
    /* No way to the journal. Before 257 a private /run had none. */
    return r < 0 ? r : sd_bus_message_append(m, "(sv)", "BindLogSockets", "b", false);
}

/* The lifetime is the engine's own affair; this is for the case that the engine cannot act any
 * more. */
static uint64_t backstop(uint64_t lifetime_usec)
{
    return lifetime_usec + 2 * 1000000;
}

static int add_limits(sd_bus_message *m, const struct engine_start *start)
{
    int r = sd_bus_message_append(m, "(sv)", "MemoryMax", "t", start->memory_bytes);
    r = r < 0 ? r : sd_bus_message_append(m, "(sv)", "TasksMax", "t", (uint64_t)start->tasks);
    r = r < 0 ? r
              : sd_bus_message_append(m, "(sv)", "CPUQuotaPerSecUSec", "t",
                                      (uint64_t)start->cpu_percent * 10000);
    return r < 0 ? r
                 : sd_bus_message_append(m, "(sv)", "RuntimeMaxUSec", "t",
                                         backstop(start->lifetime_usec));
}

static int add_read_only(sd_bus_message *m, const char *source, const char *target,
                         bool may_be_missing, uint64_t flags)
{
    return sd_bus_message_append(m, "(sv)", "BindReadOnlyPaths", "a(ssbt)", 1, source, target,
                                 (int)may_be_missing, flags);
}

static bool has_node_modules(const struct engine_start *start)
{
    return start->layer[0] != '\0' && start->layer_target == ENGINE_TARGET_NODE_MODULES;
}

static int add_system(sd_bus_message *m, const struct unit_spec *spec)
{
    const char *root =
        has_node_modules(spec->start) ? SBXCTL_LIBEXECDIR "/root-node" : SBXCTL_LIBEXECDIR "/root";
    int r = sd_bus_message_append(m, "(sv)", "RootDirectory", "s", root);
    /* Without what is mounted below it: the sandbox's own root is below it, and would show up in
     * itself. */
    r = r < 0 ? r : add_read_only(m, "/usr", "/usr", false, 0);
    r = r < 0 ? r : add_read_only(m, spec->etc, "/etc", false, 0);
    r = r < 0 ? r : add_read_only(m, spec->account, "/etc/account", false, 0);
    r = r < 0 ? r : add_read_only(m, spec->cpu_list, "/sys/devices/system/cpu/online", true, 0);
    /* "+": below the sandbox's root. The control groups would name other people's units and runs;
     * terminals would come from the machine's own pool of 4096, which one program could use up for
     * everybody; message queues need no file system; huge pages are refused anyway. */
    return r < 0
               ? r
               : sd_bus_message_append(m, "(sv)", "InaccessiblePaths", "as", 4, "-+/sys/fs/cgroup",
                                       "-+/dev/pts", "-+/dev/mqueue", "-+/dev/hugepages");
}

/* No file in them can gain anything by a set-id bit (NoNewPrivileges=), nor is a device
 * (PrivateDevices=), and the store lets none of either in. */
static int add_borrowed(sd_bus_message *m, const struct engine_start *start)
{
    char layer[BORROWED_SOURCE_MAX];
    int r = 0;

    if (start->layer[0] != '\0') {
        borrowed_layer_source(start, layer);
        r = add_read_only(m, layer, engine_target_path(start->layer_target), false, 0);
    }
    if (r >= 0 && start->wheels[0] != '\0')
        r = add_read_only(m, start->wheels, BORROWED_WHEELS_TARGET, false, 0);
    return r;
}

/* DynamicUser= brings a PrivateTmp= without a size, which wins over a TemporaryFileSystem=/tmp.
 * Mounts are made in the order of their names, and links in them are followed then: so the
 * skeleton's link "~tmp", the last name of all, brings a second, limited one on top. /var/tmp is a
 * link to /tmp. */
static int add_storage(sd_bus_message *m, const struct engine_start *start)
{
    char workspace[128], scratch[128];

    snprintf(workspace, sizeof(workspace),
             "size=%" PRIu64 ",nr_inodes=%" PRIu32 ",mode=0777,nosuid,nodev",
             start->workspace_bytes, start->workspace_inodes);
    snprintf(scratch, sizeof(scratch),
             "size=%" PRIu64 ",nr_inodes=%" PRIu32 ",mode=1777,nosuid,nodev", start->scratch_bytes,
             start->workspace_inodes);
    return sd_bus_message_append(m, "(sv)", "TemporaryFileSystem", "a(ss)", 3, "/workspace",
                                 workspace, "/~tmp", scratch, "/dev/shm", scratch);
}

/* What is to be known of a run is in the audit trail, so PID 1 need not write to the journal that a
 * unit was started, and that it was killed, which is how each of them ends. What keeps a sandbox
 * from starting still gets through. */
static int add_quiet(sd_bus_message *m)
{
    int r = sd_bus_message_append(m, "(sv)", "LogLevelMax", "i", (int32_t)LOG_WARNING);
    return r < 0 ? r
                 : sd_bus_message_append(m, "(sv)", "SuccessExitStatus", "(aiai)", 0, 1,
                                         (int32_t)SIGKILL);
}

static int add_life(sd_bus_message *m, const struct unit_spec *spec)
{
    static const char launcher[] = SBXCTL_LIBEXECDIR "/sbxctl-launch";
    char description[160];

    snprintf(description, sizeof(description), UNIT_DESCRIPTION, spec->start->run_id,
             spec->start->owner_uid, spec->connection);
    int r = sd_bus_message_append(m, "(sv)", "Description", "s", description);
    r = r < 0 ? r : sd_bus_message_append(m, "(sv)", "BindsTo", "as", 1, ENGINE_UNIT);
    r = r < 0 ? r : sd_bus_message_append(m, "(sv)", "After", "as", 1, ENGINE_UNIT);
    r = r < 0 ? r : sd_bus_message_append(m, "(sv)", "UMask", "u", (uint32_t)022);
    r = r < 0 ? r
              : sd_bus_message_append(m, "(sv)", "StandardInputFileDescriptor", "h", spec->control);
    return r < 0 ? r
                 : sd_bus_message_append(m, "(sv)", "ExecStart", "a(sasb)", 1, launcher, 1,
                                         launcher, false);
}

static int make_start_message(sd_bus *bus, const struct unit_spec *spec, sd_bus_message **ret)
{
    _cleanup_(sd_bus_message_unrefp) sd_bus_message *m = NULL;

    int r = sd_bus_message_new_method_call(bus, &m, UNIT_MANAGER, "StartTransientUnit");
    r = r < 0 ? r : sd_bus_message_append(m, "ss", spec->name, "fail");
    r = r < 0 ? r : sd_bus_message_open_container(m, 'a', "(sv)");
    r = r < 0 ? r : add_life(m, spec);
    r = r < 0 ? r : add_tables(m);
    r = r < 0 ? r : add_by_version(m, spec->systemd);
    r = r < 0 ? r : add_quiet(m);
    r = r < 0 ? r : add_limits(m, spec->start);
    r = r < 0 ? r : add_system(m, spec);
    r = r < 0 ? r : add_borrowed(m, spec->start);
    r = r < 0 ? r : add_storage(m, spec->start);
    r = r < 0 ? r : sd_bus_message_close_container(m);
    r = r < 0 ? r : sd_bus_message_append(m, "a(sa(sv))", 0);
    if (r < 0)
        return r;
    *ret = TAKE_PTR(m);
    return 0;
}

int unit_start(sd_bus *bus, const struct unit_spec *spec, char **ret_error)
{
    /* The message holds a duplicate of the control socket: it must be gone when this returns, or
     * the end of file would never come. */
    _cleanup_(sd_bus_message_unrefp) sd_bus_message *m = NULL;
    _cleanup_(sd_bus_error_free) sd_bus_error error = SD_BUS_ERROR_NULL;

    int r = make_start_message(bus, spec, &m);
    if (r >= 0)
        r = sd_bus_call(bus, m, 0, &error, NULL);
    if (r >= 0)
        return 0;
    *ret_error = strdup(error.message ? error.message : strerror(-r));
    return r;
}
