/* Admission, limits and command line of a run, see policy.h. */
#include "broker/policy.h"
#include "broker/config-words.h"
#include "broker/policy-environment.h"
#include "broker/policy-image.h"
#include "broker/policy-network.h"
#include "broker/policy-packages.h"
#include "broker/policy-secrets.h"
#include "broker/policy-template.h"
#include "common/escape.h"
#include "common/quantity.h"
#include "launch/protocol.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define WORKSPACE "/workspace"
#define FIRST_LINE_MAX 256

void plan_release(struct plan *plan)
{
    if (plan->argv)
        free(plan->argv[plan->script_index]);
    free(plan->argv);
    for (char **e = plan->environment; e && *e; e++)
        free(*e);
    free(plan->environment);
    for (size_t i = 0; i < plan->n_packages; i++)
        package_release(&plan->packages[i]);
    free(plan->packages);
    *plan = (struct plan){ 0 };
}

/* Rejects for something of the caller's, with one %s for it. */
__attribute__((format(printf, 4, 0))) static int reject_name(struct refusal *refusal,
                                                             const char *field, const char *hint,
                                                             const char *format, const char *name)
{
    _cleanup_free_ char *shown = escape_text(name, strlen(name), 80);

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    return refusal_reject(refusal, field, hint, format, shown ? shown : "");
#pragma GCC diagnostic pop
}

static int reject_size(struct refusal *refusal, const char *field, const char *what, uint64_t size,
                       uint64_t max, const char *hint)
{
    char a[QUANTITY_TEXT], b[QUANTITY_TEXT];
    return refusal_reject(refusal, field, hint, "%s is %s, and at most %s is allowed.", what,
                          format_bytes(size, a), format_bytes(max, b));
}

static int admit_sizes(const struct config *config, const struct request *request,
                       struct refusal *refusal)
{
    uint64_t total = 0;

    if (request->script_bytes > config->script_bytes)
        return reject_size(refusal, "script", "The script", request->script_bytes,
                           config->script_bytes, "");
    if (request->script_bytes == 0)
        return refusal_reject(refusal, "script", "", "The script is empty.");
    if (request->n_inputs > config->inputs)
        return refusal_reject(refusal, "inputs", "",
                              "%zu input files were given, and at most %llu are allowed.",
                              request->n_inputs, (unsigned long long)config->inputs);
    for (size_t i = 0; i < request->n_inputs; i++) {
        if (request->inputs[i].size > config->input_bytes - total)
            return reject_size(
                refusal, "inputs", "The sum of the input files", total + request->inputs[i].size,
                config->input_bytes,
                "Give the run less data, or ask the administrator to raise InputSize=.");
        total += request->inputs[i].size;
    }
    if (total + request->script_bytes > config->workspace_bytes)
        return reject_size(refusal, "inputs", "The sum of script and input files",
                           total + request->script_bytes, config->workspace_bytes, "");
    return 0;
}

/* The name becomes part of a socket's path, and what answers there is believed: it hands the store
 * the directory to collect. */
static int admit_engine(const char *name, struct refusal *refusal)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyz0123456789-";

    if (*name != '\0' && name[strspn(name, allowed)] == '\0')
        return 0;
    return refusal_reject(refusal, "engine", "",
                          "An engine's name consists of small letters, digits and dashes.");
}

static int above(struct refusal *refusal, const char *field, uint64_t requested, uint64_t ceiling,
                 const char *what, const char *requested_text, const char *ceiling_text)
{
    refusal->kind = REFUSAL_ABOVE_CEILING;
    refusal->requested = requested;
    refusal->ceiling = ceiling;
    snprintf(refusal->field, sizeof(refusal->field), "%s", field);
    snprintf(refusal->reason, sizeof(refusal->reason),
             "%s of %s was asked for, and this machine allows at most %s.", what, requested_text,
             ceiling_text);
    return -EPERM;
}

static uint64_t given_or(uint64_t value, uint64_t otherwise)
{
    return value == UINT64_MAX ? otherwise : value;
}

static int apply_limits(const struct config *config, const struct request *request,
                        struct plan *plan, struct refusal *refusal)
{
    const struct limits *defaults = &config->defaults, *ceiling = &config->ceiling;
    char a[QUANTITY_TEXT], b[QUANTITY_TEXT];
    struct limits limits = {
        .network = request->network,
        .memory_bytes = given_or(request->memory_bytes, defaults->memory_bytes),
        .cpu_percent = given_or(request->cpu_percent, defaults->cpu_percent),
        .timeout_usec = given_or(request->timeout_usec, defaults->timeout_usec),
    };

    if (limits.memory_bytes > ceiling->memory_bytes)
        return above(refusal, "memoryBytes", limits.memory_bytes, ceiling->memory_bytes, "Memory",
                     format_bytes(limits.memory_bytes, a), format_bytes(ceiling->memory_bytes, b));
    if (limits.timeout_usec > ceiling->timeout_usec)
        return above(refusal, "timeoutUSec", limits.timeout_usec, ceiling->timeout_usec,
                     "A time limit", format_usec(limits.timeout_usec, a),
                     format_usec(ceiling->timeout_usec, b));
    if (limits.cpu_percent > ceiling->cpu_percent) {
        snprintf(a, sizeof(a), "%g CPUs", (double)limits.cpu_percent / 100);
        snprintf(b, sizeof(b), "%g", (double)ceiling->cpu_percent / 100);
        return above(refusal, "cpuPercent", limits.cpu_percent, ceiling->cpu_percent, "The use", a,
                     b);
    }
    if (limits.network && !ceiling->network)
        return above(refusal, "network", 1, 0, "A network", "internet", "none");
    if (limits.memory_bytes < 16 << 20)
        return refusal_reject(refusal, "memoryBytes", "", "A run needs at least 16 MiB of memory.");
    if (limits.timeout_usec < 100000)
        return refusal_reject(refusal, "timeoutUSec", "", "A run needs at least 0.1 s.");

    plan->limits = limits;
    plan->approvals = APPROVAL_RUN;
    if (limits.network && !defaults->network)
        plan->approvals |= APPROVAL_NETWORK;
    if (limits.memory_bytes > defaults->memory_bytes ||
        limits.cpu_percent > defaults->cpu_percent || limits.timeout_usec > defaults->timeout_usec)
        plan->approvals |= APPROVAL_RESOURCES;
    plan->cloud = words_have(config->cloud_engines, plan->engine, strlen(plan->engine));
    if (plan->cloud)
        plan->approvals |= APPROVAL_CLOUD;
    return 0;
}

/* The interpreter's name in "#!/usr/bin/env -S python3.11 -u": "python3.11", or NULL. */
static const char *shebang_name(const char *line, size_t *ret_length)
{
    const char *name, *end;

    /* Editors that begin a text with a byte order mark do so here, too. */
    if (strncmp(line, "\xef\xbb\xbf", 3) == 0)
        line += 3;
    if (strncmp(line, "#!", 2) != 0)
        return NULL;
    line += 2;
    for (;;) {
        line += strspn(line, " \t");
        end = line + strcspn(line, " \t");
        name = end;
        while (name > line && name[-1] != '/')
            name--;
        *ret_length = (size_t)(end - name);
        /* env's own options and assignments stand before the interpreter. */
        if (*ret_length == 0)
            return NULL;
        if (!(*ret_length == 3 && memcmp(name, "env", 3) == 0) && *name != '-' &&
            !memchr(name, '=', *ret_length))
            return name;
        line = end;
    }
}

static const struct language *language_by_shebang(const struct config *config, const char *name,
                                                  size_t length)
{
    for (;;) {
        for (size_t i = 0; i < config->n_languages; i++)
            if (words_have(config->languages[i].shebangs, name, length))
                return &config->languages[i];
        /* python3.11 → python3. → python3 → python */
        if (length == 0 || !strchr("0123456789.", name[length - 1]))
            return NULL;
        length--;
    }
}

static const struct language *language_by_extension(const struct config *config, const char *name)
{
    const char *dot = strrchr(name, '.');

    for (size_t i = 0; dot && i < config->n_languages; i++)
        if (words_have(config->languages[i].extensions, dot, strlen(dot)))
            return &config->languages[i];
    return NULL;
}

static void list_languages(const struct config *config, char *buffer, size_t size)
{
    size_t used = (size_t)snprintf(buffer, size, "Use --language with one of:");
    for (size_t i = 0; i < config->n_languages && used < size; i++)
        used += (size_t)snprintf(buffer + used, size - used, " %s", config->languages[i].name);
}

static int choose_language(const struct config *config, const struct request *request,
                           struct plan *plan, struct refusal *refusal)
{
    char line[FIRST_LINE_MAX + 1] = "", hint[sizeof(refusal->hint)];
    const char *name;
    size_t length;

    list_languages(config, hint, sizeof(hint));
    if (request->language) {
        plan->language = config_find_language(config, request->language);
        if (!plan->language)
            plan->language =
                language_by_shebang(config, request->language, strlen(request->language));
        if (!plan->language)
            return reject_name(refusal, "language", hint,
                               "The language '%s' is not one of this machine's.",
                               request->language);
        return 0;
    }
    ssize_t n = pread(request->script, line, FIRST_LINE_MAX, 0);
    line[n > 0 ? n : 0] = '\0';
    line[strcspn(line, "\r\n")] = '\0';
    name = shebang_name(line, &length);
    if (name) {
        plan->language = language_by_shebang(config, name, length);
        if (!plan->language)
            return reject_name(refusal, "language", hint,
                               "The script's first line, '%s', names none of this machine's "
                               "languages.",
                               line);
        return 0;
    }
    plan->language = language_by_extension(config, request->script_name);
    if (!plan->language)
        return refusal_reject(
            refusal, "language", hint,
            "The script's language cannot be told by its name or its first line.");
    return 0;
}

static int make_argv(const struct request *request, struct plan *plan)
{
    char *const *options = plan->language->options;
    size_t n_options = 0, n = 0;

    while (options[n_options])
        n_options++;
    plan->argv = calloc(n_options + request->n_arguments + 3, sizeof(char *));
    if (!plan->argv)
        return -ENOMEM;
    plan->argv[n++] = plan->language->interpreter;
    for (size_t i = 0; i < n_options; i++)
        plan->argv[n++] = options[i];
    plan->script_index = n;
    if (asprintf(&plan->argv[n++], WORKSPACE "/%s", request->script_name) < 0) {
        plan->argv[plan->script_index] = NULL;
        return -ENOMEM;
    }
    for (size_t i = 0; i < request->n_arguments; i++)
        plan->argv[n++] = request->arguments[i];
    plan->n_argv = n;
    return 0;
}

static int check_strings(const struct plan *plan, struct refusal *refusal)
{
    size_t total = sizeof(WORKSPACE);

    for (char **s = plan->argv; *s; s++)
        total += strlen(*s) + 1;
    for (char **s = plan->environment; *s; s++)
        total += strlen(*s) + 1;
    if (plan->n_argv > LAUNCH_ARGV_MAX || total > LAUNCH_STRINGS_MAX)
        return refusal_reject(
            refusal, "arguments", "Hand larger data over as a file (--file).",
            "Arguments and environment are %zu bytes together, and at most %d are allowed.", total,
            LAUNCH_STRINGS_MAX);
    return 0;
}

static int apply(const struct config *config, const struct request *request, struct plan *plan,
                 struct refusal *refusal)
{
    int r = admit_sizes(config, request, refusal);

    plan->engine = request->engine ? request->engine : config->engine;
    if (r >= 0)
        r = admit_engine(plan->engine, refusal);
    if (r >= 0)
        r = apply_limits(config, request, plan, refusal);
    if (r >= 0)
        r = policy_network(config, request, plan, refusal);
    if (r >= 0)
        r = choose_language(config, request, plan, refusal);
    if (r >= 0)
        r = policy_image(config, request->image, plan, refusal);
    if (r >= 0)
        r = policy_template(config, request->template, plan, refusal);
    if (r >= 0)
        r = policy_packages(config, request, plan, refusal);
    if (r >= 0)
        r = make_argv(request, plan);
    if (r >= 0)
        r = policy_environment(request, plan);
    if (r >= 0)
        r = check_strings(plan, refusal);
    if (r >= 0)
        r = policy_secrets(config, request, refusal);
    return r;
}

int policy_apply(const struct config *config, const struct request *request, struct plan *ret,
                 struct refusal *refusal)
{
    struct plan plan = { 0 };
    int r;

    *refusal = (struct refusal){ 0 };
    r = apply(config, request, &plan, refusal);
    if (r < 0) {
        plan_release(&plan);
        return r;
    }
    *ret = plan;
    return 0;
}
