/* SOCKS5's messages, see socks.h. */
#include "socks.h"

#include <errno.h>
#include <string.h>

#include "common/ip-prefix.h"

#define METHOD_NONE 0x00
#define METHOD_UNACCEPTABLE 0xff

enum address_type { TYPE_IPV4 = 1, TYPE_NAME = 3, TYPE_IPV6 = 4 };

ssize_t socks_greeting_parse(const uint8_t *data, size_t size, bool *ret_no_authentication)
{
    if (size > 0 && data[0] != SOCKS_VERSION)
        return -EBADMSG;
    if (size < 2 || size < 2U + data[1])
        return 0;
    if (data[1] == 0)
        return -EBADMSG;
    *ret_no_authentication = memchr(data + 2, METHOD_NONE, data[1]);
    return 2 + data[1];
}

static void take_address(int family, const uint8_t *bytes, size_t size, struct socks_request *ret)
{
    struct ip_address address = { .family = family };

    memcpy(address.bytes, bytes, size);
    ip_address_format(&address, ret->host);
    ret->host_size = strlen(ret->host);
}

/* Where the address begins and how long it is; 0 if more is needed. */
static ssize_t find_address(const uint8_t *data, size_t size, size_t *ret_at)
{
    *ret_at = 4;
    if (size < 5)
        return 0;
    switch (data[3]) {
    case TYPE_IPV4:
        return 4;
    case TYPE_IPV6:
        return 16;
    case TYPE_NAME:
        *ret_at = 5;
        return data[4] > 0 ? data[4] : -EBADMSG;
    default:
        return -EAFNOSUPPORT;
    }
}

ssize_t socks_request_parse(const uint8_t *data, size_t size, struct socks_request *ret)
{
    size_t at;

    if ((size > 0 && data[0] != SOCKS_VERSION) || (size > 2 && data[2] != 0))
        return -EBADMSG;
    ssize_t length = find_address(data, size, &at);
    if (length <= 0)
        return length;
    size_t end = at + (size_t)length;
    if (size < end + 2)
        return 0;
    ret->command = data[1];
    ret->port = (uint16_t)(data[end] << 8 | data[end + 1]);
    if (data[3] == TYPE_NAME) {
        memcpy(ret->host, data + at, (size_t)length);
        ret->host[length] = '\0';
        ret->host_size = (size_t)length;
    } else {
        take_address(data[3] == TYPE_IPV4 ? AF_INET : AF_INET6, data + at, (size_t)length, ret);
    }
    return (ssize_t)end + 2;
}

void socks_choice_write(bool no_authentication, uint8_t ret[SOCKS_CHOICE_SIZE])
{
    ret[0] = SOCKS_VERSION;
    ret[1] = no_authentication ? METHOD_NONE : METHOD_UNACCEPTABLE;
}

void socks_reply_write(enum socks_reply reply, uint8_t ret[SOCKS_REPLY_SIZE])
{
    memset(ret, 0, SOCKS_REPLY_SIZE);
    ret[0] = SOCKS_VERSION;
    ret[1] = (uint8_t)reply;
    ret[3] = TYPE_IPV4;
}
