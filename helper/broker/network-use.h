/* What a run did with its network, in words and as a part of its result. Pure. */
#pragma once

#include "common/json.h"
#include "egress/protocol.h"

struct network_use {
    struct egress_finished
        told;            /* the process's last word; before that, what its records add up to */
    bool finished;       /* that word came */
    bool lost;           /* it never will */
    uint64_t unrecorded; /* that the journal did not take */
    char refusal[256];   /* of the first connection that was refused; may be empty */
};

void network_use_release(struct network_use *use);
/* Counts a connection that is over. */
void network_use_add(struct network_use *use, const struct egress_connection *connection);
/* Takes the last word; leaves an empty one. */
void network_use_finish(struct network_use *use, struct egress_finished *finished);

/* The type NetworkUse. A new reference, or NULL out of memory. */
json_object *network_use_object(const struct network_use *use);
