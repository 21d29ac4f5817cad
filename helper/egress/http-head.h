/* The heads of HTTP/1 messages (RFC 9112), read strictly and written anew for the next hop. Pure.
 * Called for what programs in the sandbox and servers outside sent; must never let through what two
 * readers could take for two things. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define HTTP_HEAD_MAX (16 * 1024)
#define HTTP_FIELDS_MAX 100
/* What methods and names of fields are made of. */
#define HTTP_TOKEN                                        \
    "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz" \
    "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
/* Most bytes that a head gains when written anew. */
#define HTTP_HEAD_GROWTH 256

/* Bytes of a head, borrowed, without a NUL at their end. */
struct span {
    const char *data;
    size_t size;
};

struct http_field {
    struct span name, value;
};

struct http_fields {
    struct http_field items[HTTP_FIELDS_MAX];
    size_t n;
};

enum http_body {
    HTTP_BODY_NONE,
    HTTP_BODY_LENGTH,
    HTTP_BODY_CHUNKED,
};

struct http_request {
    struct span method;
    bool is_connect;
    unsigned minor;   /* HTTP/1.0 or 1.1 */
    struct span host; /* as it stands in the request, without the brackets of IPv6 */
    bool in_brackets;
    uint16_t port;
    struct span path; /* with query; begins with "/", or with "?" */
    struct http_fields fields;
    enum http_body body;
    uint64_t length;
};

struct http_response {
    unsigned minor, status;
    struct span reason;
    struct http_fields fields;
};

/* Bytes up to and with the empty line, of which @size may be a part. @seen bytes were looked at in
 * an earlier call. Returns 0 if more is needed, -E2BIG if that would be above HTTP_HEAD_MAX, and
 * -EBADMSG for a line that does not end in CRLF. */
ssize_t http_head_size(const char *data, size_t size, size_t seen);

/* Read a complete head. Return NULL with the head in @ret, or what is wrong with it, to be put
 * behind "malformed request: ". */
const char *http_request_parse(const char *head, size_t size, struct http_request *ret);
const char *http_response_parse(const char *head, size_t size, struct http_response *ret);

/* Write the head for the next hop, which is told to close the connection after it; @buffer has room
 * for the size of the head that was read, and HTTP_HEAD_GROWTH. Return the size. */
size_t http_request_write(const struct http_request *request, char *buffer);
size_t http_response_write(const struct http_response *response, char *buffer);
