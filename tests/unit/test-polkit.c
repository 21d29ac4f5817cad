/* Questions to polkit (helper/broker/polkit.h), put to an authority of the tests' own. That the
 * real one is understood is for the tests in the machine. */
#include "polkit-authority.h"

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

static void a_process_that_has_ended_is_not_asked_about(void **state)
{
    struct fixture *f = *state;
    int status;

    if (geteuid() != 0 || !peer_pidfd_supported())
        skip();
    pid_t client = start_client(f, 65534);
    assert_int_equal(ask(f), POLKIT_YES);
    f->pair[0] = close_fd(f->pair[0]);
    assert_int_equal(waitpid(client, &status, 0), client);
    assert_int_equal(ask(f), POLKIT_REFUSED);
    assert_int_equal(f->questions, 1);
}

/* What is not answered is told, but not without end: such lines stand beside the audit records. */
static void complaints_have_an_end(void **state)
{
    struct fixture *f = *state;
    char text[4096] = "";
    unsigned lines = 0;
    _cleanup_close_ int file = memfd_create("stderr", MFD_CLOEXEC);
    _cleanup_close_ int before = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);

    assert_true(dup2(file, STDERR_FILENO) >= 0);
    f->behaviour = ERROR;
    for (size_t i = 0; i < 100; i++)
        if (ask(f) != POLKIT_UNAVAILABLE)
            break;
    assert_true(dup2(before, STDERR_FILENO) >= 0);
    assert_int_equal(f->questions, 100);
    assert_true(pread(file, text, sizeof(text) - 1, 0) > 0);
    assert_non_null(strstr(text, "org.freedesktop.PolicyKit1.Error.Failed: no\n"));
    assert_non_null(strstr(text, "not all of them are told"));
    for (const char *p = text; (p = strchr(p, '\n')); p++)
        lines++;
    assert_int_equal(lines, 11);
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

/* dbus-daemon lets a connection wait for 128 answers, and all users share ours. */
static void many_questions_wait_for_their_turn(void **state)
{
    enum { MANY = 200, AT_ONCE = 48, PER_USER = 8 };
    struct fixture *f = *state;
    struct polkit_check *checks[MANY], *others[MANY], *last;
    unsigned answers = 0;

    begin_many(f, checks, MANY, &answers);
    while (answers < MANY)
        assert_true(sd_event_run(f->event, 20 * 1000 * 1000) > 0);
    assert_int_equal(f->questions, MANY);
    drop_many(checks, MANY);

    f->questions = 0;
    f->behaviour = SILENCE;
    begin_many(f, checks, MANY, &answers);
    assert_int_equal(ask_in_dialog(f), POLKIT_YES);
    assert_int_equal(f->questions, PER_USER + 1);
    for (size_t i = 0; i < MANY; i += PER_USER) {
        f->peer.uid++;
        begin_many(f, others + i, PER_USER, &answers);
    }
    assert_int_equal(ask_in_dialog(f), POLKIT_YES);
    assert_int_equal(f->questions, AT_ONCE + 2);
    /* The bus still waits for what nobody wants to know any more. */
    drop_many(checks, MANY);
    drop_many(others, MANY);
    answers = 0;
    begin_many(f, &last, 1, &answers);
    assert_int_equal(ask_in_dialog(f), POLKIT_YES);
    assert_int_equal(f->questions, AT_ONCE + 3);
    f->in_dialog = HANG_UP;
    assert_int_equal(ask_in_dialog(f), POLKIT_UNAVAILABLE);
    while (answers == 0)
        assert_true(sd_event_run(f->event, 20 * 1000 * 1000) > 0);
    polkit_check_free(last);
    /* And then for nothing more. */
    f->behaviour = ANSWER;
    assert_int_equal(ask(f), POLKIT_YES);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(fault_02_every_question_names_uid_pid_and_start_time),
        T(fault_02_a_process_without_a_known_start_is_not_asked_about),
        T(fault_58_the_question_is_about_the_caller_and_not_about_us),
        T(a_process_that_has_ended_is_not_asked_about),
        T(complaints_have_an_end),
        T(fault_05_uids_that_are_negative_to_polkit_are_not_asked_about),
        T(action_and_details_arrive_as_they_are),
        T(fault_07_nothing_but_a_clear_yes_is_a_yes),
        T(fault_07_an_error_or_an_odd_reply_is_no_answer),
        T(fault_07_a_yes_that_is_cut_anywhere_is_no_answer),
        T(fault_07_silence_is_no_answer),
        T(fault_07_without_a_bus_there_is_no_answer_until_it_is_back),
        T(a_bus_that_is_silent_holds_up_nobody),
        T(many_questions_wait_for_their_turn),
        T(fault_14_a_question_that_was_dropped_is_never_answered),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
