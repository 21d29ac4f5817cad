/* Packages by the configuration, see policy-packages.h. What an installation resolved is judged
 * again by the same lists. */
#include "broker/policy-packages.h"
#include "common/escape.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ADMINISTRATOR "The administrator decides about it in section [Packages] of sbxctl.conf."

__attribute__((format(printf, 3, 4))) static int reject(struct refusal *refusal, const char *hint,
                                                        const char *format, ...)
{
    va_list args;

    refusal->kind = REFUSAL_REJECTED;
    strcpy(refusal->field, "packages");
    snprintf(refusal->hint, sizeof(refusal->hint), "%s", hint);
    va_start(args, format);
    vsnprintf(refusal->reason, sizeof(refusal->reason), format, args);
    va_end(args);
    return -EPERM;
}

static bool find_ecosystem(const struct plan *plan, enum ecosystem *ret)
{
    bool is_python = strcmp(plan->language->name, "python") == 0;

    *ret = is_python ? ECOSYSTEM_PYTHON : ECOSYSTEM_NODE;
    return is_python || strcmp(plan->language->name, "node") == 0;
}

bool policy_packages_possible(const struct config *config, const struct plan *plan,
                              enum ecosystem *ret)
{
    return find_ecosystem(plan, ret) &&
           (plan->approvals & (APPROVAL_CLOUD | APPROVAL_IMAGE)) == 0 &&
           config->packages.allowed[0];
}

static int read_package(struct plan *plan, const char *text, struct refusal *refusal)
{
    struct package *package = &plan->packages[plan->n_packages];
    char why[PACKAGE_REASON_MAX];

    int r = package_parse(plan->ecosystem, text, package, why);
    if (r == -EINVAL) {
        _cleanup_free_ char *shown = escape_text(text, strlen(text), 60);
        return reject(refusal, "", "'%s' cannot be had as a package. %s", shown ? shown : "", why);
    }
    plan->n_packages += r == 0;
    return r;
}

static int admit(const struct config_packages *packages, const struct plan *plan,
                 const struct package *package, struct refusal *refusal)
{
    const char *rule;

    if (package_is_allowed(plan->ecosystem, packages->allowed, packages->denied, package->name,
                           &rule))
        return 0;
    return rule ? reject(refusal, ADMINISTRATOR, "The package '%.80s' is refused by Denied=%.80s.",
                         package->name, rule)
                : reject(refusal, ADMINISTRATOR, "The package '%.80s' is not in Allowed=.",
                         package->name);
}

static int read_all(const struct config *config, const struct request *request, struct plan *plan,
                    struct refusal *refusal)
{
    int r = 0;

    plan->packages = calloc(request->n_packages, sizeof(*plan->packages));
    if (!plan->packages)
        return -ENOMEM;
    for (size_t i = 0; r == 0 && i < request->n_packages; i++)
        r = read_package(plan, request->packages[i], refusal);
    for (size_t i = 0; r == 0 && i < plan->n_packages; i++)
        r = admit(&config->packages, plan, &plan->packages[i], refusal);
    if (r == 0)
        qsort(plan->packages, plan->n_packages, sizeof(*plan->packages), package_compare);
    return r;
}

int policy_packages(const struct config *config, const struct request *request, struct plan *plan,
                    struct refusal *refusal)
{
    if (request->n_packages == 0)
        return request->require_hashes
                   ? reject(refusal, "Name them with --with, or leave out --require-hashes.",
                            "There are no packages that could have hashes.")
                   : 0;
    if (!find_ecosystem(plan, &plan->ecosystem))
        return reject(refusal, "Leave out --with; --language says which language a script is in.",
                      "Packages can be had for Python and Node only, not for %.40s.",
                      plan->language->name);
    if (plan->approvals & APPROVAL_CLOUD)
        return reject(refusal, "Use an engine of this machine: --engine systemd",
                      "The engine '%.60s' is in the cloud, and has no packages of this machine.",
                      plan->engine);
    /* Its pip or npm would be the caller's, and have the way to the index. */
    if (plan->approvals & APPROVAL_IMAGE)
        return reject(refusal, "Leave out --image, or --with if the image has what is needed.",
                      "Packages are installed by the images of this machine's list only.");
    if (request->require_hashes && plan->ecosystem == ECOSYSTEM_NODE)
        return reject(refusal, "Leave out --require-hashes; npm checks those of its registry.",
                      "Packages of Node are not named with hashes.");
    plan->require_hashes = request->require_hashes;
    plan->approvals |= APPROVAL_PACKAGES;
    return read_all(config, request, plan, refusal);
}

const char *policy_packages_names(const struct plan *plan, char buffer[POLICY_PACKAGES_TEXT])
{
    size_t used = 0, room = POLICY_PACKAGES_TEXT - sizeof(" and 50 more");

    if (plan->n_packages == 0)
        return "none";
    for (size_t i = 0; i < plan->n_packages; i++) {
        const char *name = plan->packages[i].name;
        if (used + 1 + strlen(name) > room) {
            sprintf(buffer + used, " and %zu more", plan->n_packages - i);
            break;
        }
        used += (size_t)sprintf(buffer + used, "%s%s", i > 0 ? " " : "", name);
    }
    return buffer;
}

json_object *policy_packages_array(const struct plan *plan)
{
    _cleanup_json_ json_object *array = json_object_new_array();

    for (size_t i = 0; array && i < plan->n_packages; i++)
        if (json_append(array, json_object_new_string(plan->packages[i].text)) < 0)
            return NULL;
    return TAKE_PTR(array);
}
