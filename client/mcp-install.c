/* Which assistant keeps its servers where, and what is added there, see mcp-install.h. */
#include "client/mcp-install.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/exit-status.h"
#include "client/say.h"
#include "client/settings-file.h"
#include "client/settings-json.h"
#include "client/settings-toml.h"
#include "common/cleanup.h"
#include "common/json.h"
#include "config-paths.h"

#define SERVER "sbxctl"

const char mcp_install_clients[] = "claude, claude-code, vscode, zed, cursor, codex, gemini";

/* As the assistants' own manuals have it. The path is below the directory that the variable names,
 * or else below @base in the user's home. */
static const struct client {
    const char *name, *title;
    const char *variable, *base, *path;
    const char *group; /* the object, or the table, with the servers */
    const char *first; /* a member that goes before the command, as JSON, or "" */
    bool is_toml;
} clients[] = {
    { "claude", "Claude Desktop", "XDG_CONFIG_HOME", ".config", "Claude/claude_desktop_config.json",
      "mcpServers", "", false },
    { "claude-code", "Claude Code", "CLAUDE_CONFIG_DIR", "", ".claude.json", "mcpServers",
      "\"type\": \"stdio\", ", false },
    { "vscode", "Visual Studio Code", "XDG_CONFIG_HOME", ".config", "Code/User/mcp.json", "servers",
      "\"type\": \"stdio\", ", false },
    { "zed", "Zed", "XDG_CONFIG_HOME", ".config", "zed/settings.json", "context_servers",
      "\"source\": \"custom\", ", false },
    { "cursor", "Cursor", NULL, "", ".cursor/mcp.json", "mcpServers", "\"type\": \"stdio\", ",
      false },
    { "codex", "Codex", "CODEX_HOME", ".codex", "config.toml", "mcp_servers", "", true },
    { "gemini", "Gemini CLI", NULL, "", ".gemini/settings.json", "mcpServers", "", false },
};

static const struct client *find_client(const char *name)
{
    for (size_t i = 0; i < ELEMENTS(clients); i++)
        if (strcmp(clients[i].name, name) == 0)
            return &clients[i];
    return NULL;
}

bool mcp_install_knows(const char *client)
{
    return find_client(client);
}

static int fail_memory(void)
{
    return say_failure_errno(-ENOMEM, "cannot change the settings");
}

static int find_path(const struct client *client, char **ret)
{
    const char *directory = client->variable ? getenv(client->variable) : NULL;
    const char *home = getenv("HOME");
    int n;

    if (directory && *directory == '/')
        n = asprintf(ret, "%s/%s", directory, client->path);
    else if (home && *home == '/')
        n = asprintf(ret, "%s/%s%s%s", home, client->base, *client->base ? "/" : "", client->path);
    else
        return say_failure(EXIT_OURS, "Failed", "set HOME", "your home directory is not known");
    return n < 0 ? fail_memory() : 0;
}

/* The whole path, since an assistant that the desktop starts may have another PATH; as JSON, which
 * TOML reads the same. */
static int quote_command(char **ret)
{
    _cleanup_json_ json_object *string = json_object_new_string(SBXCTL_PROGRAM);

    *ret = string ? strdup(json_text(string, NULL)) : NULL;
    return *ret ? 0 : fail_memory();
}

/* The value in JSON, or the table's lines. */
static int make_entry(const struct client *client, char **ret)
{
    _cleanup_free_ char *command = NULL;
    int r = quote_command(&command), n;

    if (r != 0)
        return r;
    n = client->is_toml
            ? asprintf(ret, "command = %s\nargs = [\"mcp\"]\n", command)
            : asprintf(ret, "{ %s\"command\": %s, \"args\": [\"mcp\"] }", client->first, command);
    return n < 0 ? fail_memory() : 0;
}

static int add(const struct client *client, const char *text, size_t size, const char *entry,
               char **ret)
{
    return client->is_toml ? settings_toml_add(text, size, client->group, SERVER, entry, ret)
                           : settings_json_add(text, size, client->group, SERVER, entry, ret);
}

/* What there would be in a file of its own. */
static int print_piece(const struct client *client, const char *entry)
{
    _cleanup_free_ char *text = NULL;

    if (add(client, "", 0, entry, &text) < 0)
        return fail_memory();
    fputs(text, stdout);
    return print_end();
}

/* The file is left alone, and its owner gets what to do by hand. */
static int refuse(const struct client *client, const char *path, const char *entry, int r)
{
    _cleanup_free_ char *shown = displayed(path);
    const char *why = r == -EEXIST     ? "has a server " SERVER " that is another one"
                      : r == -ENOTUNIQ ? "has the same name twice"
                                       : "is not understood";

    if (r == -ENOMEM)
        return fail_memory();
    (void)print_piece(client, entry);
    return say_failure(EXIT_OURS, "Failed", "put what is printed into it by hand",
                       "%s %s, so it was left as it is", shown, why);
}

static int change(const struct client *client, const char *path, const char *entry)
{
    _cleanup_(settings_file_release) struct settings_file file = {};
    _cleanup_free_ char *text = NULL, *backup = NULL, *shown = NULL, *shown_backup = NULL;

    int r = settings_file_read(path, &file);
    if (r != 0)
        return r;
    r = add(client, file.text, file.size, entry, &text);
    if (r < 0)
        return refuse(client, file.path, entry, r);
    shown = displayed(file.path);
    if (r == 0) {
        say("%s has the server already, in %s", client->title, shown);
        return 0;
    }
    r = settings_file_replace(&file, text, &backup);
    if (r != 0)
        return r;
    say("%s has the server from its next start on: %s", client->title, shown);
    if (backup) {
        shown_backup = displayed(backup);
        say("the file as it was: %s", shown_backup);
    }
    say("a skill that tells it when to use it, for where it looks for skills: " SBXCTL_SKILL);
    return 0;
}

int mcp_install(const char *client_name, bool print)
{
    const struct client *client = find_client(client_name);
    _cleanup_free_ char *path = NULL, *entry = NULL, *shown = NULL;

    if (!client)
        return EXIT_USAGE;
    int r = find_path(client, &path);
    if (r == 0)
        r = make_entry(client, &entry);
    if (r != 0 || !print)
        return r != 0 ? r : change(client, path, entry);
    shown = displayed(path);
    say("to be added to %s:", shown);
    return print_piece(client, entry);
}
