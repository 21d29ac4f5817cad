/* The engine protocol: every message survives the way through JSON, and what is no message is
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
#include "engine/protocol.h"

#define LAYER "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
/* A start with these members more. */
#define MORE(text) \
    "{\"type\":\"start\",\"version\":1,\"runId\":\"ab\",\"lifetimeUSec\":7," text "," START "}"
#define START                                                                     \
    "\"ownerUid\":1000,\"cpuPercent\":100,\"tasks\":64,\"workspaceInodes\":1000," \
    "\"memoryBytes\":1048576,\"workspaceBytes\":4096,\"scratchBytes\":4096"

static const struct engine_message messages[] = {
    { ENGINE_START, .start = { .run_id = "0123456789abcdef0123456789abcdef",
                               .image = "debian:12",
                               .layer = LAYER,
                               .layer_target = ENGINE_TARGET_NODE_MODULES,
                               .wheels = "/srv/wheels",
                               .hosts = "pypi.org *.example.org",
                               .owner_uid = 4294967294,
                               .cpu_percent = 150,
                               .tasks = 256,
                               .workspace_inodes = 10000,
                               .memory_bytes = 1ULL << 40,
                               .workspace_bytes = 1,
                               .scratch_bytes = INT64_MAX,
                               .lifetime_usec = 60000000,
                               .network = true } },
    { ENGINE_KILL, .kill = { .grace_usec = 0 } },
    { ENGINE_KILL, .kill = { .grace_usec = 5000000 } },
    { ENGINE_PROGRESS, .progress = { .phase = "pull", .current = 3, .total = 10 } },
    { ENGINE_READY,
      .ready = { .sandbox_id = "sbxctl-run-1.service", .image = "a", .image_digest = "b" } },
    { ENGINE_ENDED, .ended = { .why = ENGINE_WHY_OOM,
                               .oom_kills = 2,
                               .cpu_usec = 1234,
                               .memory_peak_bytes = 5678,
                               .task_refusals = 7,
                               .leftovers = 1,
                               .cleaned = true } },
    { ENGINE_ENDED, .ended = { .why = ENGINE_WHY_KILLED,
                               .oom_kills = UINT64_MAX,
                               .cpu_usec = UINT64_MAX,
                               .memory_peak_bytes = UINT64_MAX,
                               .task_refusals = UINT64_MAX,
                               .leftovers = UINT64_MAX,
                               .stands = true } },
    { ENGINE_REMOVED, .removed = { .cleaned = true } },
    { ENGINE_REMOVED, .removed = { .cleaned = false } },
    { ENGINE_PREPARE, .prepare = { .image = "debian:12" } },
    { ENGINE_PREPARE, .prepare = { .image = "", .any_state = true } },
    { ENGINE_PREPARE, .prepare = { .image = "debian:12", .look = true } },
    { ENGINE_PREPARED, .prepared = { .image = "debian:12", .image_digest = "sha256:0" } },
    { ENGINE_ERROR,
      .error = { .phase = "start", .message = "A \"sentence\"\nwith \xc3\xa4 and \\." } },
};

static int parse(const char *text, struct engine_message *ret)
{
    return engine_message_parse(text, strlen(text), ret);
}

static void every_message_survives_a_round_trip(void **state)
{
    for (size_t i = 0; i < ELEMENTS(messages); i++) {
        _cleanup_free_ char *text = NULL, *again = NULL;
        struct engine_message back = { 0 };
        size_t size, again_size;

        assert_int_equal(engine_message_format(&messages[i], &text, &size), 0);
        assert_int_equal(size, strlen(text));
        assert_int_equal(engine_message_parse(text, size, &back), 0);
        assert_memory_equal(&back, &messages[i], sizeof(back));
        assert_int_equal(engine_message_format(&back, &again, &again_size), 0);
        assert_string_equal(text, again);
    }
}

static void fields_arrive_where_they_belong(void **state)
{
    struct engine_message m;

    assert_int_equal(parse("{\"type\":\"start\",\"version\":1,\"runId\":\"ab\",\"lifetimeUSec\":7,"
                           "\"network\":true," START "}",
                           &m),
                     0);
    assert_string_equal(m.start.run_id, "ab");
    assert_string_equal(m.start.image, "");
    assert_string_equal(m.start.layer, "");
    assert_int_equal(m.start.layer_target, ENGINE_TARGET_NONE);
    assert_string_equal(m.start.wheels, "");
    assert_int_equal(m.start.owner_uid, 1000);
    assert_int_equal(m.start.cpu_percent, 100);
    assert_int_equal(m.start.tasks, 64);
    assert_int_equal(m.start.workspace_inodes, 1000);
    assert_int_equal(m.start.memory_bytes, 1048576);
    assert_int_equal(m.start.lifetime_usec, 7);
    assert_true(m.start.network);

    assert_int_equal(parse("{\"type\":\"ended\",\"version\":1,\"why\":\"timeout\",\"cleaned\":true,"
                           "\"oomKills\":0}",
                           &m),
                     0);
    assert_int_equal(m.ended.why, ENGINE_WHY_TIMEOUT);
    assert_int_equal(m.ended.oom_kills, 0);
}

static void counters_that_are_not_told_are_unknown(void **state)
{
    struct engine_message m;

    assert_int_equal(
        parse("{\"type\":\"ended\",\"version\":1,\"why\":\"exit\",\"cleaned\":false}", &m), 0);
    assert_true(m.ended.oom_kills == UINT64_MAX);
    assert_true(m.ended.cpu_usec == UINT64_MAX);
    assert_true(m.ended.memory_peak_bytes == UINT64_MAX);
    assert_true(m.ended.leftovers == UINT64_MAX);
}

static void unknown_members_are_ignored(void **state)
{
    struct engine_message m;

    assert_int_equal(parse("{\"type\":\"kill\",\"version\":1,\"colour\":\"red\"}", &m), 0);
    assert_int_equal(m.type, ENGINE_KILL);
    assert_int_equal(m.kill.grace_usec, 0);
}

static void what_is_no_message_is_refused(void **state)
{
    static const struct {
        const char *text;
        int error;
    } bad[] = {
        { "", -EBADMSG },
        { "null", -EBADMSG },
        { "[]", -EBADMSG },
        { "{}", -EBADMSG },
        { "{\"type\":\"kill\"}", -EBADMSG },
        { "{\"version\":1}", -EBADMSG },
        { "{\"type\":1,\"version\":1}", -EBADMSG },
        { "{\"type\":\"kill\",\"version\":1} ,", -EBADMSG },
        { "{\"type\":\"kill\",\"type\":\"kill\",\"version\":1}", -EBADMSG },
        { "{\"type\":\"kill\",\"version\":2}", -EPROTONOSUPPORT },
        { "{\"type\":\"dance\",\"version\":1}", -EPROTONOSUPPORT },
        { "{\"type\":\"kill\",\"version\":1,\"graceUSec\":-1}", -EBADMSG },
        { "{\"type\":\"kill\",\"version\":1,\"graceUSec\":1.5}", -EBADMSG },
        { "{\"type\":\"kill\",\"version\":1,\"graceUSec\":\"1\"}", -EBADMSG },
        { "{\"type\":\"kill\",\"version\":1,\"graceUSec\":9223372036854775808}", -EBADMSG },
        { "{\"type\":\"ended\",\"version\":1,\"why\":\"bored\",\"cleaned\":true}", -EBADMSG },
        { "{\"type\":\"ended\",\"version\":1,\"why\":\"exit\"}", -EBADMSG },
        { "{\"type\":\"removed\",\"version\":1}", -EBADMSG },
        { "{\"type\":\"ready\",\"version\":1}", -EBADMSG },
        { "{\"type\":\"error\",\"version\":1,\"phase\":\"start\"}", -EBADMSG },
        { "{\"type\":\"start\",\"version\":1,\"runId\":\"ab\"," START "}", -EBADMSG },
        { "{\"type\":\"start\",\"version\":1,\"lifetimeUSec\":7," START "}", -EBADMSG },
        { "{\"type\":\"start\",\"version\":1,\"runId\":\"ab\",\"lifetimeUSec\":0," START "}",
          -EBADMSG },
        { "{\"type\":\"start\",\"version\":1,\"runId\":\"\",\"lifetimeUSec\":7," START "}",
          -EBADMSG },
        { "{\"type\":\"start\",\"version\":1,\"runId\":\"AB\",\"lifetimeUSec\":7," START "}",
          -EBADMSG },
        { "{\"type\":\"start\",\"version\":1,\"runId\":\"../x\",\"lifetimeUSec\":7," START "}",
          -EBADMSG },
        { "{\"type\":\"start\",\"version\":1,\"runId\":\"0123456789abcdef0123456789abcdef0\","
          "\"lifetimeUSec\":7," START "}",
          -EBADMSG },
        { MORE("\"layer\":\"" LAYER "\""), -EBADMSG },
        { MORE("\"layerTarget\":\"/packages\""), -EBADMSG },
        { MORE("\"layer\":\"" LAYER "\",\"layerTarget\":\"/usr\""), -EBADMSG },
        { MORE("\"layer\":\"0123\",\"layerTarget\":\"/packages\""), -EBADMSG },
        { MORE("\"layer\":\"../../../x\",\"layerTarget\":\"/packages\""), -EBADMSG },
        { MORE("\"layer\":\"" LAYER "0\",\"layerTarget\":\"/packages\""), -EBADMSG },
        { MORE("\"wheels\":\"srv\""), -EBADMSG },
        { MORE("\"wheels\":\"/\""), -EBADMSG },
        { MORE("\"wheels\":\"/srv/../root\""), -EBADMSG },
        { MORE("\"wheels\":\"/srv//x\""), -EBADMSG },
        { MORE("\"wheels\":\"/srv/\""), -EBADMSG },
    };

    for (size_t i = 0; i < ELEMENTS(bad); i++) {
        struct engine_message m = { .type = ENGINE_PROGRESS, .progress.current = 4711 };

        if (parse(bad[i].text, &m) != bad[i].error)
            fail_msg("not refused as it should be: %s", bad[i].text);
        assert_int_equal(m.progress.current, 4711);
    }
}

static void texts_that_are_too_long_are_refused(void **state)
{
    struct engine_message m;
    char text[ENGINE_TEXT_MAX + 200], name[ENGINE_TEXT_MAX + 2];

    memset(name, 'x', sizeof(name));
    name[ENGINE_TEXT_MAX] = '\0';
    snprintf(text, sizeof(text), "{\"type\":\"ready\",\"version\":1,\"sandboxId\":\"%s\"}", name);
    assert_int_equal(parse(text, &m), 0);
    assert_int_equal(strlen(m.ready.sandbox_id), ENGINE_TEXT_MAX);

    name[ENGINE_TEXT_MAX] = 'x';
    name[ENGINE_TEXT_MAX + 1] = '\0';
    snprintf(text, sizeof(text), "{\"type\":\"ready\",\"version\":1,\"sandboxId\":\"%s\"}", name);
    assert_int_equal(parse(text, &m), -EBADMSG);
}

static void messages_travel_with_their_descriptors(void **state)
{
    int pair[2], fds[PACKET_FDS_MAX], null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    struct engine_message m;
    size_t n;

    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    assert_int_equal(engine_send(pair[0], &messages[4], (const int[]){ null, null }, 2), 0);
    assert_int_equal(engine_recv(pair[1], &m, fds, &n), 1);
    assert_int_equal(m.type, ENGINE_READY);
    assert_int_equal(n, 2);
    packet_close_fds(fds);

    close(pair[0]);
    assert_int_equal(engine_recv(pair[1], &m, fds, &n), 0);
    close(pair[1]);
    close(null);
}

static void descriptors_of_a_refused_packet_are_closed(void **state)
{
    int pair[2], ends[2], fds[PACKET_FDS_MAX];
    struct engine_message m;
    size_t n;
    char byte;

    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    assert_int_equal(packet_send(pair[0], "{}", 2, &ends[1], 1), 0);
    close(ends[1]);
    assert_int_equal(engine_recv(pair[1], &m, fds, &n), -EBADMSG);
    assert_int_equal(n, 0);
    /* The end of file comes only if nobody holds the other end any more. */
    assert_int_equal(read(ends[0], &byte, 1), 0);
    close(ends[0]);
    close(pair[0]);
    close(pair[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_message_survives_a_round_trip),
        cmocka_unit_test(fields_arrive_where_they_belong),
        cmocka_unit_test(counters_that_are_not_told_are_unknown),
        cmocka_unit_test(unknown_members_are_ignored),
        cmocka_unit_test(what_is_no_message_is_refused),
        cmocka_unit_test(texts_that_are_too_long_are_refused),
        cmocka_unit_test(messages_travel_with_their_descriptors),
        cmocka_unit_test(descriptors_of_a_refused_packet_are_closed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
