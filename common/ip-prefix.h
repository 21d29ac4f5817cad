/* IP addresses and ranges of them. Called by the broker, which reads them from the configuration,
 * and by the egress process, which judges by them. Pure: asks neither the kernel nor a name server.
 */
#pragma once

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#define IP_PREFIX_TEXT_MAX (INET6_ADDRSTRLEN + 4) /* with "/128" */

struct ip_address {
    int family;        /* AF_INET or AF_INET6 */
    uint8_t bytes[16]; /* the first 4 of them for AF_INET, the rest is 0 */
};

struct ip_prefix {
    struct ip_address address;
    unsigned length; /* bits, up to 32 or 128 */
};

struct ip_prefix_list {
    struct ip_prefix *items;
    size_t n;
};

/* Reads canonical text: four decimal numbers, or IPv6 as of inet_pton(3), without brackets or zone.
 */
bool ip_address_parse(const char *text, struct ip_address *ret);
void ip_address_format(const struct ip_address *address, char ret[INET6_ADDRSTRLEN]);
bool ip_address_equal(const struct ip_address *a, const struct ip_address *b);

/* Makes a socket address. Returns its length. */
socklen_t ip_address_to_sockaddr(const struct ip_address *address, uint16_t port,
                                 struct sockaddr_storage *ret);
/* False if @sockaddr is of another family. */
bool ip_address_from_sockaddr(const struct sockaddr *sockaddr, struct ip_address *ret);

/* The IPv4 address that an IPv6 one carries where a translator, a tunnel or the kernel would go to
 * it: mapped, compatible, NAT64 (RFC 6052, well-known prefix), 6to4, Teredo's client. */
bool ip_address_hidden(const struct ip_address *address, struct ip_address *ret);

/* Reads ADDRESS or ADDRESS/BITS. False also for an address that has bits beyond its prefix, which
 * somebody meant otherwise. */
bool ip_prefix_parse(const char *text, struct ip_prefix *ret);
/* Without "/BITS" for a single address. */
void ip_prefix_format(const struct ip_prefix *prefix, char ret[IP_PREFIX_TEXT_MAX]);
/* An IPv4 address is in no IPv6 range, and the other way round. */
bool ip_prefix_contains(const struct ip_prefix *prefix, const struct ip_address *address);

/* Adds a range by its text. Returns 0, -EINVAL if it is none, or -ENOMEM. */
int ip_prefix_list_add(struct ip_prefix_list *list, const char *text);
void ip_prefix_list_release(struct ip_prefix_list *list);
/* The first range with @address in it, or NULL. */
const struct ip_prefix *ip_prefix_list_find(const struct ip_prefix_list *list,
                                            const struct ip_address *address);
