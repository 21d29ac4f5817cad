/* Packages as the broker's pure parts see them: configuration, admission, environment, the key of a
 * layer, and what an installer says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "broker/digest.h"
#include "broker/install-events.h"
#include "broker/layer-key.h"
#include "broker/policy-environment.h"
#include "broker/policy-packages.h"
#include "common/cleanup.h"

/* The tests fill structs that own their strings with literals that nobody frees. */
#ifdef __clang__
#pragma clang diagnostic ignored "-Wincompatible-pointer-types-discards-qualifiers"
#else
#pragma GCC diagnostic ignored "-Wdiscarded-qualifiers"
#endif

static struct config config;
static struct config_packages *packages = &config.packages;
static struct request request;
static struct plan plan;
static struct refusal refusal;
static struct language python = { .name = "python" }, node = { .name = "node" },
                       shell = { .name = "shell" };
static char *no_strings[] = { NULL };

static int set_up(void **state)
{
    config = (struct config){ .packages = { .layer_bytes = 1 << 20, .user_bytes = 1 << 20 } };
    request = (struct request){ .arguments = no_strings, .environment = no_strings };
    plan = (struct plan){ .engine = "systemd", .language = &python };
    refusal = (struct refusal){ 0 };
    return 0;
}

static int tear_down(void **state)
{
    config_packages_release(packages);
    plan_release(&plan);
    return 0;
}

/* ---- configuration */

static void indexes_are_urls_and_for_python_directories(void **state)
{
    static const char *const wrong[] = {
        "",
        "pypi.org",
        "ftp://a/",
        "https://",
        "https://a:0/",
        "https://a:",
        "https://a:x/",
        "https://[::1",
        "https://u:p@a/",
        "https://a b/",
        "https://1.2",
        "https://a:65536",
        "wheels",
        "/srv/../wheels",
        "//srv",
        "/",
    };

    for (size_t i = 0; i < ELEMENTS(wrong); i++)
        if (config_packages_set_index(&packages->index, wrong[i]) != -EINVAL)
            fail_msg("'%s' was taken", wrong[i]);
    assert_int_equal(config_packages_set_index(&packages->index, "https://Mirror.example/s"), 0);
    assert_string_equal(packages->index.host, "mirror.example");
    assert_int_equal(packages->index.port, 443);
    assert_int_equal(config_packages_set_index(&packages->index, "http://[::1]:8080/"), 0);
    assert_string_equal(packages->index.host, "::1");
    assert_int_equal(packages->index.port, 8080);
    assert_int_equal(config_packages_set_index(&packages->index, "/srv/wheels"), 0);
    assert_true(packages->index.is_directory);
    assert_int_equal(config_packages_set_node_index(&packages->node_index, "/srv/wheels"), -EINVAL);
}

static void assert_reaches(enum ecosystem ecosystem, const char *names, const char *addresses)
{
    struct egress_start start;
    char text[256] = "", prefix[IP_PREFIX_TEXT_MAX];

    assert_int_equal(config_packages_start(packages, ecosystem, "ab", &start), 0);
    for (size_t i = 0; i < start.allowed_names.n; i++)
        strcat(strcat(text, start.allowed_names.items[i]), " ");
    assert_string_equal(text, names);
    text[0] = '\0';
    for (size_t i = 0; i < start.allowed_addresses.n; i++) {
        ip_prefix_format(&start.allowed_addresses.items[i], prefix);
        strcat(strcat(text, prefix), " ");
    }
    assert_string_equal(text, addresses);
    assert_int_equal(start.granted.n + start.denied_names.n, 0);
    config_packages_start_release(&start);
}

static void installation_reaches_its_index_and_nothing_else(void **state)
{
    assert_int_equal(config_packages_complete(packages), 0);
    assert_reaches(ECOSYSTEM_PYTHON, "pypi.org files.pythonhosted.org ", "");
    assert_reaches(ECOSYSTEM_NODE, "registry.npmjs.org ", "");
    assert_int_equal(config_packages_set_index(&packages->index, "http://10.0.0.7:3141/a"), 0);
    assert_reaches(ECOSYSTEM_PYTHON, "10.0.0.7 ", "10.0.0.7 ");
    assert_int_equal(config_packages_set_index(&packages->index, "https://index.lan/"), 0);
    assert_int_equal(host_list_add(&packages->hosts, "files.lan"), 0);
    assert_reaches(ECOSYSTEM_PYTHON, "index.lan files.lan ", "0.0.0.0/0 ::/0 ");
}

static void hosts_of_an_index_may_be_private_as_it_is(void **state)
{
    assert_int_equal(config_packages_complete(packages), 0);
    assert_int_equal(host_list_add(&packages->hosts, "10.0.0.8"), 0);
    assert_reaches(ECOSYSTEM_NODE, "registry.npmjs.org 10.0.0.8 ", "10.0.0.8 ");
    assert_int_equal(config_packages_set_index(&packages->index, "http://10.0.0.7/"), 0);
    assert_reaches(ECOSYSTEM_PYTHON, "10.0.0.7 10.0.0.8 ", "10.0.0.7 10.0.0.8 ");
    assert_int_equal(host_list_add(&packages->hosts, "files.lan"), 0);
    assert_reaches(ECOSYSTEM_PYTHON, "10.0.0.7 10.0.0.8 files.lan ",
                   "10.0.0.7 10.0.0.8 0.0.0.0/0 ::/0 ");
    assert_reaches(ECOSYSTEM_NODE, "registry.npmjs.org 10.0.0.8 files.lan ", "10.0.0.8 ");
}

static void installation_uses_the_port_of_its_index(void **state)
{
    struct egress_start start;

    assert_int_equal(config_packages_set_index(&packages->index, "http://10.0.0.7:3141/a"), 0);
    assert_int_equal(config_packages_complete(packages), 0);
    assert_int_equal(config_packages_start(packages, ECOSYSTEM_PYTHON, "ab", &start), 0);
    assert_int_equal(start.ports.n, 1);
    assert_int_equal(start.ports.items[0], 3141);
    config_packages_start_release(&start);
}

static void name_behind_which_clouds_keep_secrets_is_no_index(void **state)
{
    static const char *const secret[] = { "169.254.169.254", "168.63.129.16", "fd00:ec2::254" };
    struct ip_address metadata;
    struct egress_start start;

    assert_int_equal(config_packages_set_index(&packages->index, "http://index.lan/"), 0);
    assert_int_equal(config_packages_complete(packages), 0);
    assert_int_equal(config_packages_start(packages, ECOSYSTEM_PYTHON, "ab", &start), 0);
    for (size_t i = 0; i < ELEMENTS(secret); i++) {
        assert_true(ip_address_parse(secret[i], &metadata));
        assert_non_null(ip_prefix_list_find(&start.denied_addresses, &metadata));
    }
    config_packages_start_release(&start);
}

static void layer_larger_than_all_of_a_user_is_no_configuration(void **state)
{
    packages->layer_bytes = packages->user_bytes + 1;
    assert_int_equal(config_packages_complete(packages), -ERANGE);
}

/* ---- admission */

static void ask_for(char **names)
{
    request.packages = names;
    for (request.n_packages = 0; names[request.n_packages];)
        request.n_packages++;
}

static void assert_refused(const char *reason)
{
    assert_int_equal(policy_packages(&config, &request, &plan, &refusal), -EPERM);
    assert_string_equal(refusal.field, "packages");
    assert_string_equal(refusal.reason, reason);
}

static void packages_are_normalised_and_sorted_and_need_an_approval(void **state)
{
    char text[POLICY_PACKAGES_TEXT];

    assert_int_equal(config_packages_complete(packages), 0);
    ask_for((char *[]){ "Pandas < 3", "NumPy", NULL });
    assert_int_equal(policy_packages(&config, &request, &plan, &refusal), 0);
    assert_string_equal(plan.packages[0].text, "numpy");
    assert_string_equal(plan.packages[1].text, "pandas<3");
    assert_int_equal(plan.approvals, APPROVAL_PACKAGES);
    assert_string_equal(policy_packages_names(&plan, text), "numpy pandas");
}

static void run_without_packages_needs_none(void **state)
{
    char text[POLICY_PACKAGES_TEXT];

    ask_for(no_strings);
    assert_int_equal(policy_packages(&config, &request, &plan, &refusal), 0);
    assert_int_equal(plan.approvals, 0);
    assert_string_equal(policy_packages_names(&plan, text), "none");
}

static void names_that_are_too_many_to_show_are_counted(void **state)
{
    char names[PACKAGES_MAX][32], *list[PACKAGES_MAX + 1] = { NULL }, text[POLICY_PACKAGES_TEXT];

    for (int i = 0; i < PACKAGES_MAX; i++) {
        snprintf(names[i], sizeof(names[i]), "a-package-with-a-name-%02d", i);
        list[i] = names[i];
    }
    assert_int_equal(config_packages_complete(packages), 0);
    ask_for(list);
    assert_int_equal(policy_packages(&config, &request, &plan, &refusal), 0);
    assert_true(strlen(policy_packages_names(&plan, text)) < POLICY_PACKAGES_TEXT);
    assert_non_null(strstr(text, "a-package-with-a-name-19 and 30 more"));
}

static void lists_of_the_administrator_decide(void **state)
{
    packages->has_allowed = true;
    assert_int_equal(config_packages_add_names(&packages->allowed, "numpy @tea/*"), 0);
    assert_int_equal(config_packages_add_names(&packages->denied, "Left.Pad"), 0);
    assert_int_equal(config_packages_add_names(&packages->denied, "http://x"), -EINVAL);
    assert_int_equal(config_packages_complete(packages), 0);
    ask_for((char *[]){ "numpy", "scipy", NULL });
    assert_refused("The package 'scipy' is not in Allowed=.");
    plan_release(&plan);
    plan = (struct plan){ .engine = "systemd", .language = &python };
    ask_for((char *[]){ "left_pad", NULL });
    assert_refused("The package 'left-pad' is refused by Denied=Left.Pad.");
}

static void other_languages_and_the_cloud_have_no_packages(void **state)
{
    ask_for((char *[]){ "numpy", NULL });
    plan.language = &shell;
    assert_refused("Packages can be had for Python and Node only, not for shell.");
    plan.language = &node;
    plan.approvals = APPROVAL_CLOUD;
    assert_refused("The engine 'systemd' is in the cloud, and has no packages of this machine.");
    plan.approvals = APPROVAL_IMAGE;
    assert_refused("Packages are installed by the images of this machine's list only.");
    plan.approvals = 0;
    request.require_hashes = true;
    assert_refused("Packages of Node are not named with hashes.");
}

static const char *variable(const char *name)
{
    for (size_t i = 0; i < plan.n_environment; i++)
        if (strncmp(plan.environment[i], name, strlen(name)) == 0)
            return plan.environment[i] + strlen(name);
    return NULL;
}

static void packages_come_before_the_callers_modules_and_after_all_programs(void **state)
{
    request.environment = (char *[]){ "PYTHONPATH=/mine", NULL };
    request.n_environment = 1;
    ask_for((char *[]){ "numpy", NULL });
    assert_int_equal(config_packages_complete(packages), 0);
    assert_int_equal(policy_packages(&config, &request, &plan, &refusal), 0);
    assert_int_equal(policy_environment(&request, &plan), 0);
    assert_string_equal(variable("PYTHONPATH="), "/packages:/mine:/usr/lib/sbxctl/inside");
    assert_string_equal(variable("PATH="), "/usr/local/bin:/usr/bin:/bin:/packages/bin");
}

static void installer_gets_no_variable_of_anybody(void **state)
{
    char *environment[INSTALLER_ENVIRONMENT_MAX];
    size_t n = installer_environment(false, environment);

    for (size_t i = 0; i < n; i++)
        assert_null(strcasestr(environment[i], "proxy"));
    assert_true(installer_environment(true, environment) > n);
    assert_true(installer_environment(true, environment) <= INSTALLER_ENVIRONMENT_MAX);
}

/* ---- the key */

static struct package some[] = { { .name = "numpy", .text = "numpy<2" } };

static void assert_other_key(const struct layer_parts *parts, const char *than)
{
    char key[LAYER_KEY_LENGTH + 1];

    assert_int_equal(layer_key_make(parts, key), 0);
    assert_true(layer_key_valid(key));
    assert_string_not_equal(key, than);
}

static void key_changes_with_all_that_a_layer_depends_on(void **state)
{
    const struct layer_parts parts = { .engine = "docker",
                                       .system = "sha256:0",
                                       .index = "https://pypi.org/simple/",
                                       .packages = some,
                                       .n_packages = 1 };
    char key[LAYER_KEY_LENGTH + 1], again[LAYER_KEY_LENGTH + 1];
    struct package others[] = { { .name = "numpy", .text = "numpy<3" } };
    struct layer_parts other;

    assert_int_equal(layer_key_make(&parts, key), 0);
    assert_int_equal(layer_key_make(&parts, again), 0);
    assert_string_equal(key, again);
#define OTHER(member, value)           \
    do {                               \
        other = parts;                 \
        other.member = (value);        \
        assert_other_key(&other, key); \
    } while (0)
    OTHER(ecosystem, ECOSYSTEM_NODE);
    OTHER(engine, "podman");
    OTHER(system, "sha256:1");
    OTHER(index, "/srv/wheels");
    OTHER(only_binary, true);
    OTHER(require_hashes, true);
    OTHER(packages, others);
    OTHER(n_packages, 0);
}

/* ---- what an installer says */

static int parse(const char *line, struct install_event *event)
{
    return install_event_parse(line, strlen(line), event);
}

static void make_program(const char *root, const char *name, const char *content)
{
    char path[128];

    snprintf(path, sizeof(path), "%s/usr/bin/%s", root, name);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    fputs(content, file);
    fclose(file);
}

static void assert_interpreter(const char *root, const char *name, const char *form)
{
    _cleanup_free_ char *found = NULL;

    assert_int_equal(layer_interpreter(root, name, &found), 0);
    if (fnmatch(form, found + strlen(root), 0) != 0)
        fail_msg("'%s' is not of the form '%s'", found, form);
}

static void another_version_of_an_interpreter_is_another_system(void **state)
{
    char root[] = "/tmp/test-packages-XXXXXX", command[64], link[64];
    _cleanup_free_ char *none = NULL;

    assert_non_null(mkdtemp(root));
    snprintf(command, sizeof(command), "mkdir -p %s/usr/bin", root);
    assert_int_equal(system(command), 0);
    assert_int_equal(layer_interpreter(root, "node", &none), -ENOENT);
    make_program(root, "node", "20");
    assert_interpreter(root, "node", "/usr/bin/node 2 1[0-9]*");
    make_program(root, "node", "22.1");
    assert_interpreter(root, "node", "/usr/bin/node 4 1[0-9]*");
    make_program(root, "python3.13", "");
    snprintf(link, sizeof(link), "%s/usr/bin/python3", root);
    assert_int_equal(symlink("python3.13", link), 0);
    assert_interpreter(root, "python3", "/usr/bin/python3.13");
    snprintf(command, sizeof(command), "rm -r %s", root);
    assert_int_equal(system(command), 0);
}

static void events_are_understood(void **state)
{
    struct install_event event;

    assert_int_equal(parse("{\"event\":\"progress\",\"phase\":\"download\",\"current\":1,"
                           "\"total\":2,\"name\":\"a\\u001b[2J\"}",
                           &event),
                     0);
    assert_int_equal(event.type, INSTALL_EVENT_PROGRESS);
    assert_string_equal(event.progress.phase, "download");
    assert_null(strchr(event.progress.name, '\x1b'));
    assert_int_equal(parse("{\"event\":\"error\",\"kind\":\"hash\",\"message\":\"a\\nb\"}", &event),
                     0);
    assert_null(strchr(event.failure.reason, '\n'));
    assert_int_equal(parse("{\"event\":\"done\",\"more\":1}", &event), 0);
    assert_int_equal(event.type, INSTALL_EVENT_DONE);
    assert_int_equal(parse("Traceback (most recent call last):", &event), 0);
    assert_int_equal(event.type, INSTALL_EVENT_NOTHING);
    assert_int_equal(parse("{\"event\":\"party\"}", &event), 0);
    assert_int_equal(event.type, INSTALL_EVENT_NOTHING);
}

static void events_that_are_not_well_formed_are_none(void **state)
{
    static const char *const wrong[] = {
        "{",
        "{}",
        "{\"event\":1}",
        "{\"event\":\"progress\"}",
        "{\"event\":\"progress\",\"phase\":\"a b\"}",
        "{\"event\":\"progress\",\"phase\":\"resolve\",\"current\":-1}",
        "{\"event\":\"progress\",\"phase\":\"a-phase-with-a-long-name\"}",
        "{\"event\":\"error\",\"kind\":\"hash\"}",
        "{\"event\":\"error\",\"message\":\"x\"}",
        "{\"event\":\"resolved\"}",
        "{\"event\":\"resolved\",\"packages\":[1]}",
        "{\"event\":\"resolved\",\"packages\":[{\"name\":\"a\"}]}",
    };
    struct install_event event;

    for (size_t i = 0; i < ELEMENTS(wrong); i++)
        if (parse(wrong[i], &event) != -EBADMSG)
            fail_msg("'%s' was taken", wrong[i]);
}

static void what_came_along_is_held_against_the_list(void **state)
{
    struct install_failure failure;
    struct install_event event;

    assert_int_equal(parse("{\"event\":\"resolved\",\"packages\":[{\"name\":\"Tea\",\"version\":"
                           "\"1\"},{\"name\":\"left_pad\",\"version\":\"1\",\"hash\":\"x\"}]}",
                           &event),
                     0);
    assert_true(install_is_allowed(ECOSYSTEM_PYTHON, no_strings, event.resolved, &failure));
    assert_false(install_is_allowed(ECOSYSTEM_PYTHON, (char *[]){ "left-pad", NULL },
                                    event.resolved, &failure));
    assert_string_equal(failure.kind, "denied");
    assert_string_equal(failure.package, "left_pad");
    json_object_put(event.resolved);
}

static void old_names_of_node_may_come_along(void **state)
{
    struct install_failure failure;
    struct install_event event;

    assert_int_equal(parse("{\"event\":\"resolved\",\"packages\":[{\"name\":\"JSONStream\","
                           "\"version\":\"1.3.5\"}]}",
                           &event),
                     0);
    assert_true(install_is_allowed(ECOSYSTEM_NODE, no_strings, event.resolved, &failure));
    assert_false(install_is_allowed(ECOSYSTEM_NODE, (char *[]){ "jsonstream", NULL },
                                    event.resolved, &failure));
    assert_string_equal(failure.package, "JSONStream");
    json_object_put(event.resolved);
}

#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(indexes_are_urls_and_for_python_directories),
        T(installation_reaches_its_index_and_nothing_else),
        T(hosts_of_an_index_may_be_private_as_it_is),
        T(installation_uses_the_port_of_its_index),
        T(name_behind_which_clouds_keep_secrets_is_no_index),
        T(layer_larger_than_all_of_a_user_is_no_configuration),
        T(packages_are_normalised_and_sorted_and_need_an_approval),
        T(run_without_packages_needs_none),
        T(names_that_are_too_many_to_show_are_counted),
        T(lists_of_the_administrator_decide),
        T(other_languages_and_the_cloud_have_no_packages),
        T(packages_come_before_the_callers_modules_and_after_all_programs),
        T(installer_gets_no_variable_of_anybody),
        T(key_changes_with_all_that_a_layer_depends_on),
        T(another_version_of_an_interpreter_is_another_system),
        T(events_are_understood),
        T(events_that_are_not_well_formed_are_none),
        T(what_came_along_is_held_against_the_list),
        T(old_names_of_node_may_come_along),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
