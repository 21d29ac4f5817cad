/* Section [Network] of the configuration: where a run with a network may connect to. The broker
 * reads it, the egress process judges by it (egress/protocol.h). Called by config.c. */
#pragma once

#include <stdbool.h>

#include "egress/protocol.h"

struct config_network {
    struct host_list allowed_names, denied_names;
    struct ip_prefix_list allowed_addresses, denied_addresses;
    struct egress_ports ports;
    bool has_names, has_ports;              /* they were configured, be it to be empty */
    uint64_t connections, bytes, idle_usec; /* of a run: at once, in all; of a connection */
};

/* Each adds the words of @value, with spaces between them, to what a list has; of an empty value it
 * begins anew. Returns 0, -EINVAL, -E2BIG or -ENOMEM. */
int config_network_add_names(struct host_list *list, const char *value);
int config_network_add_addresses(struct ip_prefix_list *list, const char *value);
int config_network_add_ports(struct egress_ports *ports, const char *value);

/* Fills in what was not configured: any name, ports 80 and 443. Returns 0; -E2BIG for lists that
 * are too long to be told to the egress process, with all that a caller may add to them; -ENOMEM.
 */
int config_network_complete(struct config_network *network);
void config_network_release(struct config_network *network);

/* What is told to the egress process. Everything in @ret stays the configuration's and @granted's:
 * it is not to be released. */
void config_network_start(const struct config_network *network, const char *run_id,
                          const struct host_list *granted, struct egress_start *ret);
