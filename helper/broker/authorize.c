/* The authorization table, see authorize.h. */
#include "broker/authorize.h"

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
