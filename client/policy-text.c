/* A policy in words, see policy-text.h. */
#include "client/policy-text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "client/say.h"
#include "common/cleanup.h"
#include "common/quantity.h"

const char *policy_field_name(enum policy_field field)
{
    static const char *const names[] = {
        [POLICY_NETWORK] = "network",     [POLICY_MEMORY] = "memory",
        [POLICY_CPUS] = "CPUs",           [POLICY_TIME] = "time",
        [POLICY_TASKS] = "tasks",         [POLICY_WORKSPACE] = "workspace",
        [POLICY_SCRATCH] = "scratch",     [POLICY_FILES] = "output files",
        [POLICY_STREAMS] = "kept output",
    };
    return names[field];
}

const char *policy_field_text(const struct policy *policy, enum policy_field field,
                              char buffer[POLICY_TEXT])
{
    switch (field) {
    case POLICY_NETWORK: {
        _cleanup_free_ char *shown = displayed(policy->network);
        snprintf(buffer, POLICY_TEXT, "%s", shown);
        return buffer;
    }
    case POLICY_MEMORY:
        return format_bytes(policy->memory_bytes, buffer);
    case POLICY_CPUS:
        snprintf(buffer, POLICY_TEXT, "%g", (double)policy->cpu_percent / 100);
        return buffer;
    case POLICY_TIME:
        return format_usec(policy->timeout_usec, buffer);
    case POLICY_TASKS:
        snprintf(buffer, POLICY_TEXT, "%" PRIu64, policy->tasks);
        return buffer;
    case POLICY_WORKSPACE:
        return format_bytes(policy->workspace_bytes, buffer);
    case POLICY_SCRATCH:
        return format_bytes(policy->scratch_bytes, buffer);
    case POLICY_FILES:
        snprintf(buffer, POLICY_TEXT, "%" PRIu64, policy->output_files);
        return buffer;
    case POLICY_STREAMS:
        return format_bytes(policy->kept_stream_bytes, buffer);
    case POLICY_FIELDS:
        break;
    }
    return "";
}

const char *approval_text(const char *answer)
{
    if (answer && strcmp(answer, "yes") == 0)
        return "no approval needed";
    if (answer && strcmp(answer, "challenge") == 0)
        return "needs your password";
    if (answer && strcmp(answer, "administrator") == 0)
        return "needs an administrator";
    return "not allowed";
}

/* Each on a line of its own: together they can be long. */
static void print_hosts(json_object *names)
{
    size_t n = names ? json_object_array_length(names) : 0;

    for (size_t i = 0; i < n; i++) {
        const char *name = json_object_get_string(json_object_array_get_idx(names, i));
        _cleanup_free_ char *shown = displayed(name ? name : "?");
        printf("%-13s %s\n", i == 0 ? "hosts" : "", shown);
    }
}

void policy_print_lines(const struct policy *policy)
{
    char text[POLICY_TEXT];

    for (enum policy_field field = POLICY_NETWORK; field <= POLICY_TIME; field++) {
        printf("%-13s %s\n", policy_field_name(field), policy_field_text(policy, field, text));
        if (field == POLICY_NETWORK)
            print_hosts(policy->network_names);
    }
}
