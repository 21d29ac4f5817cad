/* Hints about modules, packages and programs that are not there. */
#include "broker/hint-internal.h"
#include "broker/hint-file.h"
#include "broker/package-names.h"
#include "common/cleanup.h"

#include <stdio.h>
#include <string.h>

/* Says how to get a package, with @what before it, which ends in a comma or colon. */
bool hint_with(const struct hint_case *c, enum ecosystem ecosystem, const char *package,
               const char *what)
{
    const struct facts *facts = c->facts;
    char normal[PACKAGE_NAME_MAX + 1];
    const char *rule;

    if (!package_normalise_name(ecosystem, package, normal))
        return false;
    if (!hint_is_language(facts, ecosystem == ECOSYSTEM_PYTHON ? "python" : "node"))
        return false;
    if (facts->cloud)
        return hint_say(c,
                        "%s choose a --template that has it, or an --engine of this machine and "
                        "--with %.60s",
                        what, normal);
    if (!facts->may_have_packages || facts->ecosystem != ecosystem)
        return false;
    if (facts->packages && !package_is_allowed(ecosystem, facts->packages->allowed,
                                               facts->packages->denied, normal, &rule))
        return hint_say(c,
                        "%s the package %.60s would have it, and the administrator does not allow "
                        "that.",
                        what, normal);
    return hint_say(c, "%s --with %.100s", what, normal);
}

/* The script, or a file that was given with it, is called like the module, and so is found in its
 * place. */
static bool say_hidden(const struct hint_case *c, const char *module)
{
    char file[HINT_NAME_MAX + 4];

    snprintf(file, sizeof(file), "%.*s.py", (int)strcspn(module, "."), module);
    bool hides = c->facts->script_name && strcmp(c->facts->script_name, file) == 0;
    for (size_t i = 0; i < c->facts->n_inputs && !hides; i++)
        hides = strcmp(c->facts->inputs[i].name, file) == 0;
    return hides && hint_say(c, "%.80s hides the module of that name: rename it.", file);
}

bool hint_module(const struct hint_case *c)
{
    const char *own = python_own_module_advice(c->name), *package = package_of_module(c->name);
    char what[HINT_MAX];

    if (hint_span_has(c->complaint->text, "is not a package") ||
        hint_span_has(c->complaint->text, "partially initialized"))
        return say_hidden(c, c->name);
    if (own)
        return hint_say(c, "%s", own);
    if (package) {
        snprintf(what, sizeof(what), "The module %.60s is missing; a package has it:", c->name);
        return hint_with(c, ECOSYSTEM_PYTHON, package, what);
    }
    /* Of "a.b" a was found. */
    if (strchr(c->name, '.') || c->name[0] == '_' || strlen(c->name) > 60)
        return false;
    snprintf(what, sizeof(what),
             "The module %s is missing; if it is a file of yours: --file %s.py; if a package has "
             "it:",
             c->name, c->name);
    return hint_with(c, ECOSYSTEM_PYTHON, c->name, what);
}

/* A file beside the script; Node adds the ending itself. */
static bool say_own_module(const struct hint_case *c, const char *name)
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.";
    const char *ending = strrchr(name, '.') ? "" : ".js";

    return name[strspn(name, letters)] == '\0' && name[0] != '-' && strlen(name) <= 80 &&
           hint_say(c, "The script's own module %s is not in the sandbox: --file %s%s brings it.",
                    name, name, ending);
}

/* "@scope/a/b" is of the package @scope/a. */
bool hint_node_module(const struct hint_case *c)
{
    char package[PACKAGE_NAME_MAX + 1], what[160];
    const char *name = c->name;

    if (strncmp(name, "/workspace/", 11) == 0)
        name += 11;
    if (name[0] == '/')
        return false;
    if (strncmp(name, "./", 2) == 0)
        name += 2;
    if (name != c->name)
        return say_own_module(c, name);
    if (name[0] == '.')
        return false;
    if (node_has_module(name))
        return hint_say(c,
                        "This Node does not have its own module %.60s: an --image or --engine with "
                        "another one may.",
                        name);
    size_t n = strcspn(name, "/");
    if (name[0] == '@' && name[n] == '/')
        n += 1 + strcspn(name + n + 1, "/");
    snprintf(package, sizeof(package), "%.*s", (int)(n < sizeof(package) ? n : 0), name);
    snprintf(what, sizeof(what), "The module %.80s is missing; if a package has it:", name);
    return hint_with(c, ECOSYSTEM_NODE, package, what);
}

bool hint_tool(const struct hint_case *c, const char *tool)
{
    static const char *const of_root[] = { "sudo", "su", "doas", "pkexec" };
    static const char *const of_system[] = { "apt",  "apt-get", "yum",    "dnf",  "apk",
                                             "brew", "pacman",  "zypper", "conda" };
    const struct facts *facts = c->facts;
    const char *way = facts->cloud ? "choose a --template that has it."
                      : facts->images
                          ? "choose an --image that has it."
                          : "ask the administrator to install it, or use an --engine and --image "
                            "that have it.";

    if (strlen(tool) > 60 || strpbrk(tool, " ()$"))
        return false;
    if (strchr(tool, '/'))
        return tool[0] == '/' ? hint_say(c, "There is no %s in the sandbox: %s", tool, way)
                              : hint_missing_file(facts, tool, false, c->ret);
    for (size_t i = 0; i < ELEMENTS(of_root); i++)
        if (strcmp(tool, of_root[i]) == 0)
            return hint_say(c, NO_ROOT);
    for (size_t i = 0; i < ELEMENTS(of_system); i++)
        if (strcmp(tool, of_system[i]) == 0)
            return hint_say(c, NO_SYSTEM_PACKAGES);
    if (strcmp(tool, "python") == 0)
        return hint_say(c, "Here Python is called python3.");
    if (strcmp(tool, "pip") == 0 || strcmp(tool, "pip3") == 0)
        return hint_say(c, "There is no pip in the sandbox: packages come with --with NAME.");
    return hint_say(c, "There is no program '%s' in the sandbox: %s", tool, way);
}

/* Words of bash are no programs for a plain shell. */
bool hint_shell_tool(const struct hint_case *c)
{
    static const char *const of_bash[] = { "[[",   "source", "declare",  "shopt",   "pushd",
                                           "popd", "let",    "function", "mapfile", "readarray" };

    struct span text = c->complaint->text;
    bool is_shell = (c->facts->have_exited && c->facts->exited.kind == LAUNCH_EXIT_CODE &&
                     c->facts->exited.value == 127) ||
                    hint_span_has(text, "/workspace/") || hint_span_has(text, "sh: ");

    /* 127 is a shell's status for a program that is not there; others say "not found", too. */
    if (!is_shell)
        return false;
    for (size_t i = 0; i < ELEMENTS(of_bash); i++)
        if (strcmp(c->name, of_bash[i]) == 0)
            return hint_is_language(c->facts, "shell") &&
                   hint_say(c, "'%s' is a word of bash, and this ran in sh: --language bash",
                            c->name);
    return hint_tool(c, c->name);
}
