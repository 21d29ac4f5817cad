/* Names to addresses, by c-ares in the process's own event loop: /etc/hosts, then the name servers
 * of /etc/resolv.conf. Called by the connections; must never resolve another name than it was asked
 * for (no search domains), and judges nothing. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <systemd/sd-event.h>

#include "common/ip-prefix.h"

#define RESOLVE_ADDRESSES_MAX 16

struct resolver;
struct lookup;

struct addresses {
    struct ip_address items[RESOLVE_ADDRESSES_MAX];
    size_t n;
};

/* @error is 0 with at least one address, best first; -ENOENT if there is no such name, or
 * -EREMOTEIO if nobody could tell. */
typedef void (*resolve_done)(void *data, int error, const struct addresses *addresses);

int resolver_new(sd_event *event, struct resolver **ret);
void resolver_free(struct resolver *resolver);

/* Asks for @name, normal text. Returns 0 with a lookup in @ret, and @done is called once, unless
 * the lookup is cancelled; or calls it before it returns, with NULL in @ret. Or -ENOMEM. */
int resolve(struct resolver *resolver, const char *name, resolve_done done, void *data,
            struct lookup **ret);
/* Its answer, if one comes, is thrown away. */
void resolve_cancel(struct lookup *lookup);
