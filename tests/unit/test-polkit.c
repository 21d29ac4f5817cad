/* Questions to polkit (helper/broker/polkit.h). The authority of these tests is the other end of a
 * bus of their own, a thread: it notes what it is asked and answers as told, in ways that no real
 * polkitd would. That the real one is understood is for the tests in the machine. Nothing is
 * locked: a test writes before it asks, and reads when it has its answer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <systemd/sd-bus.h>

#include "broker/polkit.h"

enum behaviour {
    ANSWER,  /* (bba{ss}) of the fixture's three values */
    ERROR,   /* a D-Bus error */
    ODD,     /* the fixture's odd reply: its signature is not the right one */
    CUT,     /* a yes, cut after the fixture's number of bytes, and the end of the connection */
    SILENCE, /* nothing */
    HANG_UP, /* the end of the connection */
};

/* What the authority was asked about last. */
struct question {
    char kind[32], action[64];
    bool has_pidfd, has_pid, has_start_time, has_uid;
    pid_t pidfd_pid; /* whose pidfd it was */
    uint32_t pid;
    uint64_t start_time;
    int32_t uid;
    size_t n_details, n_unknown;
    char detail[2][64];
};

struct fixture {
    sd_event *event;
    char directory[32];
    struct sockaddr_un address;
    pthread_t authority;
    int listener, stop[2]; /* a byte ends the thread */
    sd_event *loop;        /* the thread's */
    sd_bus *bus;           /* the authority's end of the last connection */
    enum behaviour behaviour;
    bool authorized, challenge, dismissed;
    int odd;
    size_t cut;
    struct question question;
    unsigned questions;

    struct polkit *polkit;
    struct polkit_check *check;
    struct peer peer;
    int pair[2];
    unsigned answers;
    enum polkit_answer answer;
};

/* How long polkit is waited for, where it is not what is told; 0: as long. */
static uint64_t impatience_usec;

/* In libsystemd's place, so that a test need not wait for as long as a user who types. */
int sd_bus_call_async(sd_bus *bus, sd_bus_slot **slot, sd_bus_message *m,
                      sd_bus_message_handler_t callback, void *userdata, uint64_t usec)
{
    static int (*real)(sd_bus *, sd_bus_slot **, sd_bus_message *, sd_bus_message_handler_t, void *,
                       uint64_t);

    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "sd_bus_call_async");
    return real(bus, slot, m, callback, userdata, impatience_usec ?: usec);
}

/* cmocka's assertions are for its own thread. */
#define must(good)                                                             \
    do {                                                                       \
        if (!(good)) {                                                         \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #good); \
            abort();                                                           \
        }                                                                      \
    } while (0)

/* ---- the authority ---- */

static pid_t pid_of_pidfd(int fd)
{
    char path[64];
    int pid = -1;

    snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
    FILE *f = fopen(path, "re");
    must(f);
    for (char line[128]; fgets(line, sizeof(line), f);)
        (void)sscanf(line, "Pid: %d", &pid);
    fclose(f);
    return pid;
}

static void read_subject(sd_bus_message *m, struct question *q)
{
    const char *text, *key, *type;
    int fd;

    must(sd_bus_message_enter_container(m, 'r', "sa{sv}") > 0);
    must(sd_bus_message_read(m, "s", &text) > 0);
    snprintf(q->kind, sizeof(q->kind), "%s", text);
    must(sd_bus_message_enter_container(m, 'a', "{sv}") > 0);
    while (sd_bus_message_enter_container(m, 'e', "sv") > 0) {
        must(sd_bus_message_read(m, "s", &key) > 0);
        must(sd_bus_message_peek_type(m, NULL, &type) > 0);
        if (strcmp(key, "pidfd") == 0 && strcmp(type, "h") == 0) {
            must(sd_bus_message_read(m, "v", "h", &fd) > 0);
            q->has_pidfd = true;
            q->pidfd_pid = pid_of_pidfd(fd);
        } else if (strcmp(key, "pid") == 0) {
            q->has_pid = sd_bus_message_read(m, "v", "u", &q->pid) > 0;
        } else if (strcmp(key, "start-time") == 0) {
            q->has_start_time = sd_bus_message_read(m, "v", "t", &q->start_time) > 0;
        } else if (strcmp(key, "uid") == 0) {
            q->has_uid = sd_bus_message_read(m, "v", "i", &q->uid) > 0;
        } else {
            q->n_unknown++;
            must(sd_bus_message_skip(m, "v") > 0);
        }
        must(sd_bus_message_exit_container(m) > 0);
    }
    must(sd_bus_message_exit_container(m) > 0);
    must(sd_bus_message_exit_container(m) > 0);
}

static void read_question(sd_bus_message *m, struct question *q)
{
    const char *action, *key, *value;

    *q = (struct question){ 0 };
    read_subject(m, q);
    must(sd_bus_message_read(m, "s", &action) > 0);
    snprintf(q->action, sizeof(q->action), "%s", action);
    must(sd_bus_message_enter_container(m, 'a', "{ss}") > 0);
    while (sd_bus_message_read(m, "{ss}", &key, &value) > 0)
        if (q->n_details++ < ELEMENTS(q->detail))
            snprintf(q->detail[q->n_details - 1], sizeof(q->detail[0]), "%s=%s", key, value);
    must(sd_bus_message_exit_container(m) > 0);
}

/* Replies that are well-formed D-Bus, and no answers of polkit. */
static int send_odd(struct fixture *f, sd_bus_message *m)
{
    switch (f->odd) {
    case 0:
        return sd_bus_reply_method_return(m, NULL);
    case 1:
        return sd_bus_reply_method_return(m, "b", 1);
    case 2:
        return sd_bus_reply_method_return(m, "bb", 1, 0);
    case 3:
        return sd_bus_reply_method_return(m, "bba{ss}", 1, 0, 0);
    case 4:
        return sd_bus_reply_method_return(m, "(bb)", 1, 0);
    case 5:
        return sd_bus_reply_method_return(m, "(bba{sv})", 1, 0, 0);
    case 6:
        return sd_bus_reply_method_return(m, "(uua{ss})", 1, 0, 0);
    case 7:
        return sd_bus_reply_method_return(m, "(bba{ss}b)", 1, 0, 0, 1);
    case 8:
        return sd_bus_reply_method_return(m, "s", "yes");
    default:
        return sd_bus_reply_method_return(m, "a(bba{ss})", 1, 1, 0, 0);
    }
}
#define N_ODD 10

/* A yes as it stands on the wire (D-Bus specification, "Message Format"): header with the fields
 * REPLY_SERIAL and SIGNATURE, then the body. */
static const unsigned char yes_on_the_wire[] = {
    'l', 2,   0,   1,   16,  0,   0,   0,
    99,  0,   0,   0,   23,  0,   0,   0, /* 16 bytes of body, 23 of fields */
    5,   1,   'u', 0,   0,   0,   0,   0, /* the serial comes here */
    8,   1,   'g', 0,   9,   '(', 'b', 'b',
    'a', '{', 's', 's', '}', ')', 0,   0, /* and a byte of padding */
    1,   0,   0,   0,   0,   0,   0,   0,
    0,   0,   0,   0,   0,   0,   0,   0,
};

static void hang_up(struct fixture *f)
{
    f->bus = sd_bus_close_unref(f->bus);
}

static void send_cut(struct fixture *f, sd_bus_message *m)
{
    unsigned char bytes[sizeof(yes_on_the_wire)];
    uint64_t cookie;
    uint32_t serial;

    must(sd_bus_message_get_cookie(m, &cookie) >= 0);
    serial = (uint32_t)cookie;
    memcpy(bytes, yes_on_the_wire, sizeof(bytes));
    memcpy(bytes + 20, &serial, sizeof(serial));
    must(send(sd_bus_get_fd(f->bus), bytes, f->cut, MSG_NOSIGNAL) == (ssize_t)f->cut);
    if (f->cut < sizeof(bytes))
        hang_up(f);
}

static int on_check(struct fixture *f, sd_bus_message *m)
{
    f->questions++;
    read_question(m, &f->question);
    switch (f->behaviour) {
    case ERROR:
        return sd_bus_reply_method_errorf(m, "org.freedesktop.PolicyKit1.Error.Failed", "no");
    case ODD:
        return send_odd(f, m);
    case CUT:
        send_cut(f, m);
        return 1;
    case SILENCE:
        return 1;
    case HANG_UP:
        hang_up(f);
        return 1;
    case ANSWER:
    default:
        return sd_bus_reply_method_return(m, "(bba{ss})", f->authorized, f->challenge,
                                          f->dismissed ? 1 : 0, "polkit.dismissed", "true");
    }
}

static int on_message(sd_bus_message *m, void *userdata, sd_bus_error *error)
{
    if (sd_bus_message_is_method_call(m, "org.freedesktop.DBus", "Hello") > 0)
        return sd_bus_reply_method_return(m, "s", ":1.7");
    if (sd_bus_message_is_method_call(m, "org.freedesktop.PolicyKit1.Authority",
                                      "CheckAuthorization") > 0)
        return on_check(userdata, m);
    return 0;
}

static int on_connection(sd_event_source *source, int listener, uint32_t events, void *userdata)
{
    struct fixture *f = userdata;
    sd_id128_t id = { .bytes = { 1 } };
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    must(fd >= 0);
    sd_bus_close_unref(f->bus);
    must(sd_bus_new(&f->bus) >= 0);
    must(sd_bus_set_fd(f->bus, fd, fd) >= 0);
    must(sd_bus_set_server(f->bus, 1, id) >= 0);
    must(sd_bus_negotiate_fds(f->bus, 1) >= 0);
    must(sd_bus_start(f->bus) >= 0);
    must(sd_bus_attach_event(f->bus, f->loop, 0) >= 0);
    must(sd_bus_add_filter(f->bus, NULL, on_message, f) >= 0);
    return 0;
}

static int on_stop(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
    struct fixture *f = userdata;
    return sd_event_exit(f->loop, 0);
}

static void *be_authority(void *argument)
{
    struct fixture *f = argument;

    must(sd_event_new(&f->loop) >= 0);
    must(sd_event_add_io(f->loop, NULL, f->listener, EPOLLIN, on_connection, f) >= 0);
    must(sd_event_add_io(f->loop, NULL, f->stop[0], EPOLLIN, on_stop, f) >= 0);
    must(sd_event_loop(f->loop) >= 0);
    hang_up(f);
    f->loop = sd_event_unref(f->loop);
    return NULL;
}

static void start_authority(struct fixture *f)
{
    f->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_int_equal(bind(f->listener, (struct sockaddr *)&f->address, sizeof(f->address)), 0);
    assert_int_equal(listen(f->listener, 4), 0);
    assert_int_equal(pipe2(f->stop, O_CLOEXEC), 0);
    assert_int_equal(pthread_create(&f->authority, NULL, be_authority, f), 0);
}

static void stop_authority(struct fixture *f)
{
    assert_int_equal(write(f->stop[1], "", 1), 1);
    assert_int_equal(pthread_join(f->authority, NULL), 0);
    f->stop[0] = close_fd(f->stop[0]);
    f->stop[1] = close_fd(f->stop[1]);
    f->listener = close_fd(f->listener);
    unlink(f->address.sun_path);
}

/* ---- the tests' side ---- */

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    char address[sizeof(f->address.sun_path) + 16];

    assert_non_null(f);
    impatience_usec = 0;
    strcpy(f->directory, "/tmp/test-polkit.XXXXXX");
    assert_non_null(mkdtemp(f->directory));
    f->address.sun_family = AF_UNIX;
    snprintf(f->address.sun_path, sizeof(f->address.sun_path), "%s/bus", f->directory);
    snprintf(address, sizeof(address), "unix:path=%s", f->address.sun_path);
    setenv("DBUS_SYSTEM_BUS_ADDRESS", address, true);
    assert_true(sd_event_new(&f->event) >= 0);
    start_authority(f);
    assert_int_equal(polkit_new(f->event, &f->polkit), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, f->pair), 0);
    assert_int_equal(peer_acquire(f->pair[0], &f->peer), 0);
    f->authorized = true;
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    polkit_check_free(f->check);
    polkit_free(f->polkit);
    stop_authority(f);
    peer_release(&f->peer);
    close_fd(f->pair[0]);
    close_fd(f->pair[1]);
    sd_event_unref(f->event);
    rmdir(f->directory);
    free(f);
    return 0;
}

static void on_answer(enum polkit_answer answer, void *userdata)
{
    struct fixture *f = userdata;

    f->answers++;
    f->answer = answer;
    f->check = polkit_check_free(f->check); /* as the broker does */
}

static void begin(struct fixture *f)
{
    static const struct polkit_detail details[] = {
        { "network", "none" },
        { "script", "a b=c" },
    };

    f->answers = 0;
    assert_int_equal(polkit_ask(f->polkit, &f->peer, "io.sbxctl.run", details, ELEMENTS(details), 0,
                                on_answer, f, &f->check),
                     0);
    assert_int_equal(f->answers, 0); /* never from inside */
}

/* Until it is answered; what does not end by itself within 20 seconds of nothing is a failure. */
static enum polkit_answer finish(struct fixture *f)
{
    while (f->answers == 0)
        assert_true(sd_event_run(f->event, 20 * 1000 * 1000) > 0);
    assert_int_equal(f->answers, 1);
    return f->answer;
}

static enum polkit_answer ask(struct fixture *f)
{
    begin(f);
    return finish(f);
}

static void settle(struct fixture *f)
{
    while (sd_event_run(f->event, 0) > 0)
        ;
}

static void fault_02_every_question_names_uid_pid_and_start_time(void **state)
{
    struct fixture *f = *state;
    struct peer without_pidfd = f->peer;

    assert_int_equal(ask(f), POLKIT_YES);
    assert_string_equal(f->question.kind, "unix-process");
    assert_true(f->question.has_uid && f->question.has_pid && f->question.has_start_time);
    assert_int_equal(f->question.uid, geteuid());
    assert_int_equal(f->question.pid, getpid());
    assert_true(f->question.start_time == f->peer.start_time && f->peer.start_time > 0);
    assert_int_equal(f->question.has_pidfd, f->peer.pidfd >= 0);
    if (f->peer.pidfd >= 0)
        assert_int_equal(f->question.pidfd_pid, getpid());
    assert_int_equal(f->question.n_unknown, 0);

    /* A kernel before 6.5. */
    without_pidfd.pidfd = -1;
    struct peer peer = f->peer;
    f->peer = without_pidfd;
    assert_int_equal(ask(f), POLKIT_YES);
    f->peer = peer;
    assert_false(f->question.has_pidfd);
    assert_true(f->question.has_uid && f->question.has_pid && f->question.start_time > 0);
}

static void fault_02_a_process_without_a_known_start_is_not_asked_about(void **state)
{
    struct fixture *f = *state;

    f->peer.start_time = 0;
    assert_int_equal(ask(f), POLKIT_REFUSED);
    f->peer.start_time = 1;
    assert_int_equal(ask(f), POLKIT_YES);
    assert_int_equal(f->questions, 1);
}

/* Connects as another user, and lives until it is told to go. */
static pid_t start_client(struct fixture *f, uid_t uid)
{
    int pair[2];
    pid_t pid;
    char byte;

    peer_release(&f->peer);
    close_fd(f->pair[0]);
    close_fd(f->pair[1]);
    /* The identity of a pair's end is its maker's, so the child makes a connection. */
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    socklen_t length = sizeof(address);
    _cleanup_close_ int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, sizeof(sa_family_t)), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &length), 0);
    pid = fork();
    if (pid == 0) {
        pair[1] = socket(AF_UNIX, SOCK_STREAM, 0);
        if (setresuid(uid, uid, uid) < 0 ||
            connect(pair[1], (struct sockaddr *)&address, length) < 0)
            _exit(1);
        _exit(read(pair[1], &byte, 1) == 0 ? 0 : 1);
    }
    f->pair[0] = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    f->pair[1] = -1;
    assert_true(f->pair[0] >= 0);
    assert_int_equal(peer_acquire(f->pair[0], &f->peer), 0);
    return pid;
}

static void fault_58_the_question_is_about_the_caller_and_not_about_us(void **state)
{
    struct fixture *f = *state;
    int status;

    if (geteuid() != 0)
        skip();
    pid_t client = start_client(f, 65534);
    assert_int_equal(ask(f), POLKIT_YES);
    assert_int_equal(f->question.uid, 65534);
    assert_int_equal(f->question.pid, client);
    assert_int_not_equal(f->question.pid, getpid());
    if (f->question.has_pidfd)
        assert_int_equal(f->question.pidfd_pid, client);
    f->pair[0] = close_fd(f->pair[0]);
    assert_int_equal(waitpid(client, &status, 0), client);
    assert_int_equal(status, 0);
}

static void fault_05_uids_that_are_negative_to_polkit_are_not_asked_about(void **state)
{
    static const uid_t refused[] = { 2147483648, 4000000000, 4294967294, 4294967295 };
    static const uid_t asked[] = { 0, 1000, 65534, INT_MAX };
    struct fixture *f = *state;

    for (size_t i = 0; i < ELEMENTS(refused); i++) {
        f->peer.uid = refused[i];
        assert_int_equal(ask(f), POLKIT_REFUSED);
    }
    for (size_t i = 0; i < ELEMENTS(asked); i++) {
        f->peer.uid = asked[i];
        assert_int_equal(ask(f), POLKIT_YES);
        assert_int_equal(f->question.uid, asked[i]);
    }
    assert_int_equal(f->questions, ELEMENTS(asked));
}

static void action_and_details_arrive_as_they_are(void **state)
{
    struct fixture *f = *state;

    (void)ask(f);
    assert_string_equal(f->question.action, "io.sbxctl.run");
    assert_int_equal(f->question.n_details, 2);
    assert_string_equal(f->question.detail[0], "network=none");
    assert_string_equal(f->question.detail[1], "script=a b=c");
}

static void fault_07_nothing_but_a_clear_yes_is_a_yes(void **state)
{
    static const struct {
        bool authorized, challenge, dismissed;
        enum polkit_answer answer;
    } rows[] = {
        { true, false, false, POLKIT_YES },       { false, false, false, POLKIT_NO },
        { false, true, false, POLKIT_CHALLENGE }, { false, true, true, POLKIT_DISMISSED },
        { false, false, true, POLKIT_DISMISSED }, { true, true, false, POLKIT_CHALLENGE },
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < ELEMENTS(rows); i++) {
        f->authorized = rows[i].authorized;
        f->challenge = rows[i].challenge;
        f->dismissed = rows[i].dismissed;
        assert_int_equal(ask(f), rows[i].answer);
    }
}

static void fault_07_an_error_or_an_odd_reply_is_no_answer(void **state)
{
    struct fixture *f = *state;

    f->behaviour = ERROR;
    assert_int_equal(ask(f), POLKIT_UNAVAILABLE);
    f->behaviour = ODD;
    for (f->odd = 0; f->odd < N_ODD; f->odd++)
        assert_int_equal(ask(f), POLKIT_UNAVAILABLE);
    assert_int_equal(f->questions, 1 + N_ODD);
}

static void fault_07_a_yes_that_is_cut_anywhere_is_no_answer(void **state)
{
    struct fixture *f = *state;

    f->behaviour = CUT;
    for (f->cut = 0; f->cut < sizeof(yes_on_the_wire); f->cut++)
        assert_int_equal(ask(f), POLKIT_UNAVAILABLE);
    assert_int_equal(ask(f), POLKIT_YES); /* whole, it is one */
    assert_int_equal(f->questions, sizeof(yes_on_the_wire) + 1);
}

static void fault_07_silence_is_no_answer(void **state)
{
    struct fixture *f = *state;

    impatience_usec = 50 * 1000;
    f->behaviour = SILENCE;
    assert_int_equal(ask(f), POLKIT_UNAVAILABLE);
    assert_int_equal(f->questions, 1);
}

static void fault_07_without_a_bus_there_is_no_answer_until_it_is_back(void **state)
{
    struct fixture *f = *state;

    stop_authority(f);
    assert_int_equal(ask(f), POLKIT_UNAVAILABLE);
    start_authority(f);
    assert_int_equal(ask(f), POLKIT_YES);
    /* Restarted between two questions. */
    stop_authority(f);
    start_authority(f);
    settle(f);
    assert_int_equal(ask(f), POLKIT_YES);
    /* And while one is open. */
    f->behaviour = HANG_UP;
    assert_int_equal(ask(f), POLKIT_UNAVAILABLE);
    f->behaviour = ANSWER;
    assert_int_equal(ask(f), POLKIT_YES);
}

/* A bus whose daemon stands still: sd-bus itself would wait for it within the call. */
static void a_bus_that_is_silent_holds_up_nobody(void **state)
{
    struct fixture *f = *state;
    int silent = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    stop_authority(f);
    assert_true(bind(silent, (struct sockaddr *)&f->address, sizeof(f->address)) == 0);
    assert_true(listen(silent, 5) == 0);
    begin(f);
    settle(f);
    assert_int_equal(f->answers, 0);
    f->check = polkit_check_free(f->check);
    begin(f);
    close_fd(silent);
    assert_int_equal(finish(f), POLKIT_UNAVAILABLE);
    unlink(f->address.sun_path);
    start_authority(f);
    assert_int_equal(ask(f), POLKIT_YES);
}

static void fault_14_a_question_that_was_dropped_is_never_answered(void **state)
{
    struct fixture *f = *state;

    /* Before it was sent, when it was asked, and when the answer is on its way. */
    for (unsigned turns = 0; turns < 20; turns++) {
        begin(f);
        for (unsigned i = 0; i < turns && f->answers == 0; i++)
            assert_true(sd_event_run(f->event, 0) >= 0);
        if (f->answers > 0)
            continue;
        f->check = polkit_check_free(f->check);
        /* Answers come in the order of the questions. */
        assert_int_equal(ask(f), POLKIT_YES);
    }
    /* Nor is one that is open at the end, once its owner has dropped it. */
    f->behaviour = SILENCE;
    begin(f);
    settle(f);
    f->check = polkit_check_free(f->check);
    f->polkit = polkit_free(f->polkit);
    settle(f);
    assert_int_equal(f->answers, 0);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(fault_02_every_question_names_uid_pid_and_start_time),
        T(fault_02_a_process_without_a_known_start_is_not_asked_about),
        T(fault_58_the_question_is_about_the_caller_and_not_about_us),
        T(fault_05_uids_that_are_negative_to_polkit_are_not_asked_about),
        T(action_and_details_arrive_as_they_are),
        T(fault_07_nothing_but_a_clear_yes_is_a_yes),
        T(fault_07_an_error_or_an_odd_reply_is_no_answer),
        T(fault_07_a_yes_that_is_cut_anywhere_is_no_answer),
        T(fault_07_silence_is_no_answer),
        T(fault_07_without_a_bus_there_is_no_answer_until_it_is_back),
        T(a_bus_that_is_silent_holds_up_nobody),
        T(fault_14_a_question_that_was_dropped_is_never_answered),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
