/* Loading of the configuration: what is taken, and what stops the helper. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "broker/config.h"
#include "common/cleanup.h"

static char etc[64], vendor[64];

static void write_file(const char *directory, const char *name, const char *text, mode_t mode)
{
    char path[256];

    snprintf(path, sizeof(path), "%s/%s", directory, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    assert_int_equal(fchmod(fd, mode), 0);
    close(fd);
}

static int set_up(void **state)
{
    char path[128];

    strcpy(etc, "/tmp/test-config-XXXXXX");
    strcpy(vendor, "/tmp/test-config-XXXXXX");
    if (!mkdtemp(etc) || !mkdtemp(vendor))
        return -1;
    snprintf(path, sizeof(path), "%s/sbxctl.conf.d", etc);
    if (mkdir(path, 0755) < 0)
        return -1;
    snprintf(path, sizeof(path), "%s/sbxctl.conf.d", vendor);
    return mkdir(path, 0755);
}

static int tear_down(void **state)
{
    char command[256];
    snprintf(command, sizeof(command), "rm -rf %s %s", etc, vendor);
    return system(command);
}

static void expect_error(const char *text, const char *expected)
{
    struct config config;
    char *error = NULL;

    write_file(etc, "sbxctl.conf", text, 0644);
    assert_true(config_load(etc, vendor, &config, &error) < 0);
    assert_non_null(error);
    if (!strstr(error, expected))
        fail_msg("'%s' does not contain '%s'", error, expected);
    free(error);
}

static void nothing_configured_gives_the_built_in_limits(void **state)
{
    struct config config;
    char *error;

    assert_int_equal(config_load(etc, vendor, &config, &error), 0);
    assert_int_equal(config.defaults.memory_bytes, 512 << 20);
    assert_int_equal(config.ceiling.timeout_usec, 300000000);
    assert_false(config.defaults.network);
    assert_true(config.audit_required);
    assert_string_equal(config.engine, "systemd");
    config_release(&config);
}

static void drop_ins_apply_in_the_order_of_their_names_over_both_directories(void **state)
{
    struct config config;
    char *error;

    write_file(etc, "sbxctl.conf", "[Limits]\nTasks=10\n", 0644);
    write_file(vendor, "sbxctl.conf.d/20-b.conf", "[Limits]\nTasks=20\n[Helper]\nEngine=docker\n",
               0644);
    write_file(etc, "sbxctl.conf.d/10-a.conf", "[Limits]\nTasks=30\n", 0644);
    write_file(etc, "sbxctl.conf.d/notes.txt", "not read", 0644);
    assert_int_equal(config_load(etc, vendor, &config, &error), 0);
    assert_int_equal(config.tasks, 20);
    assert_string_equal(config.engine, "docker");
    config_release(&config);

    write_file(etc, "sbxctl.conf.d/20-b.conf", "", 0644);
    assert_int_equal(config_load(etc, vendor, &config, &error), 0);
    assert_int_equal(config.tasks, 30);
    assert_string_equal(config.engine, "systemd");
    config_release(&config);
}

static void languages_are_a_table(void **state)
{
    struct config config;
    char *error;

    write_file(vendor, "sbxctl.conf.d/50-languages.conf",
               "[Language lua]\nInterpreter=lua5.4\nOptions=-W -v\nExtensions=.lua\nShebangs=lua\n",
               0644);
    assert_int_equal(config_load(etc, vendor, &config, &error), 0);
    const struct language *lua = config_find_language(&config, "lua");
    assert_non_null(lua);
    assert_string_equal(lua->interpreter, "lua5.4");
    assert_string_equal(lua->options[1], "-v");
    assert_null(lua->options[2]);
    assert_null(config_find_language(&config, "python"));
    config_release(&config);
}

static void nothing_configured_allows_the_web_and_no_address(void **state)
{
    struct config config;
    char *error;

    assert_int_equal(config_load(etc, vendor, &config, &error), 0);
    const struct config_network *network = &config.network;
    assert_int_equal(network->allowed_names.n, 1);
    assert_string_equal(network->allowed_names.items[0], "*");
    assert_int_equal(network->ports.n, 2);
    assert_int_equal(network->ports.items[1], 443);
    assert_int_equal(network->allowed_addresses.n, 0);
    assert_int_equal(network->connections, 256);
    config_release(&config);
}

static void lists_of_the_network_replace_the_built_in_one_and_then_add(void **state)
{
    struct config config;
    char *error;

    write_file(etc, "sbxctl.conf",
               "[Network]\nAllowedNames=A.example. *.b.example\nDeniedNames=x\nAllowedPorts=8080\n",
               0644);
    write_file(etc, "sbxctl.conf.d/1.conf",
               "[Network]\nAllowedNames=c.example\nDeniedNames=\nDeniedNames=y z\n"
               "AllowedAddresses=10.0.0.0/8 fd00::/8\n",
               0644);
    assert_int_equal(config_load(etc, vendor, &config, &error), 0);
    const struct config_network *network = &config.network;
    assert_int_equal(network->allowed_names.n, 3);
    assert_string_equal(network->allowed_names.items[0], "a.example");
    assert_string_equal(network->allowed_names.items[2], "c.example");
    assert_int_equal(network->denied_names.n, 2);
    assert_string_equal(network->denied_names.items[0], "y");
    assert_int_equal(network->ports.n, 1);
    assert_int_equal(network->ports.items[0], 8080);
    assert_int_equal(network->allowed_addresses.n, 2);
    config_release(&config);

    write_file(etc, "sbxctl.conf.d/1.conf", "[Network]\nAllowedNames=\nAllowedPorts=\n", 0644);
    assert_int_equal(config_load(etc, vendor, &config, &error), 0);
    assert_int_equal(config.network.allowed_names.n, 0);
    assert_int_equal(config.network.ports.n, 0);
    config_release(&config);
}

static void lists_that_no_message_holds_are_refused(void **state)
{
    static char text[64 * 1024];
    size_t used = (size_t)sprintf(text, "[Network]\n");

    for (int i = 0; i < 500; i++)
        used += (size_t)sprintf(text + used, "DeniedNames=n%d.%060d.example\n", i, 0);
    write_file(etc, "sbxctl.conf.d/1.conf", text, 0644);
    expect_error(text, "the lists of [Network] are too long together");
}

static void errors_name_file_and_line(void **state)
{
    expect_error("[Limits]\n\nTasks=many\n", "sbxctl.conf:3: the value of Tasks=");
    expect_error("[Limits]\nTasks=4\n",
                 "sbxctl.conf:2: the value of Tasks= in section [Limits] is out of range");
    expect_error("[Limits]\nTask=4\n", "sbxctl.conf:2: unknown key Task=");
    expect_error("[Limit]\nTasks=40\n", "unknown key Tasks= in section [Limit]");
    expect_error("[Helper]\nAuditRequired=maybe\n", "AuditRequired=");
    expect_error("[Helper]\nEngine=../x\n", "Engine=");
    expect_error("Tasks=40\n", "unknown key");
    expect_error("[Network]\nAllowedNames=a b..c\n", "sbxctl.conf:2: the value of AllowedNames=");
    expect_error("[Network]\nDeniedNames=0x7f.1\n", "DeniedNames=");
    expect_error("[Network]\nAllowedPorts=80 0\n", "AllowedPorts=");
    expect_error("[Network]\nAllowedPorts=65536\n", "AllowedPorts=");
    expect_error("[Network]\nAllowedAddresses=10.0.0.1/8\n", "AllowedAddresses=");
    expect_error("[Network]\nConnections=0\n", "Connections=");
    expect_error("[Limits]\nnonsense\n", "sbxctl.conf:2");
    expect_error("[Language python]\nExtensions=.py\n", "lacks Interpreter=");
    expect_error("[Defaults]\nMemory=4G\n", "above its [Ceiling]");
    expect_error("[Ceiling]\nNetwork=none\n[Defaults]\nNetwork=internet\n", "above its [Ceiling]");
}

static void over_long_lines_and_binary_files_are_refused(void **state)
{
    char text[400] = "[Limits]\n# ";

    memset(text + 11, 'x', 300);
    expect_error(text, "sbxctl.conf:2: line longer");
    char path[256];
    snprintf(path, sizeof(path), "%s/sbxctl.conf", etc);
    int fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
    assert_int_equal(write(fd, "[Limits]\n\0Tasks=40\n", 19), 19);
    close(fd);
    struct config config;
    char *error;
    assert_true(config_load(etc, vendor, &config, &error) < 0);
    assert_non_null(strstr(error, "NUL"));
    free(error);
}

static void fault_65_foreign_writable_or_odd_files_are_refused(void **state)
{
    struct config config;
    char path[256], *error;

    write_file(etc, "sbxctl.conf", "", 0666);
    assert_int_equal(config_load(etc, vendor, &config, &error), -EPERM);
    free(error);
    write_file(etc, "sbxctl.conf", "", 0664);
    assert_int_equal(config_load(etc, vendor, &config, &error), -EPERM);
    free(error);
    write_file(etc, "sbxctl.conf", "", 0644);
    snprintf(path, sizeof(path), "%s/sbxctl.conf", etc);
    if (geteuid() == 0) {
        assert_int_equal(chown(path, 12345, 12345), 0);
        assert_int_equal(config_load(etc, vendor, &config, &error), -EPERM);
        free(error);
    }
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink("/dev/null", path), 0);
    assert_true(config_load(etc, vendor, &config, &error) < 0);
    free(error);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0644), 0);
    assert_true(config_load(etc, vendor, &config, &error) < 0);
    assert_non_null(strstr(error, "not a regular file"));
    free(error);
    assert_int_equal(unlink(path), 0);
    snprintf(path, sizeof(path), "%s/sbxctl.conf.d", etc);
    assert_int_equal(chmod(path, 0777), 0);
    assert_int_equal(config_load(etc, vendor, &config, &error), -EPERM);
    free(error);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(nothing_configured_gives_the_built_in_limits),
        TEST(drop_ins_apply_in_the_order_of_their_names_over_both_directories),
        TEST(languages_are_a_table),
        TEST(nothing_configured_allows_the_web_and_no_address),
        TEST(lists_of_the_network_replace_the_built_in_one_and_then_add),
        TEST(lists_that_no_message_holds_are_refused),
        TEST(errors_name_file_and_line),
        TEST(over_long_lines_and_binary_files_are_refused),
        TEST(fault_65_foreign_writable_or_odd_files_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
