/* SOCKS5's messages and names of hosts, on arbitrary bytes. What is taken must be within its
 * bounds, and the same whether it came at once or in pieces. */
#include "egress/socks.h"

#include <errno.h>
#include <string.h>

#include "check.h"
#include "common/cleanup.h"
#include "common/host-pattern.h"
#include "common/ip-prefix.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A host that is taken is in normal text, and one thing only. */
static void try_host(const char *host, size_t size)
{
    char normal[HOST_TEXT_MAX + 1], again[HOST_TEXT_MAX + 1];
    struct ip_address address;

    enum host_kind kind = host_parse(host, size, normal);
    if (kind == HOST_MALFORMED)
        return;
    check(host_parse(normal, strlen(normal), again) == kind && strcmp(normal, again) == 0);
    check(host_pattern_parse(normal, again) && strcmp(normal, again) == 0);
    check(host_pattern_covers(normal, normal));
    check(ip_address_parse(normal, &address) == (kind == HOST_ADDRESS));
    check(host_pattern_covers("*", normal) == (kind == HOST_NAME));
    check(normal[strcspn(normal, " \t\r\n/@%[]*?#\\\"'")] == '\0');
}

static void try_greeting(const uint8_t *data, size_t size)
{
    bool whole = false, part = false;

    ssize_t n = socks_greeting_parse(data, size, &whole);
    check(n <= (ssize_t)size && n <= 257);
    for (ssize_t i = 0; i < n; i++)
        check(socks_greeting_parse(data, (size_t)i, &part) == 0);
    check(n <= 0 || (socks_greeting_parse(data, (size_t)n, &part) == n && whole == part));
}

static void try_request(const uint8_t *data, size_t size)
{
    struct socks_request request, part;

    ssize_t n = socks_request_parse(data, size, &request);
    check(n <= (ssize_t)size && n <= SOCKS_MESSAGE_MAX);
    check(n >= 0 || n == -EBADMSG || n == -EAFNOSUPPORT);
    check(n != 0 || size < SOCKS_MESSAGE_MAX);
    if (n <= 0)
        return;
    for (ssize_t i = 0; i < n; i++)
        check(socks_request_parse(data, (size_t)i, &part) == 0);
    check(request.host_size > 0 && request.host_size <= SOCKS_HOST_MAX);
    check(request.host[request.host_size] == '\0');
    try_host(request.host, request.host_size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    /* A copy of that very size, so that a byte too far is noticed. */
    _cleanup_free_ uint8_t *copy = malloc(size > 0 ? size : 1);

    memcpy(copy, data, size);
    try_greeting(copy, size);
    try_request(copy, size);
    try_host((const char *)copy, size);
    return 0;
}
