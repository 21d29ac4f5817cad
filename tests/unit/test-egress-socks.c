/* SOCKS5's messages: what is read, byte by byte, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "common/cleanup.h"
#include "egress/socks.h"

#define BYTES(...) ((const uint8_t[]){ __VA_ARGS__ }), sizeof((const uint8_t[]){ __VA_ARGS__ })

static void greetings_are_read(void **state)
{
    bool none;

    assert_int_equal(socks_greeting_parse(BYTES(5, 1, 0), &none), 3);
    assert_true(none);
    assert_int_equal(socks_greeting_parse(BYTES(5, 2, 2, 0, 5, 1), &none), 4);
    assert_true(none);
    assert_int_equal(socks_greeting_parse(BYTES(5, 2, 1, 2), &none), 4);
    assert_false(none);
    assert_int_equal(socks_greeting_parse(BYTES(5), &none), 0);
    assert_int_equal(socks_greeting_parse(BYTES(5, 2, 0), &none), 0);
    assert_int_equal(socks_greeting_parse(BYTES(5, 0), &none), -EBADMSG);
    assert_int_equal(socks_greeting_parse(BYTES(4, 1, 0), &none), -EBADMSG);
}

/* Whole, and not before. */
static void check_request(const uint8_t *data, size_t size, const char *host, uint16_t port)
{
    struct socks_request request;

    for (size_t i = 0; i < size; i++)
        assert_int_equal(socks_request_parse(data, i, &request), 0);
    assert_int_equal(socks_request_parse(data, size, &request), size);
    assert_int_equal(request.command, SOCKS_CONNECT);
    assert_int_equal(request.host_size, strlen(host));
    assert_memory_equal(request.host, host, request.host_size);
    assert_int_equal(request.port, port);
}

static void requests_are_read(void **state)
{
    check_request(BYTES(5, 1, 0, 1, 192, 0, 2, 7, 1, 187), "192.0.2.7", 443);
    check_request(BYTES(5, 1, 0, 3, 3, 'a', '.', 'b', 0, 80), "a.b", 80);
    check_request(
        BYTES(5, 1, 0, 4, 0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 255, 255),
        "2001:db8::1", 65535);
}

static void what_is_behind_a_request_is_left(void **state)
{
    struct socks_request request;

    assert_int_equal(socks_request_parse(BYTES(5, 1, 0, 3, 1, 'a', 0, 80, 'G', 'E'), &request), 8);
    assert_int_equal(request.port, 80);
}

static void names_are_taken_as_they_come(void **state)
{
    struct socks_request request;
    uint8_t data[SOCKS_MESSAGE_MAX];

    assert_int_equal(socks_request_parse(BYTES(5, 1, 0, 3, 3, 'a', 0, 'b', 0, 80), &request), 10);
    assert_int_equal(request.host_size, 3);
    assert_memory_equal(request.host, "a\0b", 4);

    memset(data, 'x', sizeof(data));
    memcpy(data, (const uint8_t[]){ 5, 1, 0, 3, 255 }, 5);
    assert_int_equal(socks_request_parse(data, sizeof(data), &request), sizeof(data));
    assert_int_equal(request.host_size, 255);
    assert_int_equal(request.host[255], '\0');
}

static void what_is_no_request_is_refused(void **state)
{
    struct socks_request request;

    assert_int_equal(socks_request_parse(BYTES(4, 1, 0, 1, 1), &request), -EBADMSG);
    assert_int_equal(socks_request_parse(BYTES(5, 1, 1), &request), -EBADMSG);
    assert_int_equal(socks_request_parse(BYTES(5, 1, 0, 3, 0, 0, 80), &request), -EBADMSG);
    assert_int_equal(socks_request_parse(BYTES(5, 1, 0, 2, 1, 1), &request), -EAFNOSUPPORT);
    assert_int_equal(socks_request_parse(BYTES(5, 1, 0, 0, 1, 1), &request), -EAFNOSUPPORT);
    /* A command is for others to refuse. */
    assert_int_equal(socks_request_parse(BYTES(5, 2, 0, 1, 1, 2, 3, 4, 0, 80), &request), 10);
    assert_int_equal(request.command, 2);
}

static void replies_are_written(void **state)
{
    uint8_t choice[SOCKS_CHOICE_SIZE], reply[SOCKS_REPLY_SIZE];

    socks_choice_write(true, choice);
    assert_memory_equal(choice, ((const uint8_t[]){ 5, 0 }), 2);
    socks_choice_write(false, choice);
    assert_memory_equal(choice, ((const uint8_t[]){ 5, 0xff }), 2);
    socks_reply_write(SOCKS_NOT_ALLOWED, reply);
    assert_memory_equal(reply, ((const uint8_t[]){ 5, 2, 0, 1, 0, 0, 0, 0, 0, 0 }), 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(greetings_are_read),
        cmocka_unit_test(requests_are_read),
        cmocka_unit_test(what_is_behind_a_request_is_left),
        cmocka_unit_test(names_are_taken_as_they_come),
        cmocka_unit_test(what_is_no_request_is_refused),
        cmocka_unit_test(replies_are_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
