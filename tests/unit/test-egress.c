/* The broker's end of the egress protocol, with an egress process that says what a test makes it
 * say; and what becomes of its words. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "broker/egress.h"
#include "broker/network-use.h"
#include "common/cleanup.h"

static sd_event *loop;
static struct egress *egress;
static int peer;
static unsigned n_events;
static struct egress_event last;
static struct network_use use;

static void on_egress(const struct egress_event *event, void *userdata)
{
    n_events++;
    last = *event;
    if (event->type == EGRESS_EVENT_CONNECTION)
        network_use_add(&use, event->connection);
    if (event->type == EGRESS_EVENT_FINISHED)
        network_use_finish(&use, event->finished);
    if (event->type >= EGRESS_EVENT_FINISHED)
        egress = egress_free(egress); /* as a run does */
}

static int set_up(void **state)
{
    int pair[2];

    use = (struct network_use){ 0 };
    n_events = 0;
    if (sd_event_new(&loop) < 0 ||
        socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
        return -1;
    peer = pair[1];
    return egress_new(loop, pair[0], on_egress, NULL, &egress);
}

static int tear_down(void **state)
{
    egress = egress_free(egress);
    network_use_release(&use);
    close_fd(peer);
    loop = sd_event_unref(loop);
    return 0;
}

static void settle(void)
{
    while (sd_event_run(loop, 0) > 0)
        ;
}

static void say(const struct egress_message *message)
{
    assert_int_equal(egress_send(peer, message, NULL, 0), 0);
    settle();
}

static void say_type(enum egress_type type)
{
    const struct egress_message message = { .type = type };
    say(&message);
}

static struct egress_message connection(enum egress_verdict verdict, const char *rule)
{
    struct egress_message message = {
        .type = EGRESS_CONNECTION,
        .connection = { .port = 443, .verdict = verdict, .bytes_sent = 10, .bytes_received = 100 },
    };

    strcpy(message.connection.name, "a.example");
    strcpy(message.connection.rule, rule);
    return message;
}

static void make_ready(void)
{
    const struct egress_start start = {
        .run_id = "0", .connections = 1, .bytes = 4096, .idle_usec = 1000000
    };
    int null = memfd_create("listener", MFD_CLOEXEC);

    assert_int_equal(egress_start(egress, &start, null), 0);
    close(null);
    say_type(EGRESS_READY);
    assert_int_equal(last.type, EGRESS_EVENT_READY);
}

static void assert_gone(int error)
{
    assert_int_equal(last.type, EGRESS_EVENT_GONE);
    assert_int_equal(last.error, error);
    assert_null(egress);
}

static void what_it_tells_adds_up(void **state)
{
    struct egress_message allowed = connection(EGRESS_ALLOWED, "");
    struct egress_message refused = connection(EGRESS_REFUSED, "DeniedNames=a.example");
    struct egress_message failed = connection(EGRESS_FAILED, "connection refused");

    make_ready();
    say(&allowed);
    say(&refused);
    say(&failed);
    assert_int_equal(use.told.connections, 3);
    assert_int_equal(use.told.refused, 1);
    assert_int_equal(use.told.failed, 1);
    assert_int_equal(use.told.bytes_received, 300);
    assert_string_equal(use.refusal, "a.example:443 was refused by DeniedNames=a.example");
    assert_int_equal(n_events, 4);
}

static void last_word_replaces_the_sum(void **state)
{
    static struct egress_host host = {
        .name = "b.example", .port = 80, .connections = 500, .rule = "AllowedNames="
    };
    const struct egress_message message = {
        .type = EGRESS_FINISHED,
        .finished = { .connections = 500,
                      .refused = 500,
                      .unrecorded = 300,
                      .refused_hosts = &host,
                      .n_refused_hosts = 1 },
    };

    make_ready();
    assert_int_equal(egress_finish(egress), 0);
    say(&message);
    assert_int_equal(last.type, EGRESS_EVENT_FINISHED);
    assert_int_equal(use.told.connections, 500);
    assert_string_equal(use.refusal, "b.example:80 was refused by AllowedNames=");
    _cleanup_json_ json_object *object = network_use_object(&use);
    assert_string_equal(
        json_object_to_json_string_ext(object, JSON_C_TO_STRING_PLAIN),
        "{\"connections\":500,\"refused\":500,\"failed\":0,\"bytesSent\":0,\"bytesReceived\":0,"
        "\"hosts\":[],\"refusedHosts\":[{\"name\":\"b.example\",\"port\":80,\"connections\":500,"
        "\"bytesSent\":0,\"bytesReceived\":0,\"rule\":\"AllowedNames=\"}],\"complete\":true}");
}

static void without_a_last_word_the_use_is_not_complete(void **state)
{
    _cleanup_json_ json_object *object = network_use_object(&use);

    assert_false(json_object_get_boolean(json_object_object_get(object, "complete")));
    use.finished = use.told.more_hosts = true;
    _cleanup_json_ json_object *more = network_use_object(&use);
    assert_false(json_object_get_boolean(json_object_object_get(more, "complete")));
}

static void end_of_file_is_told(void **state)
{
    peer = close_fd(peer);
    settle();
    assert_gone(0);
}

static void words_that_are_not_due_end_it(void **state)
{
    struct egress_message early = connection(EGRESS_ALLOWED, "");
    const struct egress_message finished = { .type = EGRESS_FINISHED };

    say_type(EGRESS_READY); /* nothing was started */
    assert_gone(-EBADMSG);
    tear_down(NULL);
    set_up(NULL);
    say(&early);
    assert_gone(-EBADMSG);
    tear_down(NULL);
    set_up(NULL);
    make_ready();
    say(&finished); /* nobody asked */
    assert_gone(-EBADMSG);
    tear_down(NULL);
    set_up(NULL);
    make_ready();
    say_type(EGRESS_READY);
    assert_gone(-EBADMSG);
    tear_down(NULL);
    set_up(NULL);
    say_type(EGRESS_FINISH);
    assert_gone(-EBADMSG);
}

static void descriptors_and_nonsense_end_it(void **state)
{
    const struct egress_message message = { .type = EGRESS_ERROR, .error.message = "no" };
    int null = memfd_create("x", MFD_CLOEXEC);

    assert_int_equal(egress_send(peer, &message, &null, 1), 0);
    close(null);
    settle();
    assert_gone(-EBADMSG);
    tear_down(NULL);
    set_up(NULL);
    assert_int_equal(send(peer, "{}", 2, 0), 2);
    settle();
    assert_gone(-EBADMSG);
}

static void more_records_than_there_may_be_end_it(void **state)
{
    struct egress_message message = connection(EGRESS_ALLOWED, "");

    make_ready();
    for (unsigned i = 0; i < EGRESS_RECORDS_MAX; i++)
        say(&message);
    assert_int_equal(n_events, EGRESS_RECORDS_MAX + 1);
    assert_int_equal(last.type, EGRESS_EVENT_CONNECTION);
    say(&message);
    assert_gone(-EBADMSG);
    assert_int_equal(use.told.connections, EGRESS_RECORDS_MAX);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(what_it_tells_adds_up),
        TEST(last_word_replaces_the_sum),
        TEST(without_a_last_word_the_use_is_not_complete),
        TEST(end_of_file_is_told),
        TEST(words_that_are_not_due_end_it),
        TEST(descriptors_and_nonsense_end_it),
        TEST(more_records_than_there_may_be_end_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
