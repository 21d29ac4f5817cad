/* Bytes between our streams and those of a run: all of them, in order, and no stream waits for
 * another. */
#include "client-fixture.h"

#include <pty.h>
#include <signal.h>
#include <sys/socket.h>

#include "client/pump.h"

enum { READ, WRITE };

/* The pump between pipes whose other ends the test holds. */
struct bench {
    struct pump *pump;
    int run_in, run_out, run_err; /* what the program in the sandbox has */
    int own_in, own_out, own_err; /* what our caller has */
    int kept[PUMP_DIRECTIONS];    /* our own streams, as the pump was given them */
};

static int setup(void **state)
{
    struct bench *b = calloc(1, sizeof(*b));
    int in[2], out[2], err[2], own_in[2], own_out[2], own_err[2];

    assert_non_null(b);
    signal(SIGPIPE, SIG_IGN);
    assert_int_equal(pipe2(in, O_CLOEXEC) | pipe2(out, O_CLOEXEC) | pipe2(err, O_CLOEXEC), 0);
    assert_int_equal(pipe2(own_in, O_CLOEXEC) | pipe2(own_out, O_CLOEXEC), 0);
    assert_int_equal(pipe2(own_err, O_CLOEXEC), 0);
    *b = (struct bench){ .pump = pump_new(),
                         .run_in = in[READ],
                         .run_out = out[WRITE],
                         .run_err = err[WRITE],
                         .own_in = own_in[WRITE],
                         .own_out = own_out[READ],
                         .own_err = own_err[READ],
                         .kept = { own_in[READ], own_out[WRITE], own_err[WRITE] } };
    int ends[] = { b->run_in, b->run_out, b->run_err, b->own_in, b->own_out, b->own_err };
    for (size_t i = 0; i < ELEMENTS(ends); i++)
        assert_int_equal(fcntl(ends[i], F_SETFL, O_NONBLOCK), 0);
    pump_start(b->pump, (const int[]){ in[WRITE], out[READ], err[READ] }, b->kept);
    *state = b;
    return 0;
}

static int teardown(void **state)
{
    struct bench *b = *state;

    pump_free(b->pump);
    int ends[] = { b->run_in,  b->run_out, b->run_err, b->own_in, b->own_out,
                   b->own_err, b->kept[0], b->kept[1], b->kept[2] };
    for (size_t i = 0; i < ELEMENTS(ends); i++)
        close_fd(ends[i]);
    free(b);
    return 0;
}

/* Lets the pump work until it only waits. A pump that spins fails the test. */
static void settle(struct bench *b)
{
    for (int i = 0; i < 1000; i++) {
        struct pollfd fds[PUMP_POLL_FDS];
        pump_prepare(b->pump, fds);
        if (poll(fds, ELEMENTS(fds), 0) == 0)
            return;
        pump_dispatch(b->pump, fds);
    }
    fail_msg("the pump does not come to rest");
}

/* Sends @size bytes of a pattern with all byte values from @from to @to, in both ends' pace. */
static void assert_passes(struct bench *b, int from, int to, size_t size)
{
    size_t sent = 0, received = 0;

    while (received < size) {
        unsigned char data[3001], back[5003];
        for (size_t i = 0; i < sizeof(data); i++)
            data[i] = (unsigned char)((sent + i) * 7);
        if (sent < size) {
            size_t n = size - sent < sizeof(data) ? size - sent : sizeof(data);
            ssize_t written = write(from, data, n);
            sent += written > 0 ? (size_t)written : 0;
        }
        settle(b);
        ssize_t n = read(to, back, sizeof(back));
        for (ssize_t i = 0; i < n; i++)
            assert_int_equal(back[i], (unsigned char)((received + (size_t)i) * 7));
        received += n > 0 ? (size_t)n : 0;
    }
}

static void all_byte_values_pass_unchanged(void **state)
{
    struct bench *b = *state;

    assert_passes(b, b->run_out, b->own_out, 1 << 20);
    assert_passes(b, b->run_err, b->own_err, 1 << 20);
    assert_passes(b, b->own_in, b->run_in, 1 << 20);
}

static void slow_reader_of_stdout_does_not_hold_up_the_others(void **state)
{
    struct bench *b = *state;
    static char data[PUMP_BUFFER];

    for (int i = 0; i < 100; i++) {
        (void)!write(b->run_out, data, sizeof(data));
        settle(b);
    }
    /* Room for less than a buffer must not make it wait for the rest. */
    alarm(20);
    assert_int_equal(read(b->own_out, data, 4096), 4096);
    settle(b);
    alarm(0);
    while (write(b->run_out, data, sizeof(data)) > 0)
        settle(b);
    assert_true(write(b->run_out, data, sizeof(data)) < 0); /* back-pressure */
    assert_passes(b, b->run_err, b->own_err, 100000);
    assert_passes(b, b->own_in, b->run_in, 100000);
    assert_false(pump_is_drained(b->pump));
}

static void ends_of_output_are_noticed(void **state)
{
    struct bench *b = *state;
    char data[8];

    assert_int_equal(write(b->run_out, "end", 3), 3);
    b->run_out = close_fd(b->run_out);
    settle(b);
    assert_int_equal(read(b->own_out, data, sizeof(data)), 3);
    assert_false(pump_is_drained(b->pump));
    b->run_err = close_fd(b->run_err);
    settle(b);
    assert_true(pump_is_drained(b->pump));
    assert_int_equal(pump_error(b->pump), 0);
}

static void end_of_input_reaches_the_run(void **state)
{
    struct bench *b = *state;
    char data[8];

    assert_int_equal(write(b->own_in, "last", 4), 4);
    b->own_in = close_fd(b->own_in);
    settle(b);
    assert_int_equal(read(b->run_in, data, sizeof(data)), 4);
    assert_int_equal(read(b->run_in, data, sizeof(data)), 0);
}

static void reader_of_stdout_that_leaves_is_felt_by_the_run(void **state)
{
    struct bench *b = *state;

    b->own_out = close_fd(b->own_out);
    assert_int_equal(write(b->run_out, "x", 1), 1);
    settle(b);
    assert_true(write(b->run_out, "x", 1) < 0 && errno == EPIPE);
    assert_int_equal(pump_error(b->pump), 0);
    assert_passes(b, b->run_err, b->own_err, 100000);
    b->run_err = close_fd(b->run_err);
    settle(b);
    assert_true(pump_is_drained(b->pump));
}

static void run_that_closes_stdin_is_left_alone(void **state)
{
    struct bench *b = *state;

    b->run_in = close_fd(b->run_in);
    assert_int_equal(write(b->own_in, "x", 1), 1);
    settle(b);
    assert_passes(b, b->run_out, b->own_out, 1000);
}

static void mode_of_our_own_streams_is_not_changed(void **state)
{
    struct bench *b = *state;

    for (size_t i = 0; i < PUMP_DIRECTIONS; i++)
        assert_false(fcntl(b->kept[i], F_GETFL) & O_NONBLOCK);
}

static void failed_write_is_remembered(void **state)
{
    struct bench *b = *state;
    _cleanup_close_ int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
    int in[2], out[2], err[2];

    if (full < 0)
        skip();
    assert_int_equal(pipe2(in, O_CLOEXEC) | pipe2(out, O_CLOEXEC) | pipe2(err, O_CLOEXEC), 0);
    pump_free(b->pump);
    b->pump = pump_new();
    pump_start(b->pump, (const int[]){ in[WRITE], out[READ], err[READ] },
               (const int[]){ -1, full, -1 });
    char byte;
    assert_int_equal(read(in[READ], &byte, 1), 0); /* no input: at once an end of file */
    assert_int_equal(write(out[WRITE], "x", 1), 1);
    assert_int_equal(write(err[WRITE], "x", 1), 1);
    settle(b);
    assert_int_equal(pump_error(b->pump), ENOSPC);
    close(in[READ]);
    close(out[WRITE]);
    close(err[WRITE]);
}

/* Writes what a script says to a terminal of ours; is there room for a line of somebody else's? */
static bool leaves_room(const char *said)
{
    struct bench b = { .pump = pump_new() };
    int out[2], err[2], terminal, own;

    assert_int_equal(pipe2(out, O_CLOEXEC) | pipe2(err, O_CLOEXEC), 0);
    assert_int_equal(openpty(&terminal, &own, NULL, NULL, NULL), 0);
    pump_start(b.pump, (const int[]){ -1, out[READ], err[READ] }, (const int[]){ -1, own, -1 });
    assert_int_equal(write(out[WRITE], said, strlen(said)), strlen(said));
    settle(&b);
    bool room = pump_leaves_room(b.pump);
    pump_free(b.pump);
    int all[] = { out[WRITE], err[WRITE], terminal, own };
    for (size_t i = 0; i < ELEMENTS(all); i++)
        close(all[i]);
    return room;
}

static void half_lines_and_escape_sequences_leave_no_room_on_a_terminal(void **state)
{
    assert_true(leaves_room(""));
    assert_true(leaves_room("a\nb\n"));
    assert_false(leaves_room("a\nb"));
    assert_false(leaves_room("50 %\r"));
    assert_false(leaves_room("\033[2Ja\n"));
}

static void sockets_work_as_streams(void **state)
{
    struct bench *b = *state;
    int in[2], out[2], err[2], own[2];

    assert_int_equal(pipe2(in, O_CLOEXEC) | pipe2(out, O_CLOEXEC) | pipe2(err, O_CLOEXEC), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, own), 0);
    pump_free(b->pump);
    b->pump = pump_new();
    pump_start(b->pump, (const int[]){ in[WRITE], out[READ], err[READ] },
               (const int[]){ own[0], own[0], -1 });
    assert_passes(b, out[WRITE], own[1], 10000);
    assert_passes(b, own[1], in[READ], 10000);
    int all[] = { in[READ], out[WRITE], err[WRITE], own[0], own[1] };
    for (size_t i = 0; i < ELEMENTS(all); i++)
        close(all[i]);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(all_byte_values_pass_unchanged),
        T(slow_reader_of_stdout_does_not_hold_up_the_others),
        T(ends_of_output_are_noticed),
        T(end_of_input_reaches_the_run),
        T(reader_of_stdout_that_leaves_is_felt_by_the_run),
        T(run_that_closes_stdin_is_left_alone),
        T(mode_of_our_own_streams_is_not_changed),
        T(failed_write_is_remembered),
        T(sockets_work_as_streams),
        cmocka_unit_test(half_lines_and_escape_sequences_leave_no_room_on_a_terminal),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
