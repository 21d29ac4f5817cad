/* SOCKS5 (RFC 1928) as far as it is spoken here: no authentication, CONNECT. Pure. Called for what
 * a program in the sandbox sends. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define SOCKS_VERSION 5
#define SOCKS_HOST_MAX 255
#define SOCKS_CONNECT 1
/* The longest message: a request with a name of 255 bytes. */
#define SOCKS_MESSAGE_MAX (4 + 1 + SOCKS_HOST_MAX + 2)

enum socks_reply {
    SOCKS_SUCCEEDED = 0x00,
    SOCKS_FAILURE = 0x01,
    SOCKS_NOT_ALLOWED = 0x02,
    SOCKS_HOST_UNREACHABLE = 0x04,
    SOCKS_CONNECTION_REFUSED = 0x05,
    SOCKS_TTL_EXPIRED = 0x06,
    SOCKS_COMMAND_NOT_SUPPORTED = 0x07,
    SOCKS_ADDRESS_NOT_SUPPORTED = 0x08,
};

struct socks_request {
    uint8_t command;
    char host[SOCKS_HOST_MAX + 1]; /* a name as it was sent, or an address as text */
    size_t host_size;              /* the name may hold NULs */
    uint16_t port;
};

/* Both return the size of the message at the beginning of @data, 0 if more is needed, -EBADMSG for
 * what is none, and -EAFNOSUPPORT for an unknown type of address. */
ssize_t socks_greeting_parse(const uint8_t *data, size_t size, bool *ret_no_authentication);
ssize_t socks_request_parse(const uint8_t *data, size_t size, struct socks_request *ret);

#define SOCKS_CHOICE_SIZE 2
void socks_choice_write(bool no_authentication, uint8_t ret[SOCKS_CHOICE_SIZE]);
/* Without the address that we connect from: that is nobody's business in the sandbox. */
#define SOCKS_REPLY_SIZE 10
void socks_reply_write(enum socks_reply reply, uint8_t ret[SOCKS_REPLY_SIZE]);
