/* Heads and chunked bodies of HTTP as the way out reads and writes them: what two readers could
 * take for two things is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/cleanup.h"
#include "egress/chunked.h"
#include "egress/http-head.h"

#define URL "GET http://a.example/ HTTP/1.1\r\n"
#define HOST "Host: a.example\r\n"

static const char *parse(const char *head, struct http_request *ret)
{
    return http_request_parse(head, strlen(head), ret);
}

static void assert_span(struct span span, const char *text)
{
    if (span.size != strlen(text) || memcmp(span.data, text, span.size) != 0)
        fail_msg("'%.*s' instead of '%s'", (int)span.size, span.data, text);
}

static void the_end_of_a_head_is_found(void **state)
{
    static const char head[] = URL HOST "\r\n";
    const ssize_t size = sizeof(head) - 1;
    char data[sizeof(head) + 4];

    assert_int_equal(http_head_size(head, (size_t)size, 0), size);
    for (size_t i = 0; i < (size_t)size; i++)
        assert_int_equal(http_head_size(head, i, i > 0 ? i - 1 : 0), 0);
    /* Byte by byte, and with something behind it. */
    assert_int_equal(http_head_size(head, (size_t)size, (size_t)size - 1), size);
    snprintf(data, sizeof(data), "%sabc", head);
    assert_int_equal(http_head_size(data, strlen(data), 0), size);

    assert_int_equal(http_head_size("GET\n", 4, 0), -EBADMSG);
    assert_int_equal(http_head_size("\n", 1, 0), -EBADMSG);
    assert_int_equal(http_head_size("GET\r\n\n", 6, 5), -EBADMSG);
}

static void a_head_has_a_limit(void **state)
{
    _cleanup_free_ char *data = malloc(HTTP_HEAD_MAX + 5);

    memset(data, 'a', HTTP_HEAD_MAX + 5);
    assert_int_equal(http_head_size(data, HTTP_HEAD_MAX - 1, 0), 0);
    assert_int_equal(http_head_size(data, HTTP_HEAD_MAX, 0), -E2BIG);
    memcpy(data + HTTP_HEAD_MAX - 4, "\r\n\r\n", 4);
    assert_int_equal(http_head_size(data, HTTP_HEAD_MAX, 0), HTTP_HEAD_MAX);
    memcpy(data + HTTP_HEAD_MAX - 4, "a\r\n\r\n", 5);
    assert_int_equal(http_head_size(data, HTTP_HEAD_MAX + 1, 0), -E2BIG);
}

static void targets_are_read(void **state)
{
    static const struct {
        const char *line, *host, *path;
        unsigned port;
        bool is_connect, in_brackets;
    } good[] = {
        { "GET http://a.example/ HTTP/1.1", "a.example", "/", 80, false, false },
        { "GET HTTP://A.example:8080/x?y=/ HTTP/1.0", "A.example", "/x?y=/", 8080, false, false },
        { "POST http://a.example HTTP/1.1", "a.example", "", 80, false, false },
        { "get http://a.example?q HTTP/1.1", "a.example", "?q", 80, false, false },
        { "GET http://[::1]:81/ HTTP/1.1", "::1", "/", 81, false, true },
        { "GET http://a.example/@b HTTP/1.1", "a.example", "/@b", 80, false, false },
        { "CONNECT a.example:443 HTTP/1.1", "a.example", "", 443, true, false },
        { "CONNECT [2001:db8::1]:65535 HTTP/1.0", "2001:db8::1", "", 65535, true, true },
    };

    for (size_t i = 0; i < ELEMENTS(good); i++) {
        struct http_request request;
        char head[200];

        snprintf(head, sizeof(head), "%s\r\n" HOST "\r\n", good[i].line);
        if (parse(head, &request))
            fail_msg("refused: %s", good[i].line);
        assert_span(request.host, good[i].host);
        assert_span(request.path, good[i].path);
        assert_int_equal(request.port, good[i].port);
        assert_int_equal(request.is_connect, good[i].is_connect);
        assert_int_equal(request.in_brackets, good[i].in_brackets);
        assert_int_equal(request.body, HTTP_BODY_NONE);
    }
}

static void request_lines_that_are_none_are_refused(void **state)
{
    static const char *const bad[] = {
        "",
        "GET",
        "GET http://a.example/",
        "GET / HTTP/1.1",
        "GET * HTTP/1.1",
        "GET a.example:80 HTTP/1.1",
        "GET https://a.example/ HTTP/1.1",
        "GET ftp://a.example/ HTTP/1.1",
        "GET  http://a.example/ HTTP/1.1",
        "GET http://a.example/  HTTP/1.1",
        "GET http://a.example/ x HTTP/1.1",
        " GET http://a.example/ HTTP/1.1",
        "G(T http://a.example/ HTTP/1.1",
        "GET\thttp://a.example/\tHTTP/1.1",
        "GET http://a.example/ HTTP/1.2",
        "GET http://a.example/ HTTP/2.0",
        "GET http://a.example/ HTTP/1.1 ",
        "GET http://a.example/ http/1.1",
        "GET http:///x HTTP/1.1",
        "GET http://u@a.example/ HTTP/1.1",
        "GET http://u:p@a.example/ HTTP/1.1",
        "GET http://a.example#@b.example/ HTTP/1.1",
        "GET http://a.example\\@b.example/ HTTP/1.1",
        "GET http://a.example/#x HTTP/1.1",
        "GET http://a.example:/ HTTP/1.1",
        "GET http://a.example:0/ HTTP/1.1",
        "GET http://a.example:65536/ HTTP/1.1",
        "GET http://a.example:+80/ HTTP/1.1",
        "GET http://a.example:80:80/ HTTP/1.1",
        "GET http://[::1/ HTTP/1.1",
        "GET http://[::1]x/ HTTP/1.1",
        "GET http://[]/ HTTP/1.1",
        "GET http://[a.example]/ HTTP/1.1",
        "CONNECT [127.0.0.1]:443 HTTP/1.1",
        "GET http://\xc3\xa4.example/ HTTP/1.1",
        "GET http://a.example/\x7f HTTP/1.1",
        "GET http://a.example/\x01 HTTP/1.1",
        "GET http://a.example/\rX HTTP/1.1",
        "CONNECT a.example HTTP/1.1",
        "CONNECT a.example:0 HTTP/1.1",
        "CONNECT :443 HTTP/1.1",
        "CONNECT u@a.example:443 HTTP/1.1",
        "CONNECT http://a.example:443/ HTTP/1.1",
        "connect a.example:443 HTTP/1.1",
    };

    for (size_t i = 0; i < ELEMENTS(bad); i++) {
        struct http_request request;
        char head[200];

        snprintf(head, sizeof(head), "%s\r\n" HOST "\r\n", bad[i]);
        const char *wrong = parse(head, &request);
        /* What looks like a host may be left for the verdict to refuse. */
        if (!wrong && strcmp(bad[i], "CONNECT http://a.example:443/ HTTP/1.1") != 0)
            fail_msg("taken for a request: %s", bad[i]);
    }
    struct http_request request;
    assert_non_null(http_request_parse("GET http://a/\0 HTTP/1.0\r\n\r\n", 27, &request));
}

static void header_lines_that_are_none_are_refused(void **state)
{
    static const char *const bad[] = {
        "Name\r\n",        "Name : x\r\n",       " Name: x\r\n",   "Name: x\r\n folded\r\n",
        ": x\r\n",         "Na me: x\r\n",       "Name: x\ry\r\n", "Name: x\x01y\r\n",
        "Name: x\x7f\r\n", "N\xc3\xa4me: x\r\n", "Na(me: x\r\n",
    };
    struct http_request request;

    for (size_t i = 0; i < ELEMENTS(bad); i++) {
        char head[200];

        snprintf(head, sizeof(head), URL HOST "%s\r\n", bad[i]);
        if (!parse(head, &request))
            fail_msg("taken for a header line: %s", bad[i]);
    }
    assert_null(parse(URL HOST "X:\r\nY:\t a \xc3\xa4 \t\r\n\r\n", &request));
    assert_span(request.fields.items[1].value, "");
    assert_span(request.fields.items[2].value, "a \xc3\xa4");
}

static void header_lines_have_a_limit(void **state)
{
    static char head[4096] = "GET http://a.example/ HTTP/1.0\r\n";
    struct http_request request;

    for (size_t i = 0; i < HTTP_FIELDS_MAX; i++)
        strcat(head, "a: b\r\n");
    size_t size = strlen(head);
    strcpy(head + size, "\r\n");
    assert_null(parse(head, &request));
    assert_int_equal(request.fields.n, HTTP_FIELDS_MAX);
    strcpy(head + size, "a: b\r\n\r\n");
    assert_non_null(parse(head, &request));
}

static void the_length_of_a_body_is_beyond_doubt_or_refused(void **state)
{
    static const struct {
        const char *fields;
        enum http_body body;
        uint64_t length;
    } good[] = {
        { HOST, HTTP_BODY_NONE, 0 },
        { HOST "Content-Length: 0\r\n", HTTP_BODY_LENGTH, 0 },
        { HOST "content-length:  123 \r\n", HTTP_BODY_LENGTH, 123 },
        { HOST "Transfer-Encoding: Chunked\r\n", HTTP_BODY_CHUNKED, 0 },
    };
    static const char *const bad[] = {
        "",
        HOST HOST,
        HOST "Content-Length: +1\r\n",
        HOST "Content-Length: -1\r\n",
        HOST "Content-Length: 1 1\r\n",
        HOST "Content-Length: 1,1\r\n",
        HOST "Content-Length: 0x1\r\n",
        HOST "Content-Length:\r\n",
        HOST "Content-Length: 9999999999999999999\r\n",
        HOST "Content-Length: 1\r\nContent-Length: 1\r\n",
        HOST "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n",
        HOST "Transfer-Encoding: gzip, chunked\r\n",
        HOST "Transfer-Encoding: identity\r\n",
        HOST "Transfer-Encoding: xchunked\r\n",
        HOST "Transfer-Encoding:\r\n",
        HOST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
    };
    struct http_request request;
    char head[300];

    for (size_t i = 0; i < ELEMENTS(good); i++) {
        snprintf(head, sizeof(head), URL "%s\r\n", good[i].fields);
        if (parse(head, &request))
            fail_msg("refused: %s", good[i].fields);
        assert_int_equal(request.body, good[i].body);
        assert_int_equal(request.length, good[i].length);
    }
    for (size_t i = 0; i < ELEMENTS(bad); i++) {
        snprintf(head, sizeof(head), URL "%s\r\n", bad[i]);
        if (!parse(head, &request))
            fail_msg("taken: %s", bad[i]);
    }
    assert_null(parse("GET http://a.example/ HTTP/1.0\r\n\r\n", &request));
    assert_non_null(
        parse("GET http://a.example/ HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", &request));
    assert_non_null(
        parse("CONNECT a.example:443 HTTP/1.1\r\n" HOST "Content-Length: 1\r\n\r\n", &request));
    assert_null(
        parse("CONNECT a.example:443 HTTP/1.1\r\n" HOST "Content-Length: 0\r\n\r\n", &request));
}

static void check_forwarded(const char *head, const char *expected)
{
    char buffer[1024];
    struct http_request request;

    assert_true(strlen(head) + HTTP_HEAD_GROWTH < sizeof(buffer));
    assert_null(parse(head, &request));
    buffer[http_request_write(&request, buffer)] = '\0';
    assert_string_equal(buffer, expected);
}

static void requests_are_written_for_the_next_hop(void **state)
{
    check_forwarded(
        "GET http://a.example:8080/x?y HTTP/1.1\r\nHost: other.example\r\nA:b\r\n"
        "Connection: close, X-Hop ,x-other\r\nX-Hop: 1\r\nX-OTHER: 2\r\nKeep-Alive: 3\r\n"
        "Proxy-Authorization: 4\r\nproxy-connection: 5\r\nTE: 6\r\nUpgrade: 7\r\n"
        "Expect: 100-continue\r\n\r\n",
        "GET /x?y HTTP/1.1\r\nHost: a.example:8080\r\nA: b\r\nExpect: 100-continue\r\n"
        "Connection: close\r\n\r\n");
    check_forwarded("PUT http://[::1]?q HTTP/1.0\r\nContent-Length: 007\r\n\r\n",
                    "PUT /?q HTTP/1.0\r\nHost: [::1]\r\nContent-Length: 7\r\n"
                    "Connection: close\r\n\r\n");
    check_forwarded("PUT http://a.example HTTP/1.1\r\n" HOST
                    "Connection: Transfer-Encoding, Host\r\nTransfer-Encoding: CHUNKED\r\n\r\n",
                    "PUT / HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n"
                    "Connection: close\r\n\r\n");
}

static void a_head_written_anew_grows_within_bounds(void **state)
{
    static char head[HTTP_HEAD_MAX], buffer[HTTP_HEAD_MAX + HTTP_HEAD_GROWTH];
    struct http_request request;
    struct http_response response;

    strcpy(head, "M http://a:1 HTTP/1.0\r\n");
    for (size_t i = 0; i < HTTP_FIELDS_MAX; i++)
        strcat(head, "a:\r\n");
    strcat(head, "\r\n");
    assert_null(parse(head, &request));
    assert_true(http_request_write(&request, buffer) <= strlen(head) + HTTP_HEAD_GROWTH);
    memcpy(head, "HTTP/1.0 200         \r\n", 23);
    assert_null(http_response_parse(head, strlen(head), &response));
    assert_true(http_response_write(&response, buffer) <= strlen(head) + HTTP_HEAD_GROWTH);
}

static void responses_are_read_and_written(void **state)
{
    static const struct {
        const char *head, *written;
    } good[] = {
        { "HTTP/1.1 200 OK\r\nA: b\r\nConnection: keep-alive, X\r\nX: 1\r\nKeep-Alive: 2\r\n"
          "Proxy-Authenticate: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
          "HTTP/1.1 200 OK\r\nA: b\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n" },
        { "HTTP/1.0 404\r\n\r\n", "HTTP/1.0 404 \r\nConnection: close\r\n\r\n" },
        { "HTTP/1.1 100 Continue\r\n\r\n", "HTTP/1.1 100 Continue\r\n\r\n" },
        { "HTTP/1.1 200 \r\nConnection: Content-Length\r\nContent-Length: 7\r\n\r\n",
          "HTTP/1.1 200 \r\nContent-Length: 7\r\nConnection: close\r\n\r\n" },
    };
    static const char *const bad[] = {
        "HTTP/1.1 20 OK\r\n\r\n",
        "HTTP/1.1 2000 OK\r\n\r\n",
        "HTTP/1.1 099 OK\r\n\r\n",
        "HTTP/2 200 OK\r\n\r\n",
        "HTTP/1.1  200 OK\r\n\r\n",
        "ICY 200 OK\r\n\r\n",
        "HTTP/1.1 200 O\x01K\r\n\r\n",
        "HTTP/1.1 200 OK\r\nA : b\r\n\r\n",
        "\r\n\r\n",
    };
    struct http_response response;
    char buffer[1024];

    for (size_t i = 0; i < ELEMENTS(good); i++) {
        assert_null(http_response_parse(good[i].head, strlen(good[i].head), &response));
        buffer[http_response_write(&response, buffer)] = '\0';
        assert_string_equal(buffer, good[i].written);
    }
    for (size_t i = 0; i < ELEMENTS(bad); i++)
        if (!http_response_parse(bad[i], strlen(bad[i]), &response))
            fail_msg("taken for a response: %s", bad[i]);
}

/* ---- chunked bodies */

/* In pieces of @piece bytes. */
static ssize_t follow(const char *data, size_t piece, bool *ret_done)
{
    struct chunked chunked = { 0 };
    size_t at = 0, size = strlen(data);

    while (at < size && !chunked_is_done(&chunked)) {
        ssize_t n = chunked_follow(&chunked, data + at, size - at < piece ? size - at : piece);
        if (n < 0)
            return n;
        at += (size_t)n;
    }
    *ret_done = chunked_is_done(&chunked);
    return (ssize_t)at;
}

static void chunked_bodies_end_where_they_end(void **state)
{
    static const struct {
        const char *body, *behind;
    } good[] = {
        { "0\r\n\r\n", "" },
        { "0\r\n\r\n", "GET http://a/ HTTP/1.1\r\n\r\n" },
        { "3\r\nabc\r\n0\r\n\r\n", "x" },
        { "0a\r\n0\r\n\r\n0\r\n\r\n\r\n0\r\n\r\n", "\r\n" },
        { "1\r\na\r\n000\r\nTrailer: x\r\nB:\r\n\r\n", "y" },
    };

    for (size_t i = 0; i < ELEMENTS(good); i++)
        for (size_t piece = 1; piece < 40; piece++) {
            char data[200];
            bool done = false;

            snprintf(data, sizeof(data), "%s%s", good[i].body, good[i].behind);
            assert_int_equal(follow(data, piece, &done), strlen(good[i].body));
            assert_true(done);
        }
}

static void unfinished_chunks_are_not_the_end(void **state)
{
    static const char body[] = "3\r\nabc\r\n0\r\nA: b\r\n\r\n";

    for (size_t i = 0; i < strlen(body); i++) {
        char data[sizeof(body)] = "";
        bool done = false;

        memcpy(data, body, i);
        assert_int_equal(follow(data, 1, &done), i);
        assert_false(done);
    }
}

static void chunks_that_are_none_are_refused(void **state)
{
    static const char *const bad[] = {
        "\r\n",
        "g\r\n",
        " 3\r\nabc\r\n",
        "3 \r\nabc\r\n",
        "3;a=b\r\nabc\r\n",
        "3\nabc\n",
        "3\r\nabcd\r\n",
        "3\r\nabc\n",
        "0x3\r\nabc\r\n",
        "-1\r\n",
        "+3\r\nabc\r\n",
        "3\r\r\nabc",
        "1000000000000\r\n",
        "0\r\n\n",
        "0\r\nA\r\n\r\n",
        "0\r\n A: b\r\n\r\n",
        "0\r\nA : b\r\n\r\n",
        "0\r\nA: b\n\r\n",
        "0\r\nA: \x01\r\n\r\n",
        "0\r\n\rx",
    };

    for (size_t i = 0; i < ELEMENTS(bad); i++) {
        bool done;

        if (follow(bad[i], 1, &done) != -EBADMSG || follow(bad[i], 100, &done) != -EBADMSG)
            fail_msg("taken for a chunk: %s", bad[i]);
    }
}

static void trailers_have_a_limit(void **state)
{
    static char data[CHUNKED_TRAILERS_MAX + 100] = "0\r\nA:";
    bool done;

    memset(data + 5, 'x', CHUNKED_TRAILERS_MAX - 2);
    assert_int_equal(follow(data, 1000, &done), strlen(data));
    strcat(data, "x");
    assert_int_equal(follow(data, 1000, &done), -EBADMSG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_end_of_a_head_is_found),
        cmocka_unit_test(a_head_has_a_limit),
        cmocka_unit_test(targets_are_read),
        cmocka_unit_test(request_lines_that_are_none_are_refused),
        cmocka_unit_test(header_lines_that_are_none_are_refused),
        cmocka_unit_test(header_lines_have_a_limit),
        cmocka_unit_test(the_length_of_a_body_is_beyond_doubt_or_refused),
        cmocka_unit_test(requests_are_written_for_the_next_hop),
        cmocka_unit_test(a_head_written_anew_grows_within_bounds),
        cmocka_unit_test(responses_are_read_and_written),
        cmocka_unit_test(chunked_bodies_end_where_they_end),
        cmocka_unit_test(unfinished_chunks_are_not_the_end),
        cmocka_unit_test(chunks_that_are_none_are_refused),
        cmocka_unit_test(trailers_have_a_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
