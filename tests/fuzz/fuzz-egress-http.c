/* What programs in sandboxes and servers send, on arbitrary bytes: heads of requests and responses,
 * and chunked bodies. What is forwarded must have one meaning, whoever reads it. */
#include "egress/chunked.h"
#include "egress/http-head.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#include "check.h"
#include "common/cleanup.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Lines of a head that begin with @name and a colon. */
static size_t count_fields(const char *head, const char *name)
{
    size_t n = 0;

    for (const char *at = strstr(head, "\r\n"); at; at = strstr(at + 2, "\r\n"))
        n += strncasecmp(at + 2, name, strlen(name)) == 0 && at[2 + strlen(name)] == ':';
    return n;
}

/* One head, whose lines end in CRLF and hold no control character. */
static void check_written(const char *head, size_t size, size_t read)
{
    check(size <= read + HTTP_HEAD_GROWTH);
    check(strlen(head) == size);
    check(size > 4 && strstr(head, "\r\n\r\n") == head + size - 4);
    for (size_t i = 0; i < size; i++) {
        check(head[i] != '\n' || head[i - 1] == '\r');
        check(head[i] != '\r' || head[i + 1] == '\n');
        check((unsigned char)head[i] >= ' ' || strchr("\t\r\n", head[i]));
    }
    check(count_fields(head, "Content-Length") + count_fields(head, "Transfer-Encoding") <= 2);
    check(count_fields(head, "Keep-Alive") == 0 && count_fields(head, "Upgrade") == 0);
    check(count_fields(head, "Proxy-Authorization") == 0);
}

static void try_request(const char *data, size_t size)
{
    char head[HTTP_HEAD_MAX + HTTP_HEAD_GROWTH + 1];
    struct http_request request;

    if (http_request_parse(data, size, &request))
        return;
    check(request.port > 0 && request.host.size > 0 && request.fields.n <= HTTP_FIELDS_MAX);
    check(!memchr(request.host.data, '@', request.host.size));
    if (request.is_connect)
        return;
    size_t written = http_request_write(&request, head);
    head[written] = '\0';
    check_written(head, written, size);
    check(count_fields(head, "Host") == 1 && count_fields(head, "Connection") == 1);
    check(count_fields(head, "Content-Length") == (request.body == HTTP_BODY_LENGTH));
    check(count_fields(head, "Transfer-Encoding") == (request.body == HTTP_BODY_CHUNKED));
}

static void try_response(const char *data, size_t size)
{
    char head[HTTP_HEAD_MAX + HTTP_HEAD_GROWTH + 1];
    struct http_response response, again;

    if (http_response_parse(data, size, &response))
        return;
    check(response.status >= 100 && response.status <= 999);
    size_t written = http_response_write(&response, head);
    head[written] = '\0';
    check(written <= size + HTTP_HEAD_GROWTH && strlen(head) == written);
    check(count_fields(head, "Connection") == (response.status >= 200));
    if (response.fields.n == HTTP_FIELDS_MAX)
        return;
    check(!http_response_parse(head, written, &again));
    check(again.status == response.status);
}

/* The same by bytes as at once. */
static ssize_t find_head(const char *data, size_t size)
{
    ssize_t whole = http_head_size(data, size, 0), step = 0;

    for (size_t i = 1; i <= size && step == 0; i++)
        step = http_head_size(data, i, i - 1);
    check(step == whole || (step < 0 && whole < 0) || (step == -E2BIG && whole > 0) ||
          (step > 0 && whole == -EBADMSG));
    return step;
}

static void try_chunked(const char *data, size_t size)
{
    struct chunked whole = { 0 }, steps = { 0 }, rest = { 0 };
    ssize_t n = chunked_follow(&whole, data, size), step = 0;
    size_t i = 0;

    while (i < size && step >= 0 && !chunked_is_done(&steps))
        step = chunked_follow(&steps, data + i++, 1);
    check((n < 0) == (step < 0));
    if (n < 0)
        return;
    check((size_t)n == i && chunked_is_done(&whole) == chunked_is_done(&steps));
    check((size_t)n == size || chunked_is_done(&whole));
    if (!chunked_is_done(&whole))
        return;
    /* It ends where it ends, and not a byte before. */
    check(n >= 5 && memcmp(data + n - 2, "\r\n", 2) == 0);
    check(chunked_follow(&rest, data, (size_t)n - 1) == n - 1 && !chunked_is_done(&rest));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    /* A copy of that very size, so that a byte too far is noticed. */
    _cleanup_free_ char *copy = malloc(size > 0 ? size : 1);

    memcpy(copy, data, size);
    if (size > HTTP_HEAD_MAX + 100)
        return 0;
    try_chunked(copy, size);
    ssize_t head = find_head(copy, size);
    if (head <= 0)
        return 0;
    _cleanup_free_ char *exact = malloc((size_t)head);
    memcpy(exact, copy, (size_t)head);
    try_request(exact, (size_t)head);
    try_response(exact, (size_t)head);
    return 0;
}
