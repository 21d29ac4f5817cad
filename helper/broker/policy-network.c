/* Hosts by the configuration, see policy-network.h. What is admitted here is judged again, at each
 * connection, by the egress process. */
#include "broker/policy-network.h"

#include <stdio.h>

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
    plan->egress = plan->limits.network && (plan->approvals & APPROVAL_CLOUD) == 0;
    return 0;
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
