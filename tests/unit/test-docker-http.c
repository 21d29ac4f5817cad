/* Replies of a daemon that are too large, too deep, cut short or never come: each is an error
 * within bounds, and what the connection is used for next is not the worse for it. */
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <cmocka.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "engine/docker/http.h"

#define OK "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"

static char directory[] = "/tmp/test-docker-http-XXXXXX";
static struct sockaddr_un address = { .sun_family = AF_UNIX };

/* What the daemon sends: a head, and a piece again and again. */
struct reply {
    const char *head, *piece, *tail;
    size_t times;
    bool hangs; /* until the client goes away */
    int listener;
};

static void send_all(int sock, const char *text)
{
    size_t size = strlen(text);

    for (ssize_t n; size > 0 && (n = send(sock, text, size, MSG_NOSIGNAL)) > 0; size -= (size_t)n)
        text += n;
}

static void *serve(void *userdata)
{
    const struct reply *reply = userdata;
    char request[4096];

    _cleanup_close_ int sock = accept(reply->listener, NULL, NULL);
    if (sock < 0 || read(sock, request, sizeof(request)) <= 0)
        return NULL;
    send_all(sock, reply->head);
    for (size_t i = 0; i < reply->times; i++)
        send_all(sock, reply->piece);
    if (reply->tail)
        send_all(sock, reply->tail);
    while (reply->hangs && read(sock, request, sizeof(request)) > 0)
        ;
    return NULL;
}

static int count_line(json_object *line, void *userdata)
{
    size_t *lines = userdata;

    assert_true(json_object_is_type(line, json_type_object));
    ++*lines;
    return 0;
}

static bool never(void *userdata)
{
    return false;
}

/* One request to a daemon that answers so. With @lines it is a stream. */
static int ask(struct reply reply, uint64_t timeout_usec, size_t *lines, struct http_reply *ret)
{
    const struct http_stream stream = { count_line, never, lines };
    const struct http_request request = { "GET", "/x", NULL, timeout_usec, 0 };
    struct http http;
    pthread_t thread;

    unlink(address.sun_path);
    reply.listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(reply.listener, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(reply.listener, 1), 0);
    assert_int_equal(pthread_create(&thread, NULL, serve, &reply), 0);
    assert_int_equal(http_open(address.sun_path, &http), 0);
    int r = http_call(&http, &request, lines ? &stream : NULL, ret);
    http_close(&http);
    pthread_join(thread, NULL);
    close(reply.listener);
    return r;
}

/* ---- size */

static char *kibibyte(char byte)
{
    static char text[1025];

    memset(text, byte, 1024);
    return text;
}

static void reply_is_taken_up_to_its_limit(void **state)
{
    struct http_reply reply = { 0 };
    const struct reply large = { OK "{\"a\":\"", kibibyte('x'), "\"}", HTTP_REPLY_MAX / 1024 - 1 };

    assert_int_equal(ask(large, 20 * USEC_PER_SEC, NULL, &reply), 0);
    assert_int_equal(strlen(json_get_string(reply.body, "a")), HTTP_REPLY_MAX - 1024);
    http_reply_release(&reply);
}

static void reply_above_its_limit_is_given_up(void **state)
{
    struct http_reply reply = { 0 };
    /* Without an end, as far as the client is concerned. */
    const struct reply endless = { OK "{\"a\":\"", kibibyte('x'), NULL, 1024 * 1024 };

    assert_int_equal(ask(endless, 20 * USEC_PER_SEC, NULL, &reply), -EMSGSIZE);
    assert_null(reply.body);
}

static void line_without_end_is_given_up(void **state)
{
    struct http_reply reply = { 0 };
    size_t lines = 0;
    const struct reply endless = { OK "{}\n", kibibyte('x'), NULL, 1024 * 1024 };

    assert_int_equal(ask(endless, 20 * USEC_PER_SEC, &lines, &reply), -EMSGSIZE);
    assert_int_equal(lines, 1);
}

static void stream_may_be_longer_than_a_reply(void **state)
{
    struct http_reply reply = { 0 };
    size_t lines = 0, n = HTTP_REPLY_MAX / 64 + 1;
    const struct reply stream = {
        OK, "{\"status\":\"Downloading\",\"id\":\"0123456789ab\",\"progress\":\"===>\"}\r\n", NULL,
        n
    };

    assert_int_equal(ask(stream, 60 * USEC_PER_SEC, &lines, &reply), 0);
    assert_int_equal(lines, n);
    http_reply_release(&reply);
}

/* ---- depth */

static void nesting_above_its_limit_is_no_json(void **state)
{
    static const struct {
        size_t depth;
        bool good;
    } cases[] = { { JSON_DEPTH_MAX - 1, true }, { JSON_DEPTH_MAX + 1, false }, { 100000, false } };

    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        struct http_reply reply = { 0 };
        _cleanup_free_ char *end = malloc(cases[i].depth + 2);

        memcpy(end, "1", 2);
        for (size_t d = 0; d < cases[i].depth; d++)
            memcpy(end + 1 + d, "}", 2);
        const struct reply deep = { OK, "{\"a\":", end, cases[i].depth };
        assert_int_equal(ask(deep, 20 * USEC_PER_SEC, NULL, &reply), 0);
        assert_int_equal(reply.status, 200);
        assert_int_equal(reply.body != NULL, cases[i].good);
        http_reply_release(&reply);
    }
}

static void array_becomes_the_items_of_an_object(void **state)
{
    static const struct {
        const char *text;
        int items; /* -1: no JSON */
    } cases[] = { { "[1,2]", 2 }, { "[]", 0 }, { "[1],\"b\":[2]", -1 }, { "[1", -1 } };

    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        struct http_reply reply = { 0 };
        const struct reply array = { OK, cases[i].text, NULL, 1 };

        assert_int_equal(ask(array, 20 * USEC_PER_SEC, NULL, &reply), 0);
        json_object *items = json_object_object_get(reply.body, "items");
        assert_int_equal(items ? (int)json_object_array_length(items) : -1, cases[i].items);
        http_reply_release(&reply);
    }
}

/* ---- time */

static void reply_that_never_ends_is_given_up(void **state)
{
    struct http_reply reply = { 0 };
    const struct reply hanging = { OK "{\"a\":", "", NULL, 0, .hangs = true };

    assert_int_equal(ask(hanging, USEC_PER_SEC / 2, NULL, &reply), -ETIMEDOUT);
    assert_null(reply.body);
}

static void reply_that_is_cut_short_is_no_reply(void **state)
{
    struct http_reply reply = { 0 };
    const struct reply cut = { "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"a\":1}", "", NULL,
                               0 };

    assert_int_equal(ask(cut, 20 * USEC_PER_SEC, NULL, &reply), -ECONNRESET);
    assert_null(reply.body);
}

/* ---- a daemon that ends */

struct ending {
    int listener;
    unsigned posts;
};

/* Keeps its connections, but hangs up on who posts something. */
static void *end_at_a_post(void *userdata)
{
    struct ending *ending = userdata;
    struct pollfd fds[8] = { { .fd = ending->listener, .events = POLLIN } };
    nfds_t n = 1;

    while (n < ELEMENTS(fds) && poll(fds, n, -1) > 0) {
        for (nfds_t i = 1; i < n; i++) {
            char request[4096];
            ssize_t size = fds[i].revents ? read(fds[i].fd, request, sizeof(request)) : 0;
            if (size > 3 && memcmp(request, "GET", 3) == 0)
                send_all(fds[i].fd, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}");
            else if (fds[i].revents)
                fds[i].fd = close_fd(fds[i].fd);
            ending->posts += size > 4 && memcmp(request, "POST", 4) == 0;
        }
        if (!fds[0].revents)
            continue;
        fds[n] = (struct pollfd){ .fd = accept(ending->listener, NULL, NULL), .events = POLLIN };
        if (fds[n++].fd < 0)
            break;
    }
    while (n-- > 1)
        close_fd(fds[n].fd);
    return NULL;
}

static void what_makes_something_is_sent_once(void **state)
{
    _cleanup_json_ json_object *body = json_object_new_object();
    const struct http_request look = { "GET", "/x", NULL, 20 * USEC_PER_SEC, 0 };
    const struct http_request make = { "POST", "/x", body, 20 * USEC_PER_SEC, 0 };
    struct ending ending = { .listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0) };
    struct http_reply reply = { 0 };
    struct http http;
    pthread_t thread;

    unlink(address.sun_path);
    assert_int_equal(bind(ending.listener, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(ending.listener, 8), 0);
    assert_int_equal(pthread_create(&thread, NULL, end_at_a_post, &ending), 0);
    assert_int_equal(http_open(address.sun_path, &http), 0);
    assert_int_equal(http_call(&http, &look, NULL, &reply), 0);
    http_reply_release(&reply);
    assert_int_equal(http_call(&http, &make, NULL, &reply), -ECONNRESET);
    assert_int_equal(http_call(&http, &look, NULL, &reply), 0);
    http_reply_release(&reply);
    http_close(&http);
    shutdown(ending.listener, SHUT_RDWR);
    pthread_join(thread, NULL);
    close(ending.listener);
    assert_int_equal(ending.posts, 1);
}

static int make_directory(void **state)
{
    if (!mkdtemp(directory))
        return -1;
    snprintf(address.sun_path, sizeof(address.sun_path), "%s/socket", directory);
    return 0;
}

static int remove_directory(void **state)
{
    unlink(address.sun_path);
    return rmdir(directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reply_is_taken_up_to_its_limit),
        cmocka_unit_test(reply_above_its_limit_is_given_up),
        cmocka_unit_test(line_without_end_is_given_up),
        cmocka_unit_test(stream_may_be_longer_than_a_reply),
        cmocka_unit_test(nesting_above_its_limit_is_no_json),
        cmocka_unit_test(array_becomes_the_items_of_an_object),
        cmocka_unit_test(reply_that_never_ends_is_given_up),
        cmocka_unit_test(reply_that_is_cut_short_is_no_reply),
        cmocka_unit_test(what_makes_something_is_sent_once),
    };

    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
