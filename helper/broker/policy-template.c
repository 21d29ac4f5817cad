/* Templates by the configuration, see policy-template.h. */
#include "broker/policy-template.h"

#include <stdio.h>
#include <string.h>

/* An id or a name, with a namespace and a tag; it is shown in dialogs. */
static bool is_valid(const char *name)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    size_t n = strlen(name);

    return n > 0 && n <= TEMPLATE_NAME_MAX && strchr(letters, name[0]) &&
           strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:") == n;
}

int policy_template(const struct config *config, const char *wanted, struct plan *plan,
                    struct refusal *refusal)
{
    char hint[128] = "Leave out --template.";

    if (!wanted)
        return 0;
    if (!plan->cloud) {
        if (config->cloud_engines[0])
            snprintf(hint, sizeof(hint), "Leave out --template, or use --engine %.64s.",
                     config->cloud_engines[0]);
        return refusal_reject(refusal, "template", hint,
                              "Only a cloud has templates, and this run is not to go there.");
    }
    if (!is_valid(wanted))
        return refusal_reject(refusal, "template", "Write it like base, or team/name:tag.",
                              "That is not the name of a template.");
    plan->image = wanted;
    for (char *const *name = config->templates; *name; name++)
        if (strcmp(*name, wanted) == 0)
            return 0;
    plan->approvals |= APPROVAL_IMAGE;
    return 0;
}
