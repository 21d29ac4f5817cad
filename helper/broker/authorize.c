/* The authorization table, see authorize.h. */
#include "broker/authorize.h"
#include "broker/leaving.h"
#include "broker/policy-network.h"
#include "broker/policy-packages.h"

#include "common/escape.h"
#include "common/quantity.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *method;
    enum authorize_rule rule;
} rules[] = {
    { "Run", AUTHORIZE_BY_RISK },         { "Attach", AUTHORIZE_OWN_RUNS },
    { "List", AUTHORIZE_OWN_RUNS },       { "Describe", AUTHORIZE_OWN_RUNS },
    { "Cancel", AUTHORIZE_OWN_RUNS },     { "Remove", AUTHORIZE_OWN_RUNS },
    { "RemoveAll", AUTHORIZE_OWN_RUNS },  { "Mark", AUTHORIZE_OWN_RUNS },
    { "Read", AUTHORIZE_OWN_RUNS },       { "PullImage", AUTHORIZE_BY_RISK },
    { "GetPolicy", AUTHORIZE_ANYBODY },   { "GetEngines", AUTHORIZE_ANYBODY },
    { "ListLayers", AUTHORIZE_OWN_RUNS }, { "RemoveLayer", AUTHORIZE_OWN_RUNS },
};

enum authorize_rule authorize_method(const char *method)
{
    for (size_t i = 0; i < ELEMENTS(rules); i++)
        if (strcmp(rules[i].method, method) == 0)
            return rules[i].rule;
    return AUTHORIZE_REFUSE;
}

static const struct {
    enum approval approval;
    const char *action;
    bool admin; /* its default is auth_admin, see io.sbxctl.policy */
} actions[] = {
    { APPROVAL_RUN, "io.sbxctl.run", false },
    { APPROVAL_NETWORK, "io.sbxctl.run-network", false },
    { APPROVAL_RESOURCES, "io.sbxctl.run-resources", false },
    { APPROVAL_CLOUD, "io.sbxctl.run-cloud", false },
    { APPROVAL_IMAGE, "io.sbxctl.run-image", true },
    { APPROVAL_PACKAGES, "io.sbxctl.run-packages", false },
};

enum approval approval_take(unsigned *approvals)
{
    unsigned first = *approvals & -*approvals;

    *approvals &= ~first;
    return (enum approval)first;
}

const char *authorize_action(enum approval approval)
{
    for (size_t i = 0; i < ELEMENTS(actions); i++)
        if (actions[i].approval == approval)
            return actions[i].action;
    return "io.sbxctl.unknown"; /* not an action: polkit refuses it */
}

const char *authorize_combined_action(bool admin)
{
    return admin ? "io.sbxctl.run-elevated-admin" : "io.sbxctl.run-elevated";
}

bool authorize_needs_admin(enum approval approval)
{
    for (size_t i = 0; i < ELEMENTS(actions); i++)
        if (actions[i].approval == approval)
            return actions[i].admin;
    return true;
}

/* ---- For people ---- */

struct list {
    char items[8][256];
    size_t n;
};

__attribute__((format(printf, 2, 3))) static void list_add(struct list *list, const char *format,
                                                           ...)
{
    va_list args;

    if (list->n == ELEMENTS(list->items))
        return;
    va_start(args, format);
    vsnprintf(list->items[list->n++], sizeof(list->items[0]), format, args);
    va_end(args);
}

static void list_resources(struct list *list, const struct limits *limits,
                           const struct limits *defaults)
{
    char a[QUANTITY_TEXT], b[QUANTITY_TEXT];

    if (limits->memory_bytes > defaults->memory_bytes)
        list_add(list, "memory of %s (default: %s)", format_bytes(limits->memory_bytes, a),
                 format_bytes(defaults->memory_bytes, b));
    if (limits->cpu_percent > defaults->cpu_percent)
        list_add(list, "%g CPUs (default: %g)", (double)limits->cpu_percent / 100,
                 (double)defaults->cpu_percent / 100);
    if (limits->timeout_usec > defaults->timeout_usec)
        list_add(list, "a time limit of %s (default: %s)", format_usec(limits->timeout_usec, a),
                 format_usec(defaults->timeout_usec, b));
}

/* More than some names are not worth reading here; the dialog has all. */
static void list_network(struct list *list, const struct plan *plan)
{
    char text[POLICY_HOSTS_TEXT];
    const char *hosts = policy_hosts_text(plan, text);

    if (plan->hosts.n == 0)
        list_add(list, "network access");
    else if (strlen(hosts) <= 160)
        list_add(list, "network access to %s", hosts);
    else
        list_add(list, "network access to %zu hosts", plan->hosts.n);
}

static void list_packages(struct list *list, const struct plan *plan)
{
    char text[POLICY_PACKAGES_TEXT];
    const char *names = policy_packages_names(plan, text);

    if (strlen(names) <= 160)
        list_add(list, "installing packages (%s)", names);
    else
        list_add(list, "installing %zu packages", plan->n_packages);
}

void authorize_describe(unsigned approvals, const struct plan *plan, const struct limits *defaults,
                        char *buffer, size_t size)
{
    struct list list = { .n = 0 };
    size_t used = 0;

    if (approvals & APPROVAL_NETWORK)
        list_network(&list, plan);
    if (approvals & APPROVAL_RESOURCES)
        list_resources(&list, &plan->limits, defaults);
    if (approvals & APPROVAL_CLOUD)
        list_add(&list, "sending code and files to the cloud (engine %s)", plan->engine);
    if (approvals & APPROVAL_IMAGE)
        list_add(&list, "the %s %.200s (it is not on this machine's list)",
                 plan->cloud ? "template" : "image", plan->image ? plan->image : "");
    if (approvals & APPROVAL_PACKAGES)
        list_packages(&list, plan);
    if (list.n == 0)
        list_add(&list, "running code in a sandbox");
    *buffer = '\0';
    for (size_t i = 0; i < list.n && used < size; i++)
        used += (size_t)snprintf(buffer + used, size - used, "%s%s",
                                 i == 0            ? ""
                                 : i + 1 == list.n ? " and "
                                                   : ", ",
                                 list.items[i]);
}

/* ---- For polkit ---- */

#define DETAILS_MAX 22
#define DETAIL_MAX 200

struct details {
    struct polkit_detail list[DETAILS_MAX];
    char values[DETAILS_MAX][DETAIL_MAX + 1];
    char hosts[POLICY_HOSTS_TEXT];
    char leaving[LEAVING_TEXT];
    char packages[POLICY_PACKAGES_TEXT];
    size_t n;
};

__attribute__((format(printf, 3, 4))) static void
details_add(struct details *details, const char *key, const char *format, ...)
{
    char *value = details->values[details->n];
    va_list args;

    va_start(args, format);
    vsnprintf(value, DETAIL_MAX + 1, format, args);
    va_end(args);
    details->list[details->n++] = (struct polkit_detail){ key, value };
}

char *authorize_plain_name(const char *name)
{
    char *text = escape_text(name, strlen(name), 80);

    for (char *p = text; p && *p; p++)
        if (strchr("<>&$\"", *p))
            *p = '_';
    return text;
}

static int add_name(struct details *details, const char *key, const char *name)
{
    _cleanup_free_ char *text = authorize_plain_name(name);

    if (!text)
        return -ENOMEM;
    details_add(details, key, "%s", text);
    return 0;
}

/* Whole, whatever their length: an approval is for what was shown. */
static void add_hosts(struct details *details, const struct plan *plan)
{
    details->list[details->n++] =
        (struct polkit_detail){ "hosts", policy_hosts_text(plan, details->hosts) };
}

static void add_packages(struct details *details, const struct plan *plan)
{
    details->list[details->n++] =
        (struct polkit_detail){ "packages", policy_packages_names(plan, details->packages) };
}

static void add_parts(struct details *details, unsigned approvals)
{
    char text[DETAIL_MAX + 1] = "";
    size_t used = 0;

    for (size_t i = 0; i < ELEMENTS(actions); i++)
        if (approvals & actions[i].approval && used < sizeof(text))
            used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s", used ? " " : "",
                                     actions[i].action);
    details_add(details, "actions", "%s", text);
}

static int add_request(struct details *details, const struct request *request)
{
    int r = add_name(details, "script", request->script_name);

    details_add(details, "sha256", "%s", request->script_sha256);
    details_add(details, "request", "%s", request->sha256);
    details_add(details, "request_id", "%.16s", request->sha256);
    return r;
}

/* An image is pulled for no script, and a dialog would show the names of keys that are missing. */
static int add_request_text(struct details *details, const struct request *request)
{
    _cleanup_free_ char *name = request ? authorize_plain_name(request->script_name) : NULL;

    if (request && !name)
        return -ENOMEM;
    if (request)
        details_add(details, "script_text", "\"%s\", SHA-256 %s", name, request->script_sha256);
    else
        details_add(details, "script_text", "none");
    details_add(details, "request_text", "%.16s", request ? request->sha256 : "none");
    return 0;
}

/* Whole, as the hosts are. */
static void add_image(struct details *details, const char *image)
{
    if (image)
        details->list[details->n++] = (struct polkit_detail){ "image", image };
    details->list[details->n++] = (struct polkit_detail){ "image_text", image ? image : "none" };
}

int authorize_ask(struct polkit *polkit, const struct peer *peer, const char *action,
                  unsigned approvals, const struct request *request, const struct plan *plan,
                  uint64_t dialog_usec, polkit_fn done, void *userdata, struct polkit_check **ret)
{
    const struct limits *limits = &plan->limits;
    struct details details = { .n = 0 };
    char text[QUANTITY_TEXT];
    int r;

    add_parts(&details, approvals);
    details_add(&details, "network", "%s", limits->network ? "internet" : "none");
    add_hosts(&details, plan);
    add_packages(&details, plan);
    details_add(&details, "memory", "%" PRIu64, limits->memory_bytes);
    details_add(&details, "memory_text", "%s", format_bytes(limits->memory_bytes, text));
    details_add(&details, "cpus", "%g", (double)limits->cpu_percent / 100);
    details_add(&details, "timeout", "%g", (double)limits->timeout_usec / 1e6);
    details_add(&details, "timeout_text", "%s", format_usec(limits->timeout_usec, text));
    details_add(&details, "engine", "%s", plan->engine);
    details.list[details.n++] =
        (struct polkit_detail){ "leaving", leaving_text(request, plan, details.leaving) };
    add_image(&details, plan->image);
    if (plan->language)
        details_add(&details, "language", "%s", plan->language->name);
    r = request ? add_request(&details, request) : 0;
    if (r >= 0)
        r = add_request_text(&details, request);
    if (r < 0)
        return r;
    return polkit_ask(polkit, peer, action, details.list, details.n, dialog_usec, done, userdata,
                      ret);
}
