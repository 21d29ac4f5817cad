/* The create request of a container is closed: the complete list of its keys stands here (fault
 * catalogue, row 37). A key that is added to the builder has to be added here, by somebody who has
 * thought about what it opens. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "common/cleanup.h"
#include "engine/docker/container.h"

#define LAYER "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static const char *const golden[] = {
    "AttachStderr",
    "AttachStdin",
    "AttachStdout",
    "Cmd",
    "Entrypoint",
    "Healthcheck",
    "Healthcheck.Test",
    "HostConfig",
    "HostConfig.AutoRemove",
    "HostConfig.CapDrop",
    "HostConfig.CgroupnsMode",
    "HostConfig.Init",
    "HostConfig.IpcMode",
    "HostConfig.LogConfig",
    "HostConfig.LogConfig.Type",
    "HostConfig.Memory",
    "HostConfig.MemorySwap",
    "HostConfig.Mounts",
    "HostConfig.NanoCpus",
    "HostConfig.NetworkMode",
    "HostConfig.PidsLimit",
    "HostConfig.ReadonlyRootfs",
    "HostConfig.RestartPolicy",
    "HostConfig.RestartPolicy.Name",
    "HostConfig.Runtime",
    "HostConfig.SecurityOpt",
    "HostConfig.Tmpfs",
    "HostConfig.Tmpfs./dev/mqueue",
    "HostConfig.Tmpfs./dev/pts",
    "HostConfig.Tmpfs./dev/shm",
    "HostConfig.Tmpfs./sys/fs/cgroup",
    "HostConfig.Tmpfs./tmp",
    "HostConfig.Tmpfs./var/tmp",
    "HostConfig.Tmpfs./workspace",
    "Hostname",
    "Image",
    "Labels",
    "Labels.io.sbxctl.connection",
    "Labels.io.sbxctl.run",
    "Labels.io.sbxctl.service",
    "Labels.io.sbxctl.uid",
    "NetworkDisabled",
    "OpenStdin",
    "Tty",
    "User",
    "WorkingDir",
};

static const char *const mount_keys[] = {
    "BindOptions", "BindOptions.Propagation", "ReadOnly", "Source", "Target", "Type",
};

/* Whatever else a create request could say that opens a sandbox. */
static const char *const never[] = {
    "Binds",
    "Privileged",
    "PidMode",
    "UTSMode",
    "UsernsMode",
    "Devices",
    "CapAdd",
    "DeviceRequests",
    "VolumesFrom",
    "Volumes",
    "CgroupParent",
    "Cgroup",
    "GroupAdd",
    "Links",
    "PortBindings",
    "Sysctls",
    "DeviceCgroupRules",
    "unconfined",
    "PublishAllPorts",
    "ExposedPorts",
    "MaskedPaths",
    "ReadonlyPaths",
    "host",
};

static const struct engine_start start = {
    .run_id = "0123456789abcdef",
    .owner_uid = 1000,
    .cpu_percent = 150,
    .tasks = 256,
    .workspace_inodes = 1000,
    .memory_bytes = 512 << 20,
    .workspace_bytes = 256 << 20,
    .scratch_bytes = 64 << 20,
    .lifetime_usec = 1000000,
};
static const struct engine_start start_with_packages = {
    .run_id = "0123456789abcdef",
    .layer = LAYER,
    .layer_target = ENGINE_TARGET_PACKAGES,
    .wheels = "/srv/wheels",
    .owner_uid = 1000,
};
static struct account account = { "/run/sbxctl-engine-docker/run-7", "/nowhere/cpus" };

static struct container_spec spec_of(const char *runtime)
{
    return (struct container_spec){
        .start = &start,
        .image = "sha256:0123",
        .service = "service",
        .connection = 7,
        .uid = 990,
        .gid = 991,
        .launcher = "/usr/lib/sbxctl/sbxctl-launch",
        .inside = "/usr/lib/sbxctl/inside",
        .control = "/run/sbxctl-engine-docker/run-7/control",
        .account = &account,
        .runtime = runtime,
    };
}

static json_object *make(const char *runtime)
{
    const struct container_spec spec = spec_of(runtime);
    json_object *request = container_request(&spec);

    assert_non_null(request);
    return request;
}

/* ---- keys */

#define KEYS_MAX 128

struct keys {
    char names[KEYS_MAX][128];
    size_t n;
};

static void collect(json_object *object, const char *prefix, struct keys *keys)
{
    json_object_object_foreach(object, key, value)
    {
        char *name = keys->names[keys->n++];

        assert_in_range(keys->n, 1, KEYS_MAX - 1);
        snprintf(name, sizeof(keys->names[0]), "%s%s%s", prefix, *prefix ? "." : "", key);
        if (json_object_is_type(value, json_type_object))
            collect(value, name, keys);
    }
}

static int compare(const void *a, const void *b)
{
    return strcmp(a, b);
}

static void assert_keys(json_object *object, const char *const *expected, size_t n)
{
    static struct keys keys;

    keys.n = 0;
    collect(object, "", &keys);
    qsort(keys.names, keys.n, sizeof(keys.names[0]), compare);
    for (size_t i = 0; i < keys.n && i < n; i++)
        assert_string_equal(keys.names[i], expected[i]);
    assert_int_equal(keys.n, n);
}

static void fault_37_the_request_has_these_keys_and_no_other(void **state)
{
    _cleanup_json_ json_object *request = make("runsc");

    assert_keys(request, golden, ELEMENTS(golden));
}

static void assert_directory(json_object *mount, const char *source, const char *target)
{
    static const char *const keys[] = { "BindOptions",
                                        "BindOptions.NonRecursive",
                                        "BindOptions.Propagation",
                                        "ReadOnly",
                                        "Source",
                                        "Target",
                                        "Type" };
    json_object *options = json_object_object_get(mount, "BindOptions");

    assert_keys(mount, keys, ELEMENTS(keys));
    assert_string_equal(json_get_string(mount, "Source"), source);
    assert_string_equal(json_get_string(mount, "Target"), target);
    assert_true(json_object_get_boolean(json_object_object_get(mount, "ReadOnly")));
    assert_true(json_object_get_boolean(json_object_object_get(options, "NonRecursive")));
    assert_string_equal(json_get_string(options, "Propagation"), "rprivate");
}

static void fault_37_mounts_are_ours_and_names_of_users_and_hosts_read_only(void **state)
{
    static const char *const targets[] = { "/.sbxctl-launch", "/.sbxctl-control", "/etc/passwd",
                                           "/etc/group", "/etc/hosts" };
    _cleanup_json_ json_object *request = make(NULL);
    json_object *host = json_object_object_get(request, "HostConfig");
    json_object *mounts = json_object_object_get(host, "Mounts");

    assert_int_equal(json_object_array_length(mounts), ELEMENTS(targets) + 1);
    assert_directory(json_object_array_get_idx(mounts, ELEMENTS(targets)), "/usr/lib/sbxctl/inside",
                     "/usr/lib/sbxctl/inside");
    for (size_t i = 0; i < ELEMENTS(targets); i++) {
        json_object *mount = json_object_array_get_idx(mounts, i);
        assert_keys(mount, mount_keys, ELEMENTS(mount_keys));
        assert_string_equal(json_get_string(mount, "Type"), "bind");
        assert_string_equal(json_get_string(mount, "Target"), targets[i]);
        assert_true(json_object_get_boolean(json_object_object_get(mount, "ReadOnly")));
        assert_true(strncmp(json_get_string(mount, "Source"), "/run/sbxctl-engine-docker/", 26) ==
                        0 ||
                    strcmp(json_get_string(mount, "Source"), "/usr/lib/sbxctl/sbxctl-launch") == 0);
    }
}

static void fault_37_packages_are_two_mounts_more_read_only(void **state)
{
    struct container_spec spec = spec_of(NULL);

    spec.start = &start_with_packages;
    _cleanup_json_ json_object *request = container_request(&spec);
    json_object *host = json_object_object_get(request, "HostConfig");
    json_object *mounts = json_object_object_get(host, "Mounts");

    assert_int_equal(json_object_array_length(mounts), 8);
    assert_directory(json_object_array_get_idx(mounts, 6),
                     "/var/lib/sbxctl/layers/1000/" LAYER "/tree", "/packages");
    assert_directory(json_object_array_get_idx(mounts, 7), "/srv/wheels", "/wheels");
}

static void fault_37_nothing_in_it_opens_the_sandbox(void **state)
{
    _cleanup_json_ json_object *request = make("runsc");
    const char *text = json_text(request, NULL);
    char quoted[64];

    for (size_t i = 0; i < ELEMENTS(never); i++) {
        snprintf(quoted, sizeof(quoted), "\"%s\"", never[i]);
        assert_null(strstr(text, quoted));
    }
}

/* ---- values */

static const char *text_at(json_object *object, const char *key)
{
    return json_object_to_json_string_ext(json_object_object_get(object, key),
                                          JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE);
}

static void limits_are_those_of_the_start(void **state)
{
    _cleanup_json_ json_object *request = make(NULL);
    json_object *host = json_object_object_get(request, "HostConfig");
    json_object *tmpfs = json_object_object_get(host, "Tmpfs");

    assert_string_equal(text_at(host, "Memory"), "536870912");
    assert_string_equal(text_at(host, "MemorySwap"), "536870912");
    assert_string_equal(text_at(host, "NanoCpus"), "1500000000");
    assert_string_equal(text_at(host, "PidsLimit"), "256");
    assert_string_equal(text_at(tmpfs, "/workspace"),
                        "\"nosuid,nodev,size=268435456,nr_inodes=1000,rw,exec,mode=0755,uid=990,"
                        "gid=991\"");
    assert_string_equal(text_at(tmpfs, "/tmp"),
                        "\"nosuid,nodev,size=67108864,nr_inodes=1000,rw,exec,mode=1777\"");
}

static void program_is_nobody_and_nowhere(void **state)
{
    _cleanup_json_ json_object *request = make(NULL);
    json_object *host = json_object_object_get(request, "HostConfig");

    assert_string_equal(text_at(request, "User"), "\"990:991\"");
    assert_string_equal(text_at(request, "Image"), "\"sha256:0123\"");
    assert_string_equal(text_at(request, "Entrypoint"), "[\"/.sbxctl-launch\"]");
    assert_string_equal(text_at(request, "Cmd"), "[\"--socket\",\"/.sbxctl-control\"]");
    assert_string_equal(text_at(host, "NetworkMode"), "\"none\"");
    assert_string_equal(text_at(host, "CapDrop"), "[\"ALL\"]");
    assert_string_equal(text_at(host, "SecurityOpt"), "[\"no-new-privileges\"]");
    assert_string_equal(text_at(host, "ReadonlyRootfs"), "true");
    assert_string_equal(text_at(request, "NetworkDisabled"), "true");
    assert_null(json_object_object_get(host, "Runtime"));
}

static void fault_43_and_44_user_is_the_number_that_was_given(void **state)
{
    static const struct {
        uid_t uid;
        gid_t gid;
        const char *expected;
    } cases[] = {
        { 1, 10, "\"1:10\"" },
        { 65534, 65534, "\"65534:65534\"" },
        { 100000, 1, "\"100000:1\"" },
        { 2147483648, 2147483649, "\"2147483648:2147483649\"" },
        { 4294967294, 4294967293, "\"4294967294:4294967293\"" },
    };

    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        struct container_spec spec = spec_of(NULL);

        spec.uid = cases[i].uid;
        spec.gid = cases[i].gid;
        _cleanup_json_ json_object *request = container_request(&spec);
        assert_string_equal(text_at(request, "User"), cases[i].expected);
    }
}

static void launcher_looks_through_an_image_unless_that_was_done(void **state)
{
    struct container_spec spec = spec_of(NULL);

    spec.searched = true;
    _cleanup_json_ json_object *request = container_request(&spec);
    assert_string_equal(text_at(request, "Cmd"), "[\"--socket-in-searched\",\"/.sbxctl-control\"]");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fault_37_the_request_has_these_keys_and_no_other),
        cmocka_unit_test(fault_37_mounts_are_ours_and_names_of_users_and_hosts_read_only),
        cmocka_unit_test(fault_37_packages_are_two_mounts_more_read_only),
        cmocka_unit_test(fault_37_nothing_in_it_opens_the_sandbox),
        cmocka_unit_test(limits_are_those_of_the_start),
        cmocka_unit_test(program_is_nobody_and_nowhere),
        cmocka_unit_test(fault_43_and_44_user_is_the_number_that_was_given),
        cmocka_unit_test(launcher_looks_through_an_image_unless_that_was_done),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
