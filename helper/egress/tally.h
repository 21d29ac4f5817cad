/* What all connections of a run come to, for the last message. Pure; called by the session. */
#pragma once

#include "protocol.h"

struct tally {
    struct egress_finished sums; /* without lists */
    struct egress_host hosts[EGRESS_HOSTS_MAX], refused_hosts[EGRESS_HOSTS_MAX];
};

/* Whether it would make a new entry in the list of hosts that were connected to. */
bool tally_is_first(const struct tally *tally, const struct egress_connection *connection);

/* Counts a connection that is over; @recorded: it had a message of its own. */
void tally_add(struct tally *tally, const struct egress_connection *connection, bool recorded);

/* The message; its lists are borrowed from @tally, and not to be released. */
struct egress_message tally_message(struct tally *tally);
