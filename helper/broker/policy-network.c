/* Hosts by the configuration, see policy-network.h. What is admitted here is judged again, at each
 * connection, by the egress process. */
#include "broker/policy-network.h"

#include <stdio.h>
#include <string.h>

#define FIELD "networkNames"
#define HINT "The administrator decides about it in section [Network] of sbxctl.conf."

static int admit_host(const struct config_network *network, const char *host,
                      struct refusal *refusal)
{
    const char *denied = host_list_find(&network->denied_names, host);
    const struct ip_prefix *range;
    struct ip_address address;
    char text[IP_PREFIX_TEXT_MAX];

    if (denied)
        return refusal_reject(refusal, FIELD, HINT, "'%.80s' is refused by DeniedNames=%.80s.",
                              host, denied);
    if (!host_list_find(&network->allowed_names, host))
        return refusal_reject(refusal, FIELD, HINT, "'%.80s' is not in AllowedNames=.", host);
    if (!ip_address_parse(host, &address))
        return 0;
    range = ip_prefix_list_find(&network->denied_addresses, &address);
    if (!range)
        return 0;
    ip_prefix_format(range, text);
    return refusal_reject(refusal, FIELD, HINT, "'%.80s' is refused by DeniedAddresses=%s.", host,
                          text);
}

static bool is_any(const struct host_list *names)
{
    for (size_t i = 0; i < names->n; i++)
        if (strcmp(names->items[i], "*") == 0)
            return true;
    return false;
}

static bool has_wildcard(const struct host_list *names)
{
    for (size_t i = 0; i < names->n; i++)
        if (names->items[i][0] == '*')
            return true;
    return false;
}

/* The cloud's way out knows names that are allowed, but none that are denied; and no egress process
 * of ours judges there. So the lists of the configuration hold as names that are allowed, or the
 * run is refused. */
static int limit_cloud(const struct config_network *network, struct plan *plan,
                       struct refusal *refusal)
{
    size_t size = 0;

    /* To the engine no names at all are any. */
    if (network->allowed_names.n == 0)
        return refusal_reject(refusal, FIELD, HINT, "AllowedNames= allows no host.");
    if (plan->hosts.n == 0 && !is_any(&network->allowed_names))
        plan->hosts = network->allowed_names;
    for (size_t i = 0; i < plan->hosts.n; i++) {
        int r = admit_host(network, plan->hosts.items[i], refusal);
        if (r < 0)
            return r;
        size += strlen(plan->hosts.items[i]) + 1;
    }
    if (size > REQUEST_HOSTS_TEXT_MAX)
        return refusal_reject(refusal, FIELD, HINT,
                              "AllowedNames= has too many hosts for a run in the cloud: name those "
                              "that it needs.");
    if (network->denied_names.n > 0 && (plan->hosts.n == 0 || has_wildcard(&plan->hosts)))
        return refusal_reject(refusal, FIELD, HINT,
                              "In the cloud DeniedNames= would not hold: name the hosts that the "
                              "run needs, without '*'.");
    return 0;
}

int policy_network(const struct config *config, const struct request *request, struct plan *plan,
                   struct refusal *refusal)
{
    int r = 0;

    for (size_t i = 0; r >= 0 && i < request->hosts.n; i++)
        r = admit_host(&config->network, request->hosts.items[i], refusal);
    if (r < 0)
        return r;
    plan->hosts = request->hosts;
    /* From the cloud there is another way out, of its engine's own. */
    plan->egress = plan->limits.network && !plan->cloud;
    return plan->limits.network && plan->cloud ? limit_cloud(&config->network, plan, refusal) : 0;
}

const char *policy_hosts_text(const struct plan *plan, char buffer[POLICY_HOSTS_TEXT])
{
    size_t used = 0;

    if (!plan->limits.network)
        return "none";
    if (plan->hosts.n == 0)
        return "any";
    for (size_t i = 0; i < plan->hosts.n && used < POLICY_HOSTS_TEXT; i++)
        used += (size_t)snprintf(buffer + used, POLICY_HOSTS_TEXT - used, "%s%s", i > 0 ? " " : "",
                                 plan->hosts.items[i]);
    return buffer;
}
