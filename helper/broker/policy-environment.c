/* What scripts expect to be set, see policy-environment.h. */
#include "broker/policy-environment.h"
#include "common/cleanup.h"
#include "config-paths.h"
#include "launch/protocol.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define SYSTEM_PATH "PATH=/usr/local/bin:/usr/bin:/bin"

static const char *const always[] = {
    SYSTEM_PATH,
    "HOME=/workspace",
    "USER=sandbox",
    "LOGNAME=sandbox",
    "SHELL=/bin/sh",
    "TMPDIR=/tmp",
    "LANG=C.UTF-8",
    "TZ=UTC",
    "TERM=dumb",
    "PYTHONUNBUFFERED=1",
    "PYTHONDONTWRITEBYTECODE=1",
    "MPLBACKEND=Agg",
    "MPLCONFIGDIR=/tmp/matplotlib",
    "XDG_CACHE_HOME=/tmp/cache",
    "PIP_DISABLE_PIP_VERSION_CHECK=1",
    "PIP_NO_INPUT=1",
    /* Debian's pip would speak of its system, which is read-only here, and not of the network. */
    "PIP_BREAK_SYSTEM_PACKAGES=1",
};

static const char *const without_network[] = {
    /* Do not wait for one. */
    "PIP_RETRIES=0",
};

/* Where show() of matplotlib and others is taught to save files; the engines of this machine have
 * it in their sandboxes, at the same place as here. Last, so that it hides nothing. */
#define INSIDE SBXCTL_LIBEXECDIR "/inside"

/* The one way out, for everything that makes connections. Not by SOCKS: some libraries need further
 * packages for that. */
#define PROXY "http://127.0.0.1:" STRING(LAUNCH_LISTEN_PORT)
#define STRING(number) STRING_OF(number)
#define STRING_OF(number) #number
#define OWN_HOSTS "localhost,127.0.0.1,::1"
static const char *const with_egress[] = {
    "HTTP_PROXY=" PROXY,
    "HTTPS_PROXY=" PROXY,
    "ALL_PROXY=" PROXY,
    "NO_PROXY=" OWN_HOSTS,
    "http_proxy=" PROXY,
    "https_proxy=" PROXY,
    "all_proxy=" PROXY,
    "no_proxy=" OWN_HOSTS,
    "npm_config_proxy=" PROXY,
    "npm_config_https_proxy=" PROXY,
    "NODE_USE_ENV_PROXY=1",
    "JAVA_TOOL_OPTIONS=-Dhttp.proxyHost=127.0.0.1 -Dhttp.proxyPort=" STRING(
        LAUNCH_LISTEN_PORT) " -Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=" STRING(LAUNCH_LISTEN_PORT) " -Dhttp.nonProxyHosts=localhost|127.0.0.1|[::1]",
};

/* Libraries that would start a thread for each CPU of the machine. */
static const char *const threads[] = { "OMP_NUM_THREADS",       "OPENBLAS_NUM_THREADS",
                                       "MKL_NUM_THREADS",       "NUMEXPR_NUM_THREADS",
                                       "RAYON_NUM_THREADS",     "GOMAXPROCS",
                                       "PYTHON_CPU_COUNT",      "LOKY_MAX_CPU_COUNT",
                                       "VECLIB_MAXIMUM_THREADS" };

__attribute__((format(printf, 2, 3))) static int add(struct plan *plan, const char *format, ...)
{
    char **entry = &plan->environment[plan->n_environment];
    va_list args;

    va_start(args, format);
    int n = vasprintf(entry, format, args);
    va_end(args);
    if (n < 0) {
        *entry = NULL;
        return -ENOMEM;
    }
    plan->n_environment++;
    return 0;
}

static int add_list(struct plan *plan, const char *const *list, size_t n)
{
    int r = 0;

    for (size_t i = 0; r >= 0 && i < n; i++)
        r = add(plan, "%s", list[i]);
    return r;
}

static int add_sizes(struct plan *plan)
{
    uint64_t cpus = (plan->limits.cpu_percent + 99) / 100;
    int r = 0;

    for (size_t i = 0; r >= 0 && i < ELEMENTS(threads); i++)
        r = add(plan, "%s=%" PRIu64, threads[i], cpus);
    /* Node sizes its heap by the machine's memory, since it sees no control group. */
    return r < 0 ? r
                 : add(plan, "NODE_OPTIONS=--max-old-space-size=%" PRIu64,
                       plan->limits.memory_bytes / 4 * 3 >> 20);
}

/* A variable of the caller's replaces ours of the same name. */
static int add_own(struct plan *plan, const char *entry)
{
    size_t name = strcspn(entry, "=") + 1;

    for (size_t i = 0; i < plan->n_environment; i++)
        if (strncmp(plan->environment[i], entry, name) == 0) {
            char *copy = strdup(entry);
            if (!copy)
                return -ENOMEM;
            free(plan->environment[i]);
            plan->environment[i] = copy;
            return 0;
        }
    return add(plan, "%s", entry);
}

/* Puts @before and @after around the value of a variable, which may be missing. */
static int surround(struct plan *plan, const char *name, const char *before, const char *after)
{
    size_t n = strlen(name);
    char *longer;

    for (size_t i = 0; i < plan->n_environment; i++) {
        const char *entry = plan->environment[i];
        if (strncmp(entry, name, n) != 0 || entry[n] != '=')
            continue;
        if (asprintf(&longer, "%s=%s%s%s%s%s", name, before, *before && entry[n + 1] ? ":" : "",
                     entry + n + 1, *after && entry[n + 1] ? ":" : "", after) < 0)
            return -ENOMEM;
        free(plan->environment[i]);
        plan->environment[i] = longer;
        return 0;
    }
    return add(plan, "%s=%s%s", name, before, after);
}

/* Their programs come last, so that none is run instead of one of the system's. Node finds its
 * packages by itself, see ENGINE_TARGET_NODE_MODULES. */
static int add_packages(struct plan *plan)
{
    int r = surround(plan, "PATH", "",
                     plan->ecosystem == ECOSYSTEM_NODE ? "/node_modules/.bin" : "/packages/bin");

    return r < 0 || plan->ecosystem == ECOSYSTEM_NODE
               ? r
               : surround(plan, "PYTHONPATH", "/packages", "");
}

int policy_environment(const struct request *request, struct plan *plan)
{
    int r;

    plan->environment =
        calloc(ELEMENTS(always) + ELEMENTS(without_network) + ELEMENTS(with_egress) +
                   ELEMENTS(threads) + 1 + request->n_environment + 2 + 1,
               sizeof(char *));
    if (!plan->environment)
        return -ENOMEM;
    r = add_list(plan, always, ELEMENTS(always));
    if (r >= 0 && !plan->limits.network)
        r = add_list(plan, without_network, ELEMENTS(without_network));
    if (r >= 0 && plan->egress)
        r = add_list(plan, with_egress, ELEMENTS(with_egress));
    if (r >= 0)
        r = add_sizes(plan);
    for (size_t i = 0; r >= 0 && i < request->n_environment; i++)
        r = add_own(plan, request->environment[i]);
    if (r >= 0 && !plan->cloud)
        r = surround(plan, "PYTHONPATH", "", INSIDE);
    if (r >= 0 && plan->n_packages > 0)
        r = add_packages(plan);
    return r;
}

static const char *const of_installer[] = {
    SYSTEM_PATH, "HOME=/workspace", "TMPDIR=/tmp", "LANG=C.UTF-8", "TZ=UTC", "PYTHONUNBUFFERED=1",
};

size_t installer_environment(bool with_network, char *ret[INSTALLER_ENVIRONMENT_MAX])
{
    size_t n = 0;

    for (size_t i = 0; i < ELEMENTS(of_installer); i++)
        ret[n++] = (char *)of_installer[i];
    for (size_t i = 0; with_network && i < ELEMENTS(with_egress); i++)
        ret[n++] = (char *)with_egress[i];
    return n;
}
