/* An authority for the tests of polkit.c: the other end of a bus of their own, a thread. It notes
 * what it is asked and answers as told, in ways that no real polkitd would. Nothing is locked: a
 * test writes before it asks, and reads when it has its answer. */
#pragma once

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
#include <sys/mman.h>
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
    bool has_pidfd, has_pid, has_start_time, has_uid, may_ask;
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
    int listener, stop[2];               /* a byte ends the thread */
    sd_event *loop;                      /* the thread's */
    sd_bus *bus;                         /* the authority's end of the last connection */
    enum behaviour behaviour, in_dialog; /* without a dialog, and with one */
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
    const char *action, *key, *value, *dialog;
    uint32_t flags;

    *q = (struct question){ 0 };
    read_subject(m, q);
    must(sd_bus_message_read(m, "s", &action) > 0);
    snprintf(q->action, sizeof(q->action), "%s", action);
    must(sd_bus_message_enter_container(m, 'a', "{ss}") > 0);
    while (sd_bus_message_read(m, "{ss}", &key, &value) > 0)
        if (q->n_details++ < ELEMENTS(q->detail))
            snprintf(q->detail[q->n_details - 1], sizeof(q->detail[0]), "%s=%s", key, value);
    must(sd_bus_message_exit_container(m) > 0);
    must(sd_bus_message_read(m, "us", &flags, &dialog) > 0);
    q->may_ask = flags & 1;
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
    switch (f->question.may_ask ? f->in_dialog : f->behaviour) {
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

static void count_answer(enum polkit_answer answer, void *userdata)
{
    ++*(unsigned *)userdata;
}

static void begin_many(struct fixture *f, struct polkit_check **checks, size_t n, unsigned *answers)
{
    for (size_t i = 0; i < n; i++)
        assert_int_equal(polkit_ask(f->polkit, &f->peer, "io.sbxctl.run", NULL, 0, 0, count_answer,
                                    answers, &checks[i]),
                         0);
}

static void drop_many(struct polkit_check **checks, size_t n)
{
    for (size_t i = 0; i < n; i++)
        checks[i] = polkit_check_free(checks[i]);
}

/* With a dialog: it overtakes what waits for its turn. What was sent before arrives before. */
static enum polkit_answer ask_in_dialog(struct fixture *f)
{
    f->answers = 0;
    assert_int_equal(polkit_ask(f->polkit, &f->peer, "io.sbxctl.run-network", NULL, 0, 60000000,
                                on_answer, f, &f->check),
                     0);
    return finish(f);
}

static void settle(struct fixture *f)
{
    while (sd_event_run(f->event, 0) > 0)
        ;
}
