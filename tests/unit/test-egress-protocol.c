/* The egress protocol: every message survives the way through JSON, and what is no message is
 * refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "common/cleanup.h"
#include "egress/protocol.h"

#define HEAD "\"version\":1"
#define LIMITS "\"connections\":7,\"bytes\":8,\"idleUSec\":9"
#define START "{\"type\":\"start\"," HEAD ",\"runId\":\"ab\"," LIMITS
#define TALLY                                                                        \
    "\"connections\":9,\"refused\":2,\"failed\":1,\"unrecorded\":3,\"bytesSent\":4," \
    "\"bytesReceived\":5"
#define RECORD                                                                               \
    "{\"type\":\"connection\"," HEAD ",\"name\":\"a.example\",\"port\":443,\"bytesSent\":1," \
    "\"bytesReceived\":2,\"durationUSec\":3"

static int parse(const char *text, struct egress_message *ret)
{
    return egress_message_parse(text, strlen(text), ret);
}

static void check_round_trip(const char *text)
{
    _cleanup_free_ char *again = NULL;
    struct egress_message m;
    size_t size;

    if (parse(text, &m) != 0)
        fail_msg("refused: %s", text);
    assert_int_equal(egress_message_format(&m, &again, &size), 0);
    assert_string_equal(again, text);
    assert_int_equal(size, strlen(again));
    egress_message_release(&m);
}

static void every_message_survives_a_round_trip(void **state)
{
    check_round_trip("{\"type\":\"start\"," HEAD
                     ",\"runId\":\"0123456789abcdef\",\"granted\":[\"pypi.org\"],"
                     "\"allowedNames\":[\"*\",\"10.0.0.5\"],\"deniedNames\":[\"*.bad.example\"],"
                     "\"ports\":[80,65535],\"allowedAddresses\":[\"10.0.0.0/8\",\"::1\"],"
                     "\"deniedAddresses\":[\"192.0.2.7\"]," LIMITS "}");
    check_round_trip("{\"type\":\"ready\"," HEAD "}");
    check_round_trip("{\"type\":\"finish\"," HEAD "}");
    check_round_trip("{\"type\":\"error\"," HEAD ",\"message\":\"A \\\"sentence\\\".\"}");
    check_round_trip("{\"type\":\"connection\"," HEAD
                     ",\"name\":\"a.example\",\"address\":\"192.0.2.1\",\"port\":443,"
                     "\"protocol\":\"socks5\",\"verdict\":\"refused\",\"rule\":\"AllowedPorts=80\","
                     "\"bytesSent\":1,\"bytesReceived\":2,\"durationUSec\":3}");
    check_round_trip("{\"type\":\"finished\"," HEAD "," TALLY
                     ",\"hosts\":[{\"name\":\"a\",\"port\":1,\"connections\":2,\"bytesSent\":3,"
                     "\"bytesReceived\":4,\"rule\":\"\"}],\"refusedHosts\":[],\"moreHosts\":true}");
}

static void fields_arrive_where_they_belong(void **state)
{
    struct egress_message m;

    assert_int_equal(parse(START ",\"deniedNames\":[\"*.Bad.example.\"],\"ports\":[443],"
                                 "\"deniedAddresses\":[\"10.0.0.0/8\"]}",
                           &m),
                     0);
    assert_string_equal(m.start.run_id, "ab");
    assert_int_equal(m.start.granted.n, 0);
    assert_int_equal(m.start.allowed_names.n, 0);
    assert_string_equal(m.start.denied_names.items[0], "*.bad.example");
    assert_int_equal(m.start.ports.n, 1);
    assert_int_equal(m.start.ports.items[0], 443);
    assert_int_equal(m.start.allowed_addresses.n, 0);
    assert_int_equal(m.start.denied_addresses.items[0].length, 8);
    assert_int_equal(m.start.connections, 7);
    assert_int_equal(m.start.bytes, 8);
    assert_int_equal(m.start.idle_usec, 9);
    egress_message_release(&m);

    assert_int_equal(parse(RECORD ",\"protocol\":\"http\",\"verdict\":\"failed\"}", &m), 0);
    assert_string_equal(m.connection.name, "a.example");
    assert_string_equal(m.connection.address, "");
    assert_int_equal(m.connection.port, 443);
    assert_int_equal(m.connection.service, EGRESS_SERVICE_HTTP);
    assert_int_equal(m.connection.verdict, EGRESS_FAILED);
    assert_int_equal(m.connection.bytes_sent, 1);
    assert_int_equal(m.connection.bytes_received, 2);
    assert_int_equal(m.connection.duration_usec, 3);
    assert_string_equal(egress_service_name(m.connection.service), "http");
    assert_string_equal(egress_verdict_name(m.connection.verdict), "failed");

    assert_int_equal(parse("{\"type\":\"finished\"," HEAD "," TALLY
                           ",\"refusedHosts\":[{\"name\":\"b\",\"port\":1,\"connections\":2,"
                           "\"bytesSent\":3,\"bytesReceived\":4,\"rule\":\"R\"}],\"future\":1}",
                           &m),
                     0);
    assert_int_equal(m.finished.connections, 9);
    assert_int_equal(m.finished.refused, 2);
    assert_int_equal(m.finished.failed, 1);
    assert_int_equal(m.finished.unrecorded, 3);
    assert_int_equal(m.finished.n_hosts, 0);
    assert_int_equal(m.finished.n_refused_hosts, 1);
    assert_string_equal(m.finished.refused_hosts[0].name, "b");
    assert_string_equal(m.finished.refused_hosts[0].rule, "R");
    assert_int_equal(m.finished.refused_hosts[0].bytes_received, 4);
    assert_false(m.finished.more_hosts);
    egress_message_release(&m);
}

static void what_is_no_message_is_refused(void **state)
{
    static const struct {
        const char *text;
        int error;
    } bad[] = {
        { "", -EBADMSG },
        { "[]", -EBADMSG },
        { "{\"type\":\"finish\"}", -EBADMSG },
        { "{\"type\":\"finish\",\"version\":2}", -EPROTONOSUPPORT },
        { "{\"type\":\"dance\"," HEAD "}", -EPROTONOSUPPORT },
        { "{\"type\":\"finish\"," HEAD "} x", -EBADMSG },
        { "{\"type\":\"start\"," HEAD "," LIMITS "}", -EBADMSG },
        { "{\"type\":\"start\"," HEAD ",\"runId\":\"../x\"," LIMITS "}", -EBADMSG },
        { "{\"type\":\"start\"," HEAD
          ",\"runId\":\"ab\",\"connections\":0,\"bytes\":8,\"idleUSec\":9}",
          -EBADMSG },
        { "{\"type\":\"start\"," HEAD
          ",\"runId\":\"ab\",\"connections\":1025,\"bytes\":8,\"idleUSec\":9}",
          -EBADMSG },
        { START ",\"granted\":\"*\"}", -EBADMSG },
        { START ",\"granted\":[\"a..b\"]}", -EBADMSG },
        { START ",\"allowedNames\":[true]}", -EBADMSG },
        { START ",\"deniedNames\":[\"a.example\",\"a\\u0000b\"]}", -EBADMSG },
        { START ",\"ports\":[0]}", -EBADMSG },
        { START ",\"ports\":[65536]}", -EBADMSG },
        { START ",\"ports\":[\"80\"]}", -EBADMSG },
        { START ",\"allowedAddresses\":[\"10.0.0.1/8\"]}", -EBADMSG },
        { START ",\"deniedAddresses\":[\"10.0.0.0/8\",null]}", -EBADMSG },
        { "{\"type\":\"error\"," HEAD "}", -EBADMSG },
        { RECORD ",\"protocol\":\"smtp\",\"verdict\":\"failed\"}", -EBADMSG },
        { RECORD ",\"protocol\":\"http\",\"verdict\":\"perhaps\"}", -EBADMSG },
        { RECORD ",\"protocol\":\"http\"}", -EBADMSG },
        { "{\"type\":\"finished\"," HEAD "}", -EBADMSG },
        { "{\"type\":\"finished\"," HEAD "," TALLY ",\"hosts\":[7]}", -EBADMSG },
        { "{\"type\":\"finished\"," HEAD "," TALLY ",\"hosts\":[{\"name\":\"b\"}]}", -EBADMSG },
    };

    for (size_t i = 0; i < ELEMENTS(bad); i++) {
        struct egress_message m = { .type = EGRESS_FINISHED, .finished.failed = 4711 };

        if (parse(bad[i].text, &m) != bad[i].error)
            fail_msg("not refused as it should be: %s", bad[i].text);
        assert_int_equal(m.finished.failed, 4711);
    }
}

/* A start with @n ports. */
static int parse_ports(size_t n, struct egress_message *ret)
{
    char text[2048] = START ",\"ports\":[1";

    for (size_t i = 1; i < n; i++)
        strcat(text, ",1");
    strcat(text, "]}");
    return parse(text, ret);
}

static void lists_have_limits(void **state)
{
    struct egress_message m;

    assert_int_equal(parse_ports(EGRESS_PORTS_MAX, &m), 0);
    assert_int_equal(m.start.ports.n, EGRESS_PORTS_MAX);
    egress_message_release(&m);
    assert_int_equal(parse_ports(EGRESS_PORTS_MAX + 1, &m), -EBADMSG);
}

/* A finished with @n hosts. */
static int parse_hosts(size_t n, struct egress_message *ret)
{
    static char text[64 * 1024];
    size_t used = (size_t)sprintf(text, "{\"type\":\"finished\"," HEAD "," TALLY ",\"hosts\":[");

    for (size_t i = 0; i < n; i++)
        used += (size_t)sprintf(text + used,
                                "%s{\"name\":\"a\",\"port\":1,\"connections\":2,"
                                "\"bytesSent\":3,\"bytesReceived\":4}",
                                i > 0 ? "," : "");
    strcpy(text + used, "]}");
    return parse(text, ret);
}

static void lists_of_hosts_have_limits(void **state)
{
    struct egress_message m;

    assert_int_equal(parse_hosts(EGRESS_HOSTS_MAX, &m), 0);
    assert_int_equal(m.finished.n_hosts, EGRESS_HOSTS_MAX);
    egress_message_release(&m);
    assert_int_equal(parse_hosts(EGRESS_HOSTS_MAX + 1, &m), -EBADMSG);
}

/* With so many of each. */
static void check_shortened(size_t n_hosts, size_t n_refused)
{
    static struct egress_host hosts[EGRESS_HOSTS_MAX];
    struct egress_message m = { .type = EGRESS_FINISHED,
                                .finished = { .hosts = hosts,
                                              .n_hosts = n_hosts,
                                              .refused_hosts = hosts,
                                              .n_refused_hosts = n_refused } };
    struct egress_message back;
    _cleanup_free_ char *text = NULL;
    size_t size;

    for (size_t i = 0; i < EGRESS_HOSTS_MAX; i++) {
        memset(hosts[i].name, '\\', EGRESS_NAME_MAX);
        memset(hosts[i].rule, '"', EGRESS_RULE_MAX);
    }
    assert_int_equal(egress_message_format(&m, &text, &size), 0);
    assert_true(size <= EGRESS_PACKET_MAX);
    assert_int_equal(parse(text, &back), 0);
    assert_true(back.finished.n_hosts + back.finished.n_refused_hosts > 0);
    assert_true(back.finished.n_hosts + back.finished.n_refused_hosts < n_hosts + n_refused);
    assert_true(back.finished.more_hosts);
    egress_message_release(&back);
}

static void a_list_of_hosts_that_does_not_fit_is_shortened(void **state)
{
    check_shortened(EGRESS_HOSTS_MAX, EGRESS_HOSTS_MAX);
    check_shortened(EGRESS_HOSTS_MAX, 0);
    check_shortened(0, EGRESS_HOSTS_MAX);
}

static void a_start_that_does_not_fit_is_told(void **state)
{
    struct egress_message m = { .type = EGRESS_START, .start.run_id = "ab" };
    char *text = NULL;
    size_t size;

    for (size_t i = 0; i < EGRESS_PACKET_MAX / 8; i++)
        assert_int_equal(host_list_add(&m.start.denied_names, "a.example"), 0);
    assert_int_equal(egress_message_format(&m, &text, &size), -EMSGSIZE);
    assert_null(text);
    egress_message_release(&m);
}

static void messages_travel_with_their_descriptors(void **state)
{
    int pair[2], fds[PACKET_FDS_MAX], null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    struct egress_message m = { .type = EGRESS_FINISH };
    size_t n;
    char byte;
    int ends[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    assert_int_equal(egress_send(pair[0], &m, &null, 1), 0);
    assert_int_equal(egress_recv(pair[1], &m, fds, &n), 1);
    assert_int_equal(m.type, EGRESS_FINISH);
    assert_int_equal(n, 1);
    packet_close_fds(fds);

    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    assert_int_equal(packet_send(pair[0], "{}", 2, &ends[1], 1), 0);
    close(ends[1]);
    assert_int_equal(egress_recv(pair[1], &m, fds, &n), -EBADMSG);
    assert_int_equal(n, 0);
    /* The end of file comes only if nobody holds the other end any more. */
    assert_int_equal(read(ends[0], &byte, 1), 0);
    close(ends[0]);
    close(pair[0]);
    assert_int_equal(egress_recv(pair[1], &m, fds, &n), 0);
    close(pair[1]);
    close(null);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_message_survives_a_round_trip),
        cmocka_unit_test(fields_arrive_where_they_belong),
        cmocka_unit_test(what_is_no_message_is_refused),
        cmocka_unit_test(lists_have_limits),
        cmocka_unit_test(lists_of_hosts_have_limits),
        cmocka_unit_test(a_list_of_hosts_that_does_not_fit_is_shortened),
        cmocka_unit_test(a_start_that_does_not_fit_is_told),
        cmocka_unit_test(messages_travel_with_their_descriptors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
