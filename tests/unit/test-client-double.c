/* The whole program sbxctl against a double of the helper: what it sends, and what it makes of
 * answers that the real helper gives seldom or never. The program's path is in SBXCTL_PROGRAM. */
#include "client-program.h"

#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>

/* ---- the double: takes one connection and plays one part ---- */

struct connection {
    int fd;
    char request[64 * 1024]; /* the call that came */
    int fds[16];
    size_t n_fds;
};

typedef void (*part_fn)(struct connection *c);

struct helper {
    int listener;
    part_fn part;
    pthread_t thread;
    struct connection connection;
};

/* Reads one message with its descriptors. */
static void receive(struct connection *c)
{
    char control[CMSG_SPACE(sizeof(c->fds))];
    size_t size = 0;

    do {
        struct iovec iov = { c->request + size, sizeof(c->request) - size };
        struct msghdr message = { .msg_iov = &iov,
                                  .msg_iovlen = 1,
                                  .msg_control = control,
                                  .msg_controllen = sizeof(control) };
        ssize_t n = recvmsg(c->fd, &message, MSG_CMSG_CLOEXEC);
        if (n <= 0) {
            c->request[size] = '\0';
            return;
        }
        size += (size_t)n;
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        if (header && header->cmsg_type == SCM_RIGHTS) {
            c->n_fds = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
            memcpy(c->fds, CMSG_DATA(header), c->n_fds * sizeof(int));
        }
    } while (c->request[size - 1] != '\0');
}

static void answer_with_fds(struct connection *c, const char *text, const int *fds, size_t n)
{
    char control[CMSG_SPACE(4 * sizeof(int))] = {};
    struct iovec iov = { (char *)(uintptr_t)text, strlen(text) + 1 };
    struct msghdr message = { .msg_iov = &iov, .msg_iovlen = 1 };

    if (n > 0) {
        message.msg_control = control;
        message.msg_controllen = CMSG_SPACE(n * sizeof(int));
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(n * sizeof(int));
        memcpy(CMSG_DATA(header), fds, n * sizeof(int));
    }
    (void)!sendmsg(c->fd, &message, MSG_NOSIGNAL);
}

static void answer(struct connection *c, const char *text)
{
    answer_with_fds(c, text, NULL, 0);
}

static void *play(void *userdata)
{
    struct helper *helper = userdata;
    struct connection *c = &helper->connection;

    c->fd = accept4(helper->listener, NULL, NULL, SOCK_CLOEXEC);
    if (c->fd >= 0) {
        receive(c);
        helper->part(c);
        close(c->fd);
    }
    return NULL;
}

static void helper_start(struct helper *helper, part_fn part)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX, .sun_path = SOCKET };

    *helper = (struct helper){ .part = part };
    helper->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    unlink(SOCKET);
    assert_int_equal(bind(helper->listener, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(helper->listener, 4), 0);
    assert_int_equal(pthread_create(&helper->thread, NULL, play, helper), 0);
}

static void helper_stop(struct helper *helper)
{
    shutdown(helper->listener, SHUT_RDWR);
    pthread_join(helper->thread, NULL);
    close(helper->listener);
    for (size_t i = 0; i < helper->connection.n_fds; i++)
        close(helper->connection.fds[i]);
}

/* ---- parts ---- */

#define RESULT(fields)                                                                            \
    "{\"parameters\":{\"event\":\"finished\",\"id\":\"ab12\",\"result\":{\"id\":\"ab12\"," fields \
    ",\"reason\":\"it ended\"}}}"

static void succeed(struct connection *c)
{
    answer(c, RESULT("\"status\":\"succeeded\",\"exitCode\":0"));
}

/* A program that writes all byte values to both streams and ends. */
static void write_all_bytes(struct connection *c)
{
    int in[2], out[2], err[2];
    unsigned char bytes[256];

    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (unsigned char)i;
    (void)!(pipe2(in, O_CLOEXEC) | pipe2(out, O_CLOEXEC) | pipe2(err, O_CLOEXEC));
    answer(c, "{\"parameters\":{\"event\":\"queued\",\"id\":\"ab12\",\"position\":1},"
              "\"continues\":true}");
    answer_with_fds(c,
                    "{\"parameters\":{\"event\":\"started\",\"id\":\"ab12\"},\"continues\":true}",
                    (const int[]){ in[1], out[0], err[0] }, 3);
    int given[] = { in[0], in[1], out[0], err[0] };
    for (size_t i = 0; i < ELEMENTS(given); i++)
        close(given[i]);
    (void)!write(err[1], bytes, sizeof(bytes));
    for (int i = 0; i < 1000; i++)
        (void)!write(out[1], bytes, sizeof(bytes));
    succeed(c);
    /* Only now is all output on its way. */
    (void)!write(out[1], "last", 4);
    close(out[1]);
    close(err[1]);
}

static void go_away(struct connection *c)
{
}

static void go_away_during_the_run(struct connection *c)
{
    answer(c, "{\"parameters\":{\"event\":\"started\",\"id\":\"ab12\"},\"continues\":true}");
}

static void talk_nonsense(struct connection *c)
{
    answer(c, "{\"parameters\":[}");
}

static void give_strange_result(struct connection *c)
{
    answer(c, "{\"parameters\":{\"event\":\"finished\",\"result\":{\"id\":1}}}");
}

static void time_out(struct connection *c)
{
    answer(c, "{\"parameters\":{\"event\":\"finished\",\"result\":{\"id\":\"ab12\",\"status\":"
              "\"timed_out\",\"reason\":\"timed out after 60 s\",\"hint\":\"try --timeout 120s\","
              "\"stdout\":{\"text\":\"caf\\u00e9\\n\\u001b[31m\",\"bytes\":9}}}}");
}

static void deny(struct connection *c)
{
    answer(c, "{\"error\":\"io.sbxctl.Sandbox.Denied\",\"parameters\":{\"action\":"
              "\"io.sbxctl.run-network\",\"reason\":\"not \\u001b[2Jallowed\"}}");
}

static void name_images(struct connection *c)
{
    answer(c, "{\"parameters\":{\"images\":[\"a.example:5/python:3.12-slim@sha256:0f\",\"<(id)\","
              "\"$(id)\",\"~root\",\"*\",\"{a,b}\",\"-x\",\"a;b\",\"\\u009b\",\"python\"]}}");
}

static void wait_for_hangup(struct connection *c)
{
    char byte;

    answer(c, "{\"parameters\":{\"event\":\"queued\",\"position\":3},\"continues\":true}");
    write_file("is-waiting", "");
    (void)!read(c->fd, &byte, 1);
    write_file("hung-up", "");
}

/* ---- tests ---- */

static void fault_08_empty_argv(void **state)
{
    assert_int_equal(finish(start("/dev/null", (const char *const[]){ NULL })), 64);
}

static void usage_errors_end_with_64(void **state)
{
    assert_int_equal(finish(start("/dev/null", (const char *const[]){ "sbxctl", NULL })), 64);
    assert_int_equal(SBXCTL("frobnicate"), 64);
    assert_int_equal(SBXCTL("run"), 64);
    assert_int_equal(SBXCTL("run", "--memory", "x", "script"), 64);
    assert_int_equal(SBXCTL("show"), 64);
    assert_int_equal(SBXCTL("show", "a", "b"), 64);
    assert_int_equal(SBXCTL("ps", "x"), 64);
    assert_int_equal(SBXCTL("rm"), 64);
}

static void help_fits_on_80_columns(void **state)
{
    static const char *const verbs[] = { "run", "ps", "show", "get", "rm", "policy" };

    for (size_t i = 0; i < ELEMENTS(verbs); i++) {
        assert_int_equal(SBXCTL(verbs[i], "--help"), 0);
        for (const char *p = read_file(STDOUT); *p; p += strcspn(p, "\n") + 1)
            assert_true(strcspn(p, "\n") <= 80);
    }
}

static void missing_helper_ends_with_69(void **state)
{
    unlink(SOCKET);
    assert_int_equal(SBXCTL("ps"), 69);
    assert_non_null(strstr(read_file(STDERR), "systemctl enable --now sbxctl-helper.socket"));
    write_file("script", "");
    assert_int_equal(SBXCTL("run", "--json", "script"), 69);
    _cleanup_json_ json_object *object = printed_object();
    assert_string_equal(member(object, "error"), "io.sbxctl.Client.Unreachable");
}

static void socket_without_listener_ends_with_69(void **state)
{
    struct helper helper;

    helper_start(&helper, go_away);
    helper_stop(&helper);
    assert_int_equal(SBXCTL("ps"), 69);
    assert_non_null(strstr(read_file(STDERR), "nobody listens"));
}

/* Listens as a user that is neither root nor the caller, and notes whether anything came. */
static pid_t start_stranger(void)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX, .sun_path = SOCKET };
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), note;
    char byte;

    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    note = open("note", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    pid_t pid = fork();
    if (pid == 0) {
        if (setuid(65534) < 0 || listen(fd, 1) < 0 || write(note, "listens", 7) != 7)
            _exit(99);
        int connection = accept(fd, NULL, NULL);
        _exit(read(connection, &byte, 1) == 0 ? 0 : 1);
    }
    close(fd);
    close(note);
    for (int n = 0; n < 500 && read_file("note")[0] == '\0'; n++)
        usleep(10000);
    return pid;
}

static void listener_of_a_stranger_is_sent_nothing(void **state)
{
    if (geteuid() != 0)
        skip();
    pid_t stranger = start_stranger();
    assert_int_equal(SBXCTL("run", "-c", "secret"), 69);
    assert_int_equal(finish(stranger), 0);
    assert_non_null(strstr(read_file(STDERR), "is not the helper: it belongs to uid 65534"));
}

static void fault_67_arguments_arrive_as_given(void **state)
{
    struct helper helper;

    write_file("script", "#!/bin/sh\n");
    helper_start(&helper, succeed);
    assert_int_equal(SBXCTL("run", "--", "script", "--", "-x", "", "a b\n", "--privileged"), 0);
    helper_stop(&helper);
    assert_non_null(strstr(helper.connection.request,
                           "\"arguments\":[\"--\",\"-x\",\"\",\"a b\\n\","
                           "\"--privileged\"]"));
    assert_non_null(strstr(helper.connection.request, "\"scriptName\":\"script\""));
    assert_int_equal(helper.connection.n_fds, 1);
}

static void streams_pass_byte_for_byte(void **state)
{
    struct helper helper;

    helper_start(&helper, write_all_bytes);
    assert_int_equal(SBXCTL("run", "-c", "1"), 0);
    helper_stop(&helper);

    static unsigned char bytes[257 * 1000];
    _cleanup_close_ int out = open(STDOUT, O_RDONLY), err = open(STDERR, O_RDONLY);
    assert_int_equal(read(out, bytes, sizeof(bytes)), 256000 + 4);
    for (size_t i = 0; i < 256000; i++)
        assert_int_equal(bytes[i], i % 256);
    assert_memory_equal(bytes + 256000, "last", 4);
    assert_int_equal(read(err, bytes, sizeof(bytes)), 256);
    for (size_t i = 0; i < 256; i++)
        assert_int_equal(bytes[i], i);
}

static void helper_that_goes_away_is_told(void **state)
{
    struct helper helper;

    helper_start(&helper, go_away);
    assert_int_equal(SBXCTL("run", "-c", "1"), 69);
    helper_stop(&helper);
    helper_start(&helper, go_away_during_the_run);
    assert_int_equal(SBXCTL("run", "--json", "-c", "1"), 125);
    helper_stop(&helper);
    _cleanup_json_ json_object *object = printed_object();
    assert_string_equal(member(object, "error"), "io.sbxctl.Client.Lost");
}

static void nonsense_from_the_helper_is_told(void **state)
{
    struct helper helper;

    helper_start(&helper, talk_nonsense);
    assert_int_equal(SBXCTL("run", "-c", "1"), 125);
    helper_stop(&helper);
    helper_start(&helper, give_strange_result);
    assert_int_equal(SBXCTL("run", "-c", "1"), 125);
    helper_stop(&helper);
}

static void bad_end_is_told_with_what_to_do(void **state)
{
    struct helper helper;

    helper_start(&helper, time_out);
    assert_int_equal(SBXCTL("run", "-c", "1"), 124);
    helper_stop(&helper);
    assert_string_equal(read_file(STDERR), "sbxctl: timed out after 60 s\n"
                                           "sbxctl: try --timeout 120s\n");
    helper_start(&helper, time_out);
    assert_int_equal(SBXCTL("run", "--quiet", "-c", "1"), 124);
    helper_stop(&helper);
    assert_string_equal(read_file(STDERR), "");
}

static void json_is_one_object_with_the_result(void **state)
{
    struct helper helper;

    helper_start(&helper, time_out);
    assert_int_equal(SBXCTL("run", "--json", "-c", "1"), 124);
    helper_stop(&helper);
    _cleanup_json_ json_object *object = printed_object();
    assert_string_equal(member(object, "status"), "timed_out");
    assert_string_equal(member(json_object_object_get(object, "stdout"), "text"),
                        "caf\xc3\xa9\n\x1b[31m");
}

static void denial_ends_with_126_and_is_safe_to_show(void **state)
{
    struct helper helper;

    helper_start(&helper, deny);
    assert_int_equal(SBXCTL("run", "--json", "--network", "-c", "1"), 126);
    helper_stop(&helper);
    _cleanup_json_ json_object *object = printed_object();
    assert_string_equal(member(object, "error"), "io.sbxctl.Sandbox.Denied");
    assert_string_equal(member(object, "action"), "io.sbxctl.run-network");
    assert_null(strchr(read_file(STDERR), '\x1b'));
    assert_non_null(strstr(read_file(STDERR), "not \\x1b[2Jallowed"));
}

static void interrupt_before_the_id_is_known_hangs_up(void **state)
{
    static const int signals[] = { SIGINT, SIGTERM, SIGHUP };

    for (size_t i = 0; i < ELEMENTS(signals); i++) {
        struct helper helper;
        unlink("is-waiting");
        unlink("hung-up");
        helper_start(&helper, wait_for_hangup);
        pid_t pid = start("/dev/null", (const char *const[]){ "sbxctl", "run", "-c", "1", NULL });
        for (int n = 0; n < 500 && access("is-waiting", F_OK) < 0; n++)
            usleep(10000);
        usleep(50000); /* until the answer was read */
        assert_int_equal(kill(pid, signals[i]), 0);
        assert_int_equal(finish(pid), 130);
        helper_stop(&helper);
        assert_int_equal(access("hung-up", F_OK), 0);
    }
}

static void standard_streams_that_are_closed_do_no_harm(void **state)
{
    struct helper helper;

    helper_start(&helper, write_all_bytes);
    pid_t pid = fork();
    if (pid == 0) {
        setenv("SBXCTL_SOCKET", SOCKET, 1);
        close(0);
        close(1);
        close(2);
        execl(getenv("SBXCTL_PROGRAM"), "sbxctl", "run", "-c", "1", (char *)NULL);
        _exit(98);
    }
    assert_int_equal(finish(pid), 0);
    helper_stop(&helper);
}

/* bash expands what it is given. */
static void completions_are_nothing_that_a_shell_expands(void **state)
{
    struct helper helper;

    helper_start(&helper, name_images);
    assert_int_equal(SBXCTL("--complete", "images"), 0);
    assert_string_equal(read_file(STDOUT), "a.example:5/python:3.12-slim@sha256:0f\npython\n");
    helper_stop(&helper);
}

#define T(name) cmocka_unit_test_setup_teardown(name, enter_scratch, leave_scratch)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(fault_08_empty_argv),
        T(usage_errors_end_with_64),
        T(help_fits_on_80_columns),
        T(missing_helper_ends_with_69),
        T(socket_without_listener_ends_with_69),
        T(listener_of_a_stranger_is_sent_nothing),
        T(fault_67_arguments_arrive_as_given),
        T(streams_pass_byte_for_byte),
        T(helper_that_goes_away_is_told),
        T(nonsense_from_the_helper_is_told),
        T(bad_end_is_told_with_what_to_do),
        T(json_is_one_object_with_the_result),
        T(denial_ends_with_126_and_is_safe_to_show),
        T(interrupt_before_the_id_is_known_hangs_up),
        T(standard_streams_that_are_closed_do_no_harm),
        T(completions_are_nothing_that_a_shell_expands),
    };

    if (!getenv("SBXCTL_PROGRAM")) {
        fprintf(stderr, "SBXCTL_PROGRAM is not set\n");
        return 1;
    }
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
