/* Kinds of addresses, see address.h. */
#include "address.h"

#include <errno.h>
#include <string.h>

#include "common/cleanup.h"

#define V4(a, b, c, d)                             \
    {                                              \
        .family = AF_INET, .bytes = { a, b, c, d } \
    }
#define V6(...)                                      \
    {                                                \
        .family = AF_INET6, .bytes = { __VA_ARGS__ } \
    }

/* The IANA special-purpose registries (RFC 6890) with what is multicast, reserved or deprecated,
 * and an address of one cloud's metadata that lies elsewhere. The first that holds names it. Of
 * IPv6, what is not within global_unicast is special without being here. */
static const struct {
    struct ip_prefix prefix;
    const char *what;
} special[] = {
    { { V4(169, 254, 169, 254), 32 }, "the address of a cloud's metadata" },
    { { V4(168, 63, 129, 16), 32 }, "the address of a cloud's metadata" }, /* Azure's */
    { { V4(127, 0, 0, 0), 8 }, "a loopback address" },
    { { V4(10, 0, 0, 0), 8 }, "a private address" },
    { { V4(172, 16, 0, 0), 12 }, "a private address" },
    { { V4(192, 168, 0, 0), 16 }, "a private address" },
    { { V4(100, 64, 0, 0), 10 }, "a shared address" },
    { { V4(169, 254, 0, 0), 16 }, "a link-local address" },
    { { V4(224, 0, 0, 0), 4 }, "a multicast address" },
    { { V4(0, 0, 0, 0), 8 }, "a special address" },
    { { V4(192, 0, 0, 0), 24 }, "a special address" },
    { { V4(192, 0, 2, 0), 24 }, "a special address" },
    { { V4(192, 88, 99, 0), 24 }, "a special address" },
    { { V4(198, 18, 0, 0), 15 }, "a special address" },
    { { V4(198, 51, 100, 0), 24 }, "a special address" },
    { { V4(203, 0, 113, 0), 24 }, "a special address" },
    { { V4(240, 0, 0, 0), 4 }, "a special address" },
    { { V6([15] = 1), 128 }, "a loopback address" },
    { { V6(0xfd, 0x00, 0x0e, 0xc2, [14] = 0x02, 0x54), 128 },
      "the address of a cloud's metadata" }, /* AWS's, within fc00::/7 */
    { { V6(0xfc), 7 }, "a private address" },
    { { V6(0xfe, 0x80), 10 }, "a link-local address" },
    { { V6(0xfe, 0xc0), 10 }, "a private address" },
    { { V6(0xff), 8 }, "a multicast address" },
    { { V6(0x20, 0x01), 23 }, "a special address" },
    { { V6(0x20, 0x01, 0x0d, 0xb8), 32 }, "a special address" },
    { { V6(0x20, 0x02), 16 }, "a special address" },
    { { V6(0x3f, 0xff), 20 }, "a special address" },
};

/* All that IANA has given out of IPv6. The rest is special already, or may get a meaning that
 * nobody here knows: translated addresses (::ffff:0:127.0.0.1, RFC 2765) have one where somebody
 * translates. */
static const struct ip_prefix global_unicast = { V6(0x20), 3 };

bool address_stands_for(const struct ip_address *address, struct ip_address *ret)
{
    static const struct ip_prefix mapped = { V6([10] = 0xff, 0xff), 96 };
    static const struct ip_prefix nat64 = { V6(0x00, 0x64, 0xff, 0x9b), 96 };

    return (ip_prefix_contains(&mapped, address) || ip_prefix_contains(&nat64, address)) &&
           ip_address_hidden(address, ret);
}

const char *address_special(const struct ip_address *address)
{
    struct ip_address four;

    if (address_stands_for(address, &four))
        address = &four;
    for (size_t i = 0; i < ELEMENTS(special); i++)
        if (ip_prefix_contains(&special[i].prefix, address))
            return special[i].what;
    if (address->family == AF_INET6 && !ip_prefix_contains(&global_unicast, address))
        return "a special address";
    return NULL;
}

/* ---- our own */

/* Whether a socket can be bound to it. */
static bool can_bind(const struct ip_address *address)
{
    _cleanup_close_ int fd = socket(address->family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct sockaddr_storage storage;
    socklen_t size = ip_address_to_sockaddr(address, 0, &storage);

    return fd < 0 || bind(fd, (struct sockaddr *)&storage, size) == 0 || errno != EADDRNOTAVAIL;
}

/* With net.ipv4.ip_nonlocal_bind (or IPv6's) everything can be bound to, and nothing told. These
 * two are nobody's: class E, and what is for discarding (RFC 6666). */
static bool can_bind_anything(int family)
{
    static const struct ip_address nobodys4 = V4(240, 0, 0, 1), nobodys6 = V6(0x01, [15] = 1);

    return can_bind(family == AF_INET ? &nobodys4 : &nobodys6);
}

bool address_is_own(const struct ip_address *address)
{
    struct ip_address hidden;

    if (ip_address_hidden(address, &hidden) && address_is_own(&hidden))
        return true;
    return can_bind(address) || can_bind_anything(address->family);
}
