/* Whether a connection is allowed, and by which rule it is not: by name and port before anything is
 * resolved, by address before it is connected to. Called by the connections; asks nobody. */
#pragma once

#include <stdbool.h>

#include "protocol.h"

struct target {
    char host[HOST_TEXT_MAX + 1]; /* normal text; empty if malformed */
    bool is_address;
    struct ip_address address; /* if so */
    uint16_t port;
};

/* Why not, in the configuration's words, and what to do about it. */
struct refusal {
    char rule[EGRESS_RULE_MAX + 1];
    const char *advice; /* a sentence */
};

/* Judges what was asked for, @size bytes as they came. Returns true with @ret, or false with
 * @refusal. */
bool verdict_on_name(const struct egress_start *policy, const char *host, size_t size,
                     uint16_t port, struct target *ret, struct refusal *refusal);

/* Judges an address that is about to be connected to; @own: it is the machine's own. Returns true,
 * or false with @refusal. */
bool verdict_on_address(const struct egress_start *policy, const struct ip_address *address,
                        bool own, struct refusal *refusal);

/* The same form for limits: "Bytes=…", "Connections=…". */
void refusal_by_limit(const char *key, uint64_t limit, struct refusal *refusal);
