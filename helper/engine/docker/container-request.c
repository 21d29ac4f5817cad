/* What a sandbox is made of: the whole create request, see container.h. Closed: a key that does not
 * stand here cannot come in, and the list of keys is held by a unit test. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/cleanup.h"
#include "container.h"
#include "engine/borrowed.h"

/* Added with the first error kept, as json_add() takes what failed itself. */
struct builder {
    int error;
};

static void keep(struct builder *b, int r)
{
    b->error = b->error < 0 ? b->error : r;
}

static void add(struct builder *b, json_object *object, const char *key, json_object *value)
{
    keep(b, json_add(object, key, value));
}

static void add_text(struct builder *b, json_object *object, const char *key, const char *value)
{
    keep(b, json_add_string(object, key, value));
}

static void add_number(struct builder *b, json_object *object, const char *key, uint64_t value)
{
    keep(b, json_add_uint64(object, key, value));
}

static void add_bool(struct builder *b, json_object *object, const char *key, bool value)
{
    keep(b, json_add_bool(object, key, value));
}

static void append(struct builder *b, json_object *array, json_object *value)
{
    keep(b, json_append(array, value));
}

static json_object *texts(struct builder *b, const char *const *values)
{
    json_object *array = json_object_new_array();

    for (; *values; values++)
        append(b, array, json_object_new_string(*values));
    return array;
}

/* ---- host */

static json_object *mount(struct builder *b, const char *source, const char *target)
{
    json_object *mount = json_object_new_object(), *options = json_object_new_object();

    add_text(b, mount, "Type", "bind");
    add_text(b, mount, "Source", source);
    add_text(b, mount, "Target", target);
    add_bool(b, mount, "ReadOnly", true);
    add_text(b, options, "Propagation", "rprivate");
    add(b, mount, "BindOptions", options);
    return mount;
}

/* A whole directory, without what may be mounted below it. */
static json_object *directory_mount(struct builder *b, const char *source, const char *target)
{
    json_object *object = mount(b, source, target);

    add_bool(b, json_object_object_get(object, "BindOptions"), "NonRecursive", true);
    return object;
}

static void append_borrowed(struct builder *b, json_object *array, const struct engine_start *start)
{
    char layer[BORROWED_SOURCE_MAX];

    if (start->layer[0] != '\0') {
        borrowed_layer_source(start, layer);
        append(b, array, directory_mount(b, layer, engine_target_path(start->layer_target)));
    }
    if (start->wheels[0] != '\0')
        append(b, array, directory_mount(b, start->wheels, BORROWED_WHEELS_TARGET));
}

/* Single files of ours, and directories that are lent, read-only, and nothing else of the host's.
 */
static json_object *mounts(struct builder *b, const struct container_spec *spec)
{
    json_object *array = json_object_new_array();
    char path[ACCOUNT_PATH_MAX + 8];

    append(b, array, mount(b, spec->launcher, CONTAINER_LAUNCHER));
    append(b, array, mount(b, spec->control, CONTAINER_CONTROL));
    snprintf(path, sizeof(path), "%s/passwd", spec->account->directory);
    append(b, array, mount(b, path, "/etc/passwd"));
    snprintf(path, sizeof(path), "%s/group", spec->account->directory);
    append(b, array, mount(b, path, "/etc/group"));
    snprintf(path, sizeof(path), "%s/hosts", spec->account->directory);
    append(b, array, mount(b, path, "/etc/hosts"));
    /* There is none if all CPUs may be used. */
    if (access(spec->account->cpu_list, F_OK) == 0)
        append(b, array, mount(b, spec->account->cpu_list, "/sys/devices/system/cpu/online"));
    append(b, array, directory_mount(b, spec->inside, spec->inside));
    append_borrowed(b, array, spec->start);
    return array;
}

/* Nothing to see. Control groups would name other people's runs; terminals come from the kernel's
 * one pool of 4096 (kernel.pty.max), which one program could use up for everybody; message queues
 * need no file system. */
static const char *const hidden[] = { "/dev/mqueue", "/dev/pts", "/sys/fs/cgroup" };

static void add_tmpfs(struct builder *b, json_object *object, const char *path, uint64_t size,
                      uint32_t inodes, const char *options)
{
    char text[160], count[32] = "";

    if (inodes > 0)
        snprintf(count, sizeof(count), ",nr_inodes=%" PRIu32, inodes);
    snprintf(text, sizeof(text), "nosuid,nodev,size=%" PRIu64 "%s,%s", size, count, options);
    add_text(b, object, path, text);
}

/* All that can be written to, and what is hidden. */
static json_object *tmpfs(struct builder *b, const struct container_spec *spec)
{
    static const char *const scratch[] = { "/tmp", "/var/tmp", "/dev/shm" };
    const struct engine_start *start = spec->start;
    uint32_t inodes = spec->is_podman ? 0 : start->workspace_inodes;
    json_object *object = json_object_new_object();
    char workspace[64] = "rw,exec,mode=0777";

    if (!spec->is_podman)
        snprintf(workspace, sizeof(workspace), "rw,exec,mode=0755,uid=%u,gid=%u", spec->uid,
                 spec->gid);
    add_tmpfs(b, object, "/workspace", start->workspace_bytes, inodes, workspace);
    for (size_t i = 0; i < ELEMENTS(scratch); i++)
        add_tmpfs(b, object, scratch[i], start->scratch_bytes, inodes, "rw,exec,mode=1777");
    for (size_t i = 0; i < ELEMENTS(hidden); i++)
        add_tmpfs(b, object, hidden[i], 4096, spec->is_podman ? 0 : 2, "ro,noexec,mode=0000");
    /* podman would make one that can be written to, without a limit. */
    if (spec->is_podman)
        add_tmpfs(b, object, "/run", 65536, 0, "ro,noexec,mode=0755");
    return object;
}

static json_object *log_config(struct builder *b)
{
    json_object *object = json_object_new_object();

    add_text(b, object, "Type", "none");
    return object;
}

static json_object *restart_policy(struct builder *b)
{
    json_object *object = json_object_new_object();

    add_text(b, object, "Name", "no");
    return object;
}

static json_object *host_config(struct builder *b, const struct container_spec *spec)
{
    static const char *const all[] = { "ALL", NULL };
    /* The daemon's own seccomp and AppArmor profiles stay; the launcher adds a stricter filter. */
    static const char *const security[] = { "no-new-privileges", NULL };
    const struct engine_start *start = spec->start;
    json_object *object = json_object_new_object();

    /* Removed by us: the counters are to be read first. */
    add_bool(b, object, "AutoRemove", false);
    add(b, object, "CapDrop", texts(b, all));
    add_text(b, object, "CgroupnsMode", "private");
    add_bool(b, object, "Init", false);
    add_text(b, object, "IpcMode", "private");
    add(b, object, "LogConfig", log_config(b));
    add_number(b, object, "Memory", start->memory_bytes);
    /* Memory and swap together: no swap. */
    add_number(b, object, "MemorySwap", start->memory_bytes);
    add(b, object, "Mounts", mounts(b, spec));
    add_number(b, object, "NanoCpus", (uint64_t)start->cpu_percent * 10000000);
    add_text(b, object, "NetworkMode", "none");
    add_number(b, object, "PidsLimit", start->tasks);
    add_bool(b, object, "ReadonlyRootfs", true);
    add(b, object, "RestartPolicy", restart_policy(b));
    add_text(b, object, "Runtime", spec->runtime);
    add(b, object, "SecurityOpt", texts(b, security));
    add(b, object, "Tmpfs", tmpfs(b, spec));
    return object;
}

/* ---- all of it */

static json_object *labels(struct builder *b, const struct container_spec *spec)
{
    json_object *object = json_object_new_object();
    char text[24];

    add_text(b, object, "io.sbxctl.run", spec->start->run_id);
    snprintf(text, sizeof(text), "%" PRIu32, spec->start->owner_uid);
    add_text(b, object, "io.sbxctl.uid", text);
    add_text(b, object, "io.sbxctl.service", spec->service);
    snprintf(text, sizeof(text), "%" PRIu64, spec->connection);
    add_text(b, object, "io.sbxctl.connection", text);
    return object;
}

/* An image's own check would be one more process in the sandbox, again and again. */
static json_object *no_healthcheck(struct builder *b)
{
    static const char *const none[] = { "NONE", NULL };
    json_object *object = json_object_new_object();

    add(b, object, "Test", texts(b, none));
    return object;
}

json_object *container_request(const struct container_spec *spec)
{
    static const char *const entrypoint[] = { CONTAINER_LAUNCHER, NULL };
    const char *const command[] = { spec->searched ? "--socket-in-searched" : "--socket",
                                    CONTAINER_CONTROL, NULL };
    json_object *object = json_object_new_object();
    struct builder b = { 0 };
    char user[32];

    snprintf(user, sizeof(user), "%u:%u", spec->uid, spec->gid);
    add_bool(&b, object, "AttachStderr", false);
    add_bool(&b, object, "AttachStdin", false);
    add_bool(&b, object, "AttachStdout", false);
    add(&b, object, "Cmd", texts(&b, command));
    add(&b, object, "Entrypoint", texts(&b, entrypoint));
    add(&b, object, "Healthcheck", no_healthcheck(&b));
    add(&b, object, "HostConfig", host_config(&b, spec));
    add_text(&b, object, "Hostname", CONTAINER_HOSTNAME);
    add_text(&b, object, "Image", spec->image);
    add(&b, object, "Labels", labels(&b, spec));
    /* The runtime makes a network namespace with a loopback interface either way; the daemon would
     * start another program of its own in it to say that there is nothing else (measured: half of
     * the time of a start). */
    add_bool(&b, object, "NetworkDisabled", true);
    add_bool(&b, object, "OpenStdin", false);
    add_bool(&b, object, "Tty", false);
    add_text(&b, object, "User", user);
    add_text(&b, object, "WorkingDir", "/");
    if (b.error < 0) {
        json_object_put(object);
        return NULL;
    }
    return object;
}
