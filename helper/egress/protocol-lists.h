/* The lists of names, addresses and ports that say where a run may connect to, as arrays of JSON.
 * Called by protocol.c, for start, and by the broker, which tells callers of them. */
#pragma once

#include "common/json.h"
#include "protocol.h"

/* A new reference, or NULL out of memory. */
json_object *egress_names_array(const struct host_list *list);
json_object *egress_addresses_array(const struct ip_prefix_list *list);
json_object *egress_ports_array(const struct egress_ports *ports);

/* Add the elements to @ret; @array may be NULL. Return 0; -EBADMSG for an element that does not
 * belong there, or more ports than there is room for; -ENOMEM. */
int egress_names_read(json_object *array, struct host_list *ret);
int egress_addresses_read(json_object *array, struct ip_prefix_list *ret);
int egress_ports_read(json_object *array, struct egress_ports *ret);
