/* Strict reading and writing of HTTP/1 heads, see http-head.h. */
#include "http-head.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#define DIGITS "0123456789"
#define HTTP_PORT 80

ssize_t http_head_size(const char *data, size_t size, size_t seen)
{
    const char *at = data + seen, *end = data + size;

    while ((at = memchr(at, '\n', (size_t)(end - at)))) {
        if (at == data || at[-1] != '\r')
            return -EBADMSG;
        at++;
        if (at - data >= 4 && memcmp(at - 4, "\r\n\r\n", 4) == 0)
            return at - data > HTTP_HEAD_MAX ? -E2BIG : at - data;
    }
    return size >= HTTP_HEAD_MAX ? -E2BIG : 0;
}

/* ---- spans */

static bool span_is(struct span span, const char *text)
{
    return span.size == strlen(text) && strncasecmp(span.data, text, span.size) == 0;
}

static bool span_begins(struct span span, const char *text)
{
    size_t n = strlen(text);

    return span.size >= n && strncasecmp(span.data, text, n) == 0;
}

static bool is_one_of(char c, const char *set)
{
    return c != '\0' && strchr(set, c);
}

static size_t count(struct span span, const char *set)
{
    size_t n = 0;

    while (n < span.size && is_one_of(span.data[n], set))
        n++;
    return n;
}

static struct span skip(struct span span, size_t n)
{
    return (struct span){ span.data + n, span.size - n };
}

/* What is before the first @c, which there need not be. */
static struct span before(struct span span, char c)
{
    const char *at = memchr(span.data, c, span.size);

    return (struct span){ span.data, at ? (size_t)(at - span.data) : span.size };
}

static bool is_token(struct span span)
{
    return span.size > 0 && count(span, HTTP_TOKEN) == span.size;
}

static struct span trim(struct span span)
{
    while (span.size > 0 && is_one_of(span.data[0], " \t"))
        span = skip(span, 1);
    while (span.size > 0 && is_one_of(span.data[span.size - 1], " \t"))
        span.size--;
    return span;
}

/* Digits only, and few enough for INT64_MAX. */
static bool to_number(struct span span, uint64_t *ret)
{
    uint64_t value = 0;

    if (span.size == 0 || span.size > 18 || count(span, DIGITS) != span.size)
        return false;
    for (size_t i = 0; i < span.size; i++)
        value = value * 10 + (uint64_t)(span.data[i] - '0');
    *ret = value;
    return true;
}

/* ---- lines */

/* The next line of @rest, without CRLF, and @rest behind it. A head ends in CRLF. */
static struct span take_line(struct span *rest)
{
    const char *end = memmem(rest->data, rest->size, "\r\n", 2);
    struct span line = { rest->data, end ? (size_t)(end - rest->data) : rest->size };

    *rest = skip(*rest, end ? line.size + 2 : line.size);
    return line;
}

/* Neither a control character, but tabs, nor DEL. */
static bool is_clean(struct span span)
{
    for (size_t i = 0; i < span.size; i++)
        if (((unsigned char)span.data[i] < ' ' && span.data[i] != '\t') || span.data[i] == 0x7f)
            return false;
    return true;
}

static bool take_version(struct span text, unsigned *ret_minor)
{
    if (text.size != 8 || memcmp(text.data, "HTTP/1.", 7) != 0 || !is_one_of(text.data[7], "01"))
        return false;
    *ret_minor = (unsigned)(text.data[7] - '0');
    return true;
}

static const char *take_fields(struct span rest, struct http_fields *ret)
{
    ret->n = 0;
    for (;;) {
        struct span line = take_line(&rest);

        if (line.size == 0)
            return rest.size == 0 ? NULL : "an empty line within the head";
        if (!is_clean(line))
            return "a control character";
        if (ret->n == HTTP_FIELDS_MAX)
            return "more than 100 header fields";
        struct span name = before(line, ':');
        /* A folded line, and a space before the colon, fail here, too. */
        if (name.size == line.size || !is_token(name))
            return "a header line that is none";
        ret->items[ret->n++] = (struct http_field){ name, trim(skip(line, name.size + 1)) };
    }
}

/* The only field of that name; .data is NULL if there is none. False if there are more. */
static bool find_only(const struct http_fields *fields, const char *name, struct span *ret)
{
    *ret = (struct span){ 0 };
    for (size_t i = 0; i < fields->n; i++) {
        if (!span_is(fields->items[i].name, name))
            continue;
        if (ret->data)
            return false;
        *ret = fields->items[i].value;
    }
    return true;
}

/* ---- requests */

/* Reads host[:port], in the form of a URL. */
static const char *take_authority(struct span authority, uint16_t standard_port,
                                  struct http_request *ret)
{
    struct span rest;
    uint64_t port = standard_port;

    if (memchr(authority.data, '@', authority.size))
        return "a user name in the URL";
    ret->in_brackets = span_begins(authority, "[");
    if (ret->in_brackets) {
        ret->host = before(skip(authority, 1), ']');
        if (ret->host.size + 1 == authority.size)
            return "a bracket without its other half";
        if (!memchr(ret->host.data, ':', ret->host.size))
            return "brackets around what is no IPv6 address";
        rest = skip(authority, ret->host.size + 2);
    } else {
        ret->host = before(authority, ':');
        rest = skip(authority, ret->host.size);
    }
    if (ret->host.size == 0)
        return "no host";
    if (rest.size == 0 && standard_port == 0)
        return "no port";
    if (rest.size > 0 && (rest.data[0] != ':' || rest.size > 6 ||
                          !to_number(skip(rest, 1), &port) || port < 1 || port > UINT16_MAX))
        return "a port that is none";
    ret->port = (uint16_t)port;
    return NULL;
}

static const char *take_url(struct span url, struct http_request *ret)
{
    size_t n = 0;

    if (!span_begins(url, "http://"))
        return "neither CONNECT nor a URL that begins with http://";
    url = skip(url, strlen("http://"));
    while (n < url.size && !is_one_of(url.data[n], "/?#"))
        n++;
    ret->path = skip(url, n);
    if (ret->path.size > 0 && !is_one_of(ret->path.data[0], "/?"))
        return "a URL that is none";
    if (memchr(ret->path.data, '#', ret->path.size))
        return "a fragment in the URL";
    return take_authority((struct span){ url.data, n }, HTTP_PORT, ret);
}

static const char *take_request_line(struct span line, struct http_request *ret)
{
    if (!is_clean(line) || memchr(line.data, '\t', line.size))
        return "a control character";
    ret->method = before(line, ' ');
    if (!is_token(ret->method) || ret->method.size == line.size)
        return "a request line that is none";
    line = skip(line, ret->method.size + 1);
    struct span target = before(line, ' ');
    if (target.size == line.size || !take_version(skip(line, target.size + 1), &ret->minor))
        return "neither HTTP/1.0 nor HTTP/1.1";
    for (size_t i = 0; i < target.size; i++)
        if ((unsigned char)target.data[i] >= 0x80)
            return "a URL that is not ASCII";
    ret->is_connect = ret->method.size == 7 && memcmp(ret->method.data, "CONNECT", 7) == 0;
    ret->path = (struct span){ "", 0 };
    return ret->is_connect ? take_authority(target, 0, ret) : take_url(target, ret);
}

/* How long the body is (RFC 9112, section 6.3), where there is no doubt. */
static const char *take_framing(struct http_request *ret)
{
    struct span length, coding, host;

    if (!find_only(&ret->fields, "Host", &host) || (!host.data && ret->minor == 1))
        return "not one Host";
    if (!find_only(&ret->fields, "Content-Length", &length))
        return "more than one Content-Length";
    if (!find_only(&ret->fields, "Transfer-Encoding", &coding))
        return "more than one Transfer-Encoding";
    if (length.data && coding.data)
        return "both Content-Length and Transfer-Encoding";
    if (ret->is_connect && (coding.data || (length.data && !span_is(length, "0"))))
        return "CONNECT with a body";
    ret->body = HTTP_BODY_NONE;
    if (length.data) {
        ret->body = HTTP_BODY_LENGTH;
        if (!to_number(length, &ret->length))
            return "a Content-Length that is none";
    } else if (coding.data) {
        ret->body = HTTP_BODY_CHUNKED;
        if (!span_is(coding, "chunked") || ret->minor == 0)
            return "a Transfer-Encoding other than chunked of HTTP/1.1";
    }
    return NULL;
}

const char *http_request_parse(const char *head, size_t size, struct http_request *ret)
{
    struct span rest = { head, size }, line = take_line(&rest);

    ret->length = 0;
    const char *wrong = take_request_line(line, ret);
    wrong = wrong ? wrong : take_fields(rest, &ret->fields);
    return wrong ? wrong : take_framing(ret);
}

/* ---- responses */

const char *http_response_parse(const char *head, size_t size, struct http_response *ret)
{
    struct span rest = { head, size }, line = take_line(&rest);
    uint64_t status;

    if (!is_clean(line))
        return "a control character";
    struct span version = before(line, ' ');
    if (version.size == line.size || !take_version(version, &ret->minor))
        return "neither HTTP/1.0 nor HTTP/1.1";
    line = skip(line, version.size + 1);
    struct span code = before(line, ' ');
    if (code.size != 3 || !to_number(code, &status) || status < 100)
        return "a status that is none";
    ret->status = (unsigned)status;
    ret->reason = skip(line, code.size < line.size ? code.size + 1 : code.size);
    return take_fields(rest, &ret->fields);
}

/* ---- writing */

static char *put(char *at, struct span span)
{
    memcpy(at, span.data, span.size);
    return at + span.size;
}

static char *put_text(char *at, const char *text)
{
    return put(at, (struct span){ text, strlen(text) });
}

static char *put_number(char *at, uint64_t number)
{
    char digits[20];
    size_t n = sizeof(digits);

    do
        digits[--n] = (char)('0' + number % 10);
    while ((number /= 10) > 0);
    return put(at, (struct span){ digits + n, sizeof(digits) - n });
}

static char *put_field(char *at, const struct http_field *field)
{
    at = put(at, field->name);
    at = put_text(at, ": ");
    at = put(at, field->value);
    return put_text(at, "\r\n");
}

/* Whether a Connection field names @name: it goes no further than to us. */
static bool is_named(const struct http_fields *fields, struct span name)
{
    for (size_t i = 0; i < fields->n; i++) {
        struct span rest = fields->items[i].value;

        if (!span_is(fields->items[i].name, "Connection"))
            continue;
        while (rest.size > 0) {
            struct span option = before(rest, ',');
            rest = skip(rest, option.size < rest.size ? option.size + 1 : option.size);
            option = trim(option);
            if (option.size == name.size && strncasecmp(option.data, name.data, name.size) == 0)
                return true;
        }
    }
    return false;
}

static bool is_hop_by_hop(const struct http_fields *fields, struct span name)
{
    return span_is(name, "Connection") || span_is(name, "Keep-Alive") || span_is(name, "TE") ||
           span_is(name, "Upgrade") || span_begins(name, "Proxy-") || is_named(fields, name);
}

/* What http_request_write() writes itself, so that it says what was read. */
static bool is_framing(struct span name)
{
    return span_is(name, "Host") || span_is(name, "Content-Length") ||
           span_is(name, "Transfer-Encoding");
}

size_t http_request_write(const struct http_request *request, char *buffer)
{
    char *at = put(buffer, request->method);

    at = put_text(at, request->path.size == 0 || request->path.data[0] == '?' ? " /" : " ");
    at = put(at, request->path);
    at = put_text(at, request->minor == 1 ? " HTTP/1.1\r\nHost: " : " HTTP/1.0\r\nHost: ");
    at = put_text(at, request->in_brackets ? "[" : "");
    at = put(at, request->host);
    at = put_text(at, request->in_brackets ? "]" : "");
    if (request->port != HTTP_PORT) {
        at = put_text(at, ":");
        at = put_number(at, request->port);
    }
    at = put_text(at, "\r\n");
    for (size_t i = 0; i < request->fields.n; i++)
        if (!is_framing(request->fields.items[i].name) &&
            !is_hop_by_hop(&request->fields, request->fields.items[i].name))
            at = put_field(at, &request->fields.items[i]);
    if (request->body == HTTP_BODY_CHUNKED)
        at = put_text(at, "Transfer-Encoding: chunked\r\n");
    if (request->body == HTTP_BODY_LENGTH) {
        at = put_text(at, "Content-Length: ");
        at = put_number(at, request->length);
        at = put_text(at, "\r\n");
    }
    at = put_text(at, "Connection: close\r\n\r\n");
    return (size_t)(at - buffer);
}

/* The body goes on as it came, so what tells its length stays, whatever Connection says. */
static bool response_keeps(const struct http_fields *fields, struct span name)
{
    return is_framing(name) || !is_hop_by_hop(fields, name);
}

size_t http_response_write(const struct http_response *response, char *buffer)
{
    char *at = put_text(buffer, response->minor == 1 ? "HTTP/1.1 " : "HTTP/1.0 ");

    at = put_number(at, response->status);
    at = put_text(at, " ");
    at = put(at, response->reason);
    at = put_text(at, "\r\n");
    for (size_t i = 0; i < response->fields.n; i++)
        if (response_keeps(&response->fields, response->fields.items[i].name))
            at = put_field(at, &response->fields.items[i]);
    /* 1xx are not the end of anything. */
    at = put_text(at, response->status < 200 ? "\r\n" : "Connection: close\r\n\r\n");
    return (size_t)(at - buffer);
}
