/* Settings files of others: what is added stands where it belongs, and every other byte stays. */
#include "client-fixture.h"

#include <limits.h>
#include <stdint.h>

#include "client/mcp-install.h"
#include "client/say.h"
#include "client/settings-file.h"
#include "client/settings-json.h"
#include "client/settings-toml.h"

#define VALUE "{ \"command\": \"x\" }"

struct addition {
    const char *before, *after; /* NULL: nothing, by @r */
    int r;
};

static void assert_added(const struct addition *a, int r, char *text)
{
    _cleanup_free_ char *owned = text;

    assert_int_equal(r, a->after ? 1 : a->r);
    if (a->after)
        assert_string_equal(owned, a->after);
}

static void json_gets_a_member_and_stays_as_it_is(void **state)
{
    static const struct addition cases[] = {
        { "", "{\n  \"g\": {\n    \"n\": " VALUE "\n  }\n}\n" },
        { "{}", "{\n  \"g\": {\n    \"n\": " VALUE "\n  }\n}" },
        { "{\n\t\"a\": 1\n}\n", "{\n\t\"g\": {\n\t\t\"n\": " VALUE "\n\t},\n\t\"a\": 1\n}\n" },
        { "{\r\n  \"g\": {}\r\n}", "{\r\n  \"g\": {\r\n    \"n\": " VALUE "\r\n  }\r\n}" },
        { "// c\n{ /* { */\n    \"g\": { // }\n        \"o\": [1, 2,],\n    },\n}",
          "// c\n{ /* { */\n    \"g\": {\n        \"n\": " VALUE
          ", // }\n        \"o\": [1, 2,],\n    },\n}" },
        { "{\"a\": {\"g\": 1}, \"g\": {\"o\": \"}\\\"\"}}",
          "{\"a\": {\"g\": 1}, \"g\": {\n    \"n\": " VALUE ",\"o\": \"}\\\"\"}}" },
        { "\xef\xbb\xbf{}", "\xef\xbb\xbf{\n  \"g\": {\n    \"n\": " VALUE "\n  }\n}" },
        { "{\"g\": {\"n\": {\"env\": {}, \"command\": \"x\"}}}", NULL, 0 },
        { "{\"g\": {\"n\": {\"command\": \"y\"}}}", NULL, -EEXIST },
        { "{\"g\": {\"\\u006e\": 1}}", NULL, -EEXIST },
        { "{\"g\": {}, \"g\": {}}", NULL, -ENOTUNIQ },
        { "{\"g\": {\"n\": 1, \"n\": 2}}", NULL, -ENOTUNIQ },
        { "{\"g\": []}", NULL, -EBADMSG },
        { "[]", NULL, -EBADMSG },
        { "{\"g\": {}", NULL, -EBADMSG },
        { "{\"g\": {}} x", NULL, -EBADMSG },
        { "{\"g\": {} /* }", NULL, -EBADMSG },
        { "{\"a\" 1}", NULL, -EBADMSG },
        { "// nothing else", NULL, -EBADMSG },
    };

    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        char *text = NULL;
        int r = settings_json_add(cases[i].before, strlen(cases[i].before), "g", "n", VALUE, &text);
        assert_added(&cases[i], r, text);
    }
}

static void what_was_added_is_there(void **state)
{
    static const char *const cases[] = { "", "{\"g\":{\"a\":1}}", "{ // x\n\"b\":2,}" };

    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        _cleanup_free_ char *text = NULL, *again = NULL;
        assert_int_equal(settings_json_add(cases[i], strlen(cases[i]), "g", "n", VALUE, &text), 1);
        assert_int_equal(settings_json_add(text, strlen(text), "g", "n", VALUE, &again), 0);
    }
}

static void toml_gets_a_table_at_its_end(void **state)
{
#define TABLE "[g.n]\ncommand = 1\n"
    static const struct addition cases[] = {
        { "", TABLE },
        { "a = 1", "a = 1\n\n" TABLE },
        { "a = 1 # g.n\n[g.o]\n", "a = 1 # g.n\n[g.o]\n\n" TABLE },
        { "[g.nn]\n[x.g.n]\n", "[g.nn]\n[x.g.n]\n\n" TABLE },
        { "[a]\n" TABLE "x = 2\n", NULL, 0 },
        { "[ g . \"n\" ]\ncommand = 2\n", NULL, -EEXIST },
        { "[g.n.env]\n", NULL, -EEXIST },
        { "[[g.n]]\n", NULL, -EEXIST },
        { "g = {}\n", NULL, -EEXIST },
        { "g.o.x = 1\n", NULL, -EEXIST },
        { "[g]\nn = {}\n", NULL, -EEXIST },
        { "[ g ]\n'n'.x = 1\n", NULL, -EEXIST },
        { "[g]\nnn = 1\n[a]\nn = 1\n", "[g]\nnn = 1\n[a]\nn = 1\n\n" TABLE },
    };

    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        char *text = NULL;
        int r = settings_toml_add(cases[i].before, strlen(cases[i].before), "g", "n",
                                  "command = 1\n", &text);
        assert_added(&cases[i], r, text);
    }
}

/* ---- Files ---- */

/* Everything else has its directory made, and is written once. */
static int install(const char *client)
{
    char directory[128];

    assert_non_null(getcwd(directory, sizeof(directory)));
    setenv("HOME", directory, 1);
    unsetenv("XDG_CONFIG_HOME");
    unsetenv("CODEX_HOME");
    unsetenv("CLAUDE_CONFIG_DIR");
    return mcp_install(client, false);
}

/* The same with what it prints in the file "printed", of which the command's path is cut off. */
static int install_printing(const char *client)
{
    _cleanup_close_ int own = dup(STDOUT_FILENO);
    _cleanup_close_ int fd = open("printed", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    assert_true(own >= 0 && fd >= 0);
    fflush(stdout);
    assert_true(dup2(fd, STDOUT_FILENO) >= 0);
    int status = install(client);
    fflush(stdout);
    assert_true(dup2(own, STDOUT_FILENO) >= 0);
    const char *command = strstr(read_file("printed"), "\"command\"");
    assert_non_null(command);
    assert_int_equal(ftruncate(fd, command - read_file("printed")), 0);
    return status;
}

static bool exists(const char *path)
{
    return access(path, F_OK) == 0;
}

static void every_client_gets_its_file(void **state)
{
    static const char *const cases[][2] = {
        { "claude", ".config/Claude/claude_desktop_config.json" },
        { "claude-code", ".claude.json" },
        { "vscode", ".config/Code/User/mcp.json" },
        { "zed", ".config/zed/settings.json" },
        { "cursor", ".cursor/mcp.json" },
        { "codex", ".codex/config.toml" },
        { "gemini", ".gemini/settings.json" },
    };

    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        _cleanup_free_ char *backup = NULL, *first = NULL;
        assert_true(mcp_install_knows(cases[i][0]));
        assert_non_null(strstr(mcp_install_clients, cases[i][0]));
        assert_int_equal(install(cases[i][0]), 0);
        first = strdup(read_file(cases[i][1]));
        assert_non_null(strstr(first, "sbxctl"));
        assert_int_equal(install(cases[i][0]), 0);
        assert_string_equal(read_file(cases[i][1]), first);
        assert_true(asprintf(&backup, "%s.before-sbxctl", cases[i][1]) > 0);
        assert_false(exists(backup));
    }
    assert_false(mcp_install_knows("emacs"));
}

static void old_file_is_kept_and_the_mode_stays(void **state)
{
    struct stat st;

    write_file(".claude.json", "{\"a\": 1}\n");
    assert_int_equal(chmod(".claude.json", 0640), 0);
    assert_int_equal(install("claude-code"), 0);
    assert_string_equal(read_file(".claude.json.before-sbxctl"), "{\"a\": 1}\n");
    assert_int_equal(stat(".claude.json", &st), 0);
    assert_int_equal(st.st_mode & 07777, 0640);
    assert_int_equal(stat(".claude.json.before-sbxctl", &st), 0);
    assert_int_equal(st.st_mode & 07777, 0640);

    write_file(".claude.json", "{\"b\": 1}\n");
    assert_int_equal(install("claude-code"), 0);
    assert_string_equal(read_file(".claude.json.before-sbxctl"), "{\"a\": 1}\n");
    assert_string_equal(read_file(".claude.json.before-sbxctl.2"), "{\"b\": 1}\n");
}

static void what_is_not_understood_is_left_alone(void **state)
{
    static const char *const cases[] = { "{", "{\"mcpServers\": {\"sbxctl\": 1}}", "[1]" };

    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        write_file(".claude.json", cases[i]);
        assert_int_not_equal(install_printing("claude-code"), 0);
        assert_string_equal(read_file(".claude.json"), cases[i]);
        assert_string_equal(read_file("printed"),
                            "{\n  \"mcpServers\": {\n    \"sbxctl\": { \"type\": \"stdio\", ");
        assert_false(exists(".claude.json.before-sbxctl"));
    }
}

/* Who keeps settings elsewhere goes on doing so. */
static void link_is_followed_to_a_file_of_ones_own(void **state)
{
    struct stat st;

    assert_int_equal(mkdir("dotfiles", 0700), 0);
    write_file("dotfiles/claude", "{}");
    assert_int_equal(symlink("dotfiles/claude", ".claude.json"), 0);
    assert_int_equal(install("claude-code"), 0);
    assert_non_null(strstr(read_file("dotfiles/claude"), "sbxctl"));
    assert_int_equal(lstat(".claude.json", &st), 0);
    assert_true(S_ISLNK(st.st_mode));
}

static void link_to_nothing_or_elsewhere_is_refused(void **state)
{
    assert_int_equal(symlink("nowhere", ".claude.json"), 0);
    assert_int_not_equal(install("claude-code"), 0);
    assert_false(exists("nowhere"));

    assert_int_equal(mkdir("public", 0700), 0);
    assert_int_equal(chmod("public", 0777), 0);
    write_file("public/claude", "{}");
    assert_int_equal(unlink(".claude.json"), 0);
    assert_int_equal(symlink("public/claude", ".claude.json"), 0);
    assert_int_not_equal(install("claude-code"), 0);
    assert_string_equal(read_file("public/claude"), "{}");

    assert_int_equal(unlink(".claude.json"), 0);
    assert_int_equal(mkfifo(".claude.json", 0600), 0);
    assert_int_not_equal(install("claude-code"), 0);
}

static void file_that_changes_meanwhile_is_left_alone(void **state)
{
    _cleanup_(settings_file_release) struct settings_file file = {};
    _cleanup_free_ char *backup = NULL;
    char path[PATH_MAX];

    write_file("settings", "{}");
    assert_non_null(realpath("settings", path));
    assert_int_equal(settings_file_read(path, &file), 0);
    write_file("settings", "{\"other\": 1}");
    assert_int_not_equal(settings_file_replace(&file, "{\"ours\": 1}", &backup), 0);
    assert_string_equal(read_file("settings"), "{\"other\": 1}");
}

#define T(test) cmocka_unit_test_setup_teardown(test, enter_scratch, leave_scratch)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_gets_a_member_and_stays_as_it_is),
        cmocka_unit_test(what_was_added_is_there),
        cmocka_unit_test(toml_gets_a_table_at_its_end),
        T(every_client_gets_its_file),
        T(old_file_is_kept_and_the_mode_stays),
        T(what_is_not_understood_is_left_alone),
        T(link_is_followed_to_a_file_of_ones_own),
        T(link_to_nothing_or_elsewhere_is_refused),
        T(file_that_changes_meanwhile_is_left_alone),
    };

    /* A piece to add is printed to where the results of the tests go. */
    say_mode.quiet = true;
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
