/* The order of the rules, and their words, see verdict.h. */
#include "verdict.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "address.h"

#define ASK "Ask the administrator of this machine if it is needed."
#define GRANT "Name it in --network= when the run is started."

/* Writes the rule; one that is too long ends in "…". Returns false, for the verdict. */
__attribute__((format(printf, 3, 4))) static bool
refuse(struct refusal *refusal, const char *advice, const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    int n = vsnprintf(refusal->rule, sizeof(refusal->rule), format, ap);
    va_end(ap);
    /* All of it is ASCII. */
    if (n >= (int)sizeof(refusal->rule))
        strcpy(refusal->rule + sizeof(refusal->rule) - sizeof("…"), "…");
    refusal->advice = advice;
    return false;
}

void refusal_by_limit(const char *key, uint64_t limit, struct refusal *refusal)
{
    refuse(refusal, ASK, "%s=%llu", key, (unsigned long long)limit);
}

/* @items with @separator between them, cut where @size ends: refuse() sees that it is too long. */
static void join(char *const *items, size_t n, char *buffer, size_t size)
{
    size_t used = 0;

    buffer[0] = '\0';
    for (size_t i = 0; i < n && used < size; i++)
        used += (size_t)snprintf(buffer + used, size - used, "%s%s", i > 0 ? "," : "", items[i]);
}

static bool refuse_grant(const struct egress_start *policy, struct refusal *refusal)
{
    char names[EGRESS_RULE_MAX + 2];

    join(policy->granted.items, policy->granted.n, names, sizeof(names));
    return refuse(refusal, GRANT, "--network=%s", names);
}

static bool refuse_port(const struct egress_start *policy, struct refusal *refusal)
{
    char ports[EGRESS_PORTS_MAX * sizeof("65535")] = "";
    size_t used = 0;

    for (size_t i = 0; i < policy->ports.n; i++)
        used += (size_t)sprintf(ports + used, "%s%u", i > 0 ? " " : "", policy->ports.items[i]);
    return refuse(refusal, ASK, "AllowedPorts=%s", ports);
}

static bool port_is_allowed(const struct egress_ports *ports, uint16_t port)
{
    for (size_t i = 0; i < ports->n; i++)
        if (ports->items[i] == port)
            return true;
    return false;
}

bool verdict_on_name(const struct egress_start *policy, const char *host, size_t size,
                     uint16_t port, struct target *ret, struct refusal *refusal)
{
    *ret = (struct target){ .port = port };
    enum host_kind kind = host_parse(host, size, ret->host);
    if (kind == HOST_MALFORMED)
        return refuse(refusal, "That is no name of a host.", "AllowedNames= (malformed name)");
    ret->is_address = kind == HOST_ADDRESS && ip_address_parse(ret->host, &ret->address);
    if (!port_is_allowed(&policy->ports, port))
        return refuse_port(policy, refusal);
    if (policy->granted.n > 0 && !host_list_find(&policy->granted, ret->host))
        return refuse_grant(policy, refusal);
    const char *denied = host_list_find(&policy->denied_names, ret->host);
    if (denied)
        return refuse(refusal, ASK, "DeniedNames=%s", denied);
    if (!host_list_find(&policy->allowed_names, ret->host))
        return refuse(refusal, ASK,
                      ret->is_address ? "AllowedNames= (addresses are allowed one by one)"
                                      : "AllowedNames=");
    return true;
}

/* Denied as itself, or as what hides in it. */
static const struct ip_prefix *find_denied(const struct egress_start *policy,
                                           const struct ip_address *address)
{
    struct ip_address hidden;

    const struct ip_prefix *denied = ip_prefix_list_find(&policy->denied_addresses, address);
    if (!denied && ip_address_hidden(address, &hidden))
        denied = ip_prefix_list_find(&policy->denied_addresses, &hidden);
    return denied;
}

/* What is not in the internet has to be listed as itself, or as the IPv4 address it is. */
static bool is_listed(const struct egress_start *policy, const struct ip_address *address)
{
    struct ip_address four;

    return ip_prefix_list_find(&policy->allowed_addresses, address) ||
           (address_stands_for(address, &four) &&
            ip_prefix_list_find(&policy->allowed_addresses, &four));
}

bool verdict_on_address(const struct egress_start *policy, const struct ip_address *address,
                        bool own, struct refusal *refusal)
{
    char text[IP_PREFIX_TEXT_MAX];

    const struct ip_prefix *denied = find_denied(policy, address);
    if (denied) {
        ip_prefix_format(denied, text);
        return refuse(refusal, ASK, "DeniedAddresses=%s", text);
    }
    const char *special = address_special(address);
    if ((!special && !own) || is_listed(policy, address))
        return true;
    ip_address_format(address, text);
    return refuse(refusal, ASK, "AllowedAddresses= (%s is %s)", text,
                  special ? special : "this machine's own address");
}
