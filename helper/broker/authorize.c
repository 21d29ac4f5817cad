/* The authorization table, see authorize.h. */
#include "broker/authorize.h"

#include "common/escape.h"
#include "common/quantity.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *method;
    enum authorize_rule rule;
} rules[] = {
    { "Run", AUTHORIZE_BY_RISK },       { "List", AUTHORIZE_OWN_RUNS },
    { "Describe", AUTHORIZE_OWN_RUNS }, { "Cancel", AUTHORIZE_OWN_RUNS },
    { "Remove", AUTHORIZE_OWN_RUNS },   { "Read", AUTHORIZE_OWN_RUNS },
    { "GetPolicy", AUTHORIZE_ANYBODY }, { "GetEngines", AUTHORIZE_ANYBODY },
};

enum authorize_rule authorize_method(const char *method)
{
    for (size_t i = 0; i < ELEMENTS(rules); i++)
        if (strcmp(rules[i].method, method) == 0)
            return rules[i].rule;
    return AUTHORIZE_REFUSE;
}

const char *authorize_action(enum approval approval)
{
    switch (approval) {
    case APPROVAL_RUN:
        return "io.sbxctl.run";
    case APPROVAL_NETWORK:
        return "io.sbxctl.run-network";
    case APPROVAL_RESOURCES:
        return "io.sbxctl.run-resources";
    default:
        return "io.sbxctl.unknown"; /* not an action: polkit refuses it */
    }
}

void authorize_describe(enum approval approval, const struct limits *limits,
                        const struct limits *defaults, char *buffer, size_t size)
{
    char a[QUANTITY_TEXT], b[QUANTITY_TEXT];

    if (approval == APPROVAL_RUN)
        snprintf(buffer, size, "running code in a sandbox");
    else if (approval == APPROVAL_NETWORK)
        snprintf(buffer, size, "network access");
    else if (limits->memory_bytes > defaults->memory_bytes)
        snprintf(buffer, size, "memory of %s, above the default of %s",
                 format_bytes(limits->memory_bytes, a), format_bytes(defaults->memory_bytes, b));
    else if (limits->timeout_usec > defaults->timeout_usec)
        snprintf(buffer, size, "a time limit of %s, above the default of %s",
                 format_usec(limits->timeout_usec, a), format_usec(defaults->timeout_usec, b));
    else
        snprintf(buffer, size, "%g CPUs, above the default of %g",
                 (double)limits->cpu_percent / 100, (double)defaults->cpu_percent / 100);
}

int authorize_ask(struct polkit *polkit, const struct peer *peer, enum approval approval,
                  const struct request *request, const struct plan *plan, polkit_fn done,
                  void *userdata, struct polkit_check **ret)
{
    _cleanup_free_ char *script =
        escape_text(request->script_name, strlen(request->script_name), 80);
    char memory[24], cpus[24], timeout[24];
    const struct polkit_detail details[] = {
        { "network", plan->limits.network ? "internet" : "none" },
        { "memory", memory },
        { "cpus", cpus },
        { "timeout", timeout },
        { "engine", plan->engine },
        { "script", script },
        { "sha256", request->script_sha256 },
    };

    if (!script)
        return -ENOMEM;
    snprintf(memory, sizeof(memory), "%" PRIu64, plan->limits.memory_bytes);
    snprintf(cpus, sizeof(cpus), "%" PRIu64, plan->limits.cpu_percent);
    snprintf(timeout, sizeof(timeout), "%" PRIu64, plan->limits.timeout_usec / 1000000);
    return polkit_ask(polkit, peer, authorize_action(approval), details, ELEMENTS(details), done,
                      userdata, ret);
}
