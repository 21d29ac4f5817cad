/* Which addresses are not simply a place in the internet: special-purpose ones, and this machine's
 * own. Called for the verdict on each address before it is connected to. */
#pragma once

#include <stdbool.h>

#include "common/ip-prefix.h"

/* Where the kernel (mapped), or a translator that a network needs (NAT64), goes to an IPv4 address
 * itself: that address, which alone is to be judged. Pure. */
bool address_stands_for(const struct ip_address *address, struct ip_address *ret);

/* What is special about the address ("a private address"), or NULL. Of an address that stands for
 * an IPv4 one, what is special about that. Pure. */
const char *address_special(const struct ip_address *address);

/* Whether the address is this machine's own, a broadcast address of its networks included: those
 * are the ones that a socket can be bound to. True if it cannot be told. */
bool address_is_own(const struct ip_address *address);
