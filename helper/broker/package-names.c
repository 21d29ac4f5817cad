/* The tables of names of modules, see package-names.h. */
#include "broker/package-names.h"
#include "common/cleanup.h"

#include <stdlib.h>
#include <string.h>

#include "package-names-table.h"

static int compare(const void *name, const void *row)
{
    return strcmp(name, ((const struct package_name *)row)->module);
}

const char *package_of_module(const char *name)
{
    const struct package_name *row = bsearch(name, names, ELEMENTS(names), sizeof(*names), compare);

    return row ? row->package : NULL;
}

#define ENDED(version, instead) "Python has no such module since version " version ": " instead "."
#define NOT_INSTALLED                                                                          \
    "It is a part of Python that is not installed here; the administrator can install it, or " \
    "choose an --engine or --image that has it."

/* https://docs.python.org/3/library/removed.html; the last ones are packages of their own in
 * Debian, or are left out when Python is built without their libraries. */
const char *python_own_module_advice(const char *name)
{
    static const struct {
        const char *module, *advice;
    } own[] = {
        { "asynchat", ENDED("3.12", "--with pyasynchat has it") },
        { "asyncore", ENDED("3.12", "--with pyasyncore has it") },
        { "cgi", ENDED("3.13", "--with legacy-cgi has it") },
        { "cgitb", ENDED("3.13", "--with legacy-cgi has it") },
        { "distutils", ENDED("3.12", "--with setuptools has it") },
        { "imghdr", ENDED("3.13", "--with standard-imghdr has it") },
        { "imp", ENDED("3.12", "the script has to use importlib") },
        { "pipes", ENDED("3.13", "the script has to use shlex and subprocess") },
        { "smtpd", ENDED("3.12", "--with aiosmtpd does the same") },
        { "sndhdr", ENDED("3.13", "--with standard-sndhdr has it") },
        { "telnetlib", ENDED("3.13", "--with standard-telnetlib has it") },
        { "_bz2", NOT_INSTALLED },
        { "_ctypes", NOT_INSTALLED },
        { "_curses", NOT_INSTALLED },
        { "_lzma", NOT_INSTALLED },
        { "_sqlite3", NOT_INSTALLED },
        { "_tkinter", NOT_INSTALLED },
        { "ensurepip", NOT_INSTALLED },
        { "idlelib", NOT_INSTALLED },
        { "lib2to3", NOT_INSTALLED },
        { "readline", NOT_INSTALLED },
        { "tkinter", "There is no display in a sandbox, so tkinter has no use there: write files "
                     "instead of opening windows." },
        { "turtle", "There is no display in a sandbox, so turtle has no use there: write files "
                    "instead of opening windows." },
        { "venv", NOT_INSTALLED },
    };

    for (size_t i = 0; i < ELEMENTS(own); i++)
        if (strcmp(own[i].module, name) == 0)
            return own[i].advice;
    return NULL;
}

/* module.builtinModules of Node 24, without what begins with "_". */
bool node_has_module(const char *name)
{
    static const char *const own[] = {
        "assert",       "async_hooks",
        "buffer",       "child_process",
        "cluster",      "console",
        "constants",    "crypto",
        "dgram",        "diagnostics_channel",
        "dns",          "domain",
        "events",       "fs",
        "http",         "http2",
        "https",        "inspector",
        "module",       "net",
        "os",           "path",
        "perf_hooks",   "process",
        "punycode",     "querystring",
        "readline",     "repl",
        "sea",          "sqlite",
        "stream",       "string_decoder",
        "sys",          "test",
        "timers",       "tls",
        "trace_events", "tty",
        "url",          "util",
        "v8",           "vm",
        "wasi",         "worker_threads",
        "zlib",
    };

    /* Only these two names of packages are also names of modules that need their "node:". */
    if (strncmp(name, "node:", 5) == 0)
        name += 5;
    else if (strcmp(name, "sqlite") == 0 || strcmp(name, "test") == 0)
        return false;
    for (size_t i = 0; i < ELEMENTS(own); i++)
        if (strcmp(own[i], name) == 0)
            return true;
    return false;
}
