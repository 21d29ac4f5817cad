/* What a run did with its network, as lines. Called by show.c. */
#pragma once

#include <json-c/json.h>

/* Prints the type NetworkUse: the hosts that were contacted and those that were refused. NULL, and
 * what is no such object, prints nothing. */
void network_use_print(json_object *object);
