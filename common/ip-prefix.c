/* IP addresses and ranges, see ip-prefix.h. */
#include "common/ip-prefix.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "common/cleanup.h"

static unsigned bits_of(const struct ip_address *address)
{
    return address->family == AF_INET ? 32 : 128;
}

/* ---- addresses */

bool ip_address_parse(const char *text, struct ip_address *ret)
{
    static const int families[] = { AF_INET, AF_INET6 };

    for (size_t i = 0; i < ELEMENTS(families); i++) {
        struct ip_address address = { .family = families[i] };

        if (inet_pton(families[i], text, address.bytes) == 1) {
            *ret = address;
            return true;
        }
    }
    return false;
}

void ip_address_format(const struct ip_address *address, char ret[INET6_ADDRSTRLEN])
{
    if (!inet_ntop(address->family, address->bytes, ret, INET6_ADDRSTRLEN))
        ret[0] = '\0';
}

bool ip_address_equal(const struct ip_address *a, const struct ip_address *b)
{
    return a->family == b->family && memcmp(a->bytes, b->bytes, bits_of(a) / 8) == 0;
}

socklen_t ip_address_to_sockaddr(const struct ip_address *address, uint16_t port,
                                 struct sockaddr_storage *ret)
{
    *ret = (struct sockaddr_storage){ .ss_family = (sa_family_t)address->family };
    if (address->family == AF_INET) {
        struct sockaddr_in *in = (struct sockaddr_in *)ret;

        in->sin_port = htons(port);
        memcpy(&in->sin_addr, address->bytes, sizeof(in->sin_addr));
        return sizeof(*in);
    }
    struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)ret;
    in6->sin6_port = htons(port);
    memcpy(&in6->sin6_addr, address->bytes, sizeof(in6->sin6_addr));
    return sizeof(*in6);
}

bool ip_address_from_sockaddr(const struct sockaddr *sockaddr, struct ip_address *ret)
{
    struct ip_address address = { .family = sockaddr->sa_family };

    if (sockaddr->sa_family == AF_INET)
        memcpy(address.bytes, &((const struct sockaddr_in *)(const void *)sockaddr)->sin_addr, 4);
    else if (sockaddr->sa_family == AF_INET6)
        memcpy(address.bytes, &((const struct sockaddr_in6 *)(const void *)sockaddr)->sin6_addr,
               16);
    else
        return false;
    *ret = address;
    return true;
}

/* Where IPv4 hides: the prefix, and the byte at which the four begin. */
static const struct {
    uint8_t prefix[12];
    unsigned length; /* bytes */
    unsigned at;
    uint8_t mask; /* Teredo writes the client's address inverted (RFC 4380, section 4) */
} hiding_places[] = {
    { { [10] = 0xff, 0xff }, 12, 12, 0 },        /* ::ffff:0:0/96 */
    { { 0 }, 12, 12, 0 },                        /* ::/96 */
    { { 0x00, 0x64, 0xff, 0x9b }, 12, 12, 0 },   /* 64:ff9b::/96 */
    { { 0x20, 0x02 }, 2, 2, 0 },                 /* 2002::/16 */
    { { 0x20, 0x01, 0x00, 0x00 }, 4, 12, 0xff }, /* 2001::/32 */
};

bool ip_address_hidden(const struct ip_address *address, struct ip_address *ret)
{
    if (address->family != AF_INET6)
        return false;
    for (size_t i = 0; i < ELEMENTS(hiding_places); i++) {
        struct ip_address hidden = { .family = AF_INET };

        if (memcmp(address->bytes, hiding_places[i].prefix, hiding_places[i].length) != 0)
            continue;
        for (size_t k = 0; k < 4; k++)
            hidden.bytes[k] = address->bytes[hiding_places[i].at + k] ^ hiding_places[i].mask;
        *ret = hidden;
        return true;
    }
    return false;
}

/* ---- ranges */

/* The byte @i of a netmask. */
static uint8_t mask_byte(unsigned length, unsigned i)
{
    if (length >= (i + 1) * 8)
        return 0xff;
    return length <= i * 8 ? 0 : (uint8_t)(0xff << (8 - length % 8));
}

bool ip_prefix_contains(const struct ip_prefix *prefix, const struct ip_address *address)
{
    if (prefix->address.family != address->family)
        return false;
    for (unsigned i = 0; i * 8 < prefix->length; i++)
        if ((prefix->address.bytes[i] ^ address->bytes[i]) & mask_byte(prefix->length, i))
            return false;
    return true;
}

/* One to three digits, without a leading zero. */
static bool parse_length(const char *text, unsigned most, unsigned *ret)
{
    unsigned value = 0;
    size_t n = strspn(text, "0123456789");

    if (n == 0 || n > 3 || text[n] != '\0' || (n > 1 && text[0] == '0'))
        return false;
    for (size_t i = 0; i < n; i++)
        value = value * 10 + (unsigned)(text[i] - '0');
    *ret = value;
    return value <= most;
}

bool ip_prefix_parse(const char *text, struct ip_prefix *ret)
{
    char address[INET6_ADDRSTRLEN];
    struct ip_prefix prefix;
    size_t n = strcspn(text, "/");

    if (n >= sizeof(address))
        return false;
    memcpy(address, text, n);
    address[n] = '\0';
    if (!ip_address_parse(address, &prefix.address))
        return false;
    unsigned most = bits_of(&prefix.address);
    prefix.length = most;
    if (text[n] == '/' && !parse_length(text + n + 1, most, &prefix.length))
        return false;
    for (unsigned i = 0; i < most / 8; i++)
        if (prefix.address.bytes[i] & ~mask_byte(prefix.length, i))
            return false;
    *ret = prefix;
    return true;
}

void ip_prefix_format(const struct ip_prefix *prefix, char ret[IP_PREFIX_TEXT_MAX])
{
    char address[INET6_ADDRSTRLEN];

    ip_address_format(&prefix->address, address);
    if (prefix->length == bits_of(&prefix->address))
        snprintf(ret, IP_PREFIX_TEXT_MAX, "%s", address);
    else
        snprintf(ret, IP_PREFIX_TEXT_MAX, "%s/%u", address, prefix->length);
}

/* ---- lists */

int ip_prefix_list_add(struct ip_prefix_list *list, const char *text)
{
    struct ip_prefix prefix;

    if (!ip_prefix_parse(text, &prefix))
        return -EINVAL;
    struct ip_prefix *items = reallocarray(list->items, list->n + 1, sizeof(*items));
    if (!items)
        return -ENOMEM;
    list->items = items;
    list->items[list->n++] = prefix;
    return 0;
}

void ip_prefix_list_release(struct ip_prefix_list *list)
{
    free(list->items);
    *list = (struct ip_prefix_list){ 0 };
}

const struct ip_prefix *ip_prefix_list_find(const struct ip_prefix_list *list,
                                            const struct ip_address *address)
{
    for (size_t i = 0; i < list->n; i++)
        if (ip_prefix_contains(&list->items[i], address))
            return &list->items[i];
    return NULL;
}
