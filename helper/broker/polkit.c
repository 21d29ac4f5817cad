/* Questions to polkit over sd-bus, and their turn, see polkit.h. */
#include "broker/polkit-message.h"
#include "common/clock.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <systemd/sd-bus.h>
#include <systemd/sd-daemon.h>

/* Without a dialog nobody has to think. */
#define CHECK_TIMEOUT_USEC (25 * 1000 * 1000ULL)

/* How many questions may be without their answer at once, so that many callers do not use up what
 * dbus-daemon(1) gives one connection: 128 replies to wait for, and room for 64 descriptors on
 * their way to polkit. The others wait their turn. */
#define CHECKS_MAX 48
#define CHECKS_PER_USER_MAX 8
#define DIALOGS_MAX 64

/* Whoever asks in the wrong moment can have as many of these as they like, and they stand beside
 * the audit records. */
#define COMPLAINTS_MAX 10
#define COMPLAINTS_INTERVAL_USEC (60 * 1000 * 1000ULL)

#define SYSTEM_BUS "unix:path=/run/dbus/system_bus_socket"

struct polkit {
    sd_event *event;
    sd_bus *bus;                  /* opened when first needed, again when it was lost */
    uint64_t dialogs;             /* how many were asked for; names the next one */
    struct polkit_check *waiting; /* for the bus to be connected, or their turn; the oldest first */
    struct polkit_check *sent;    /* and not answered, also what nobody wants to know any more */
    unsigned checks_sent, dialogs_sent;
    uint64_t complaints_since;
    unsigned complaints;
};

struct polkit_check {
    struct polkit *polkit;
    struct polkit_check *next; /* of those waiting, or sent */
    uid_t uid;                 /* who it is about */
    sd_bus_message *question;  /* until it is sent */
    sd_event_source *patience; /* and how long that may take */
    uint64_t dialog_usec;
    sd_bus_slot *slot;
    sd_bus *dialog_bus;        /* where a dialog is open; NULL: none is */
    char dialog[32];           /* its name, unique on that bus */
    uint64_t deadline_usec;    /* of the dialog, CLOCK_MONOTONIC */
    sd_event_source *deferred; /* carries an answer that is known without asking */
    enum polkit_answer answer;
    polkit_fn done; /* NULL: its owner has dropped it */
    void *userdata;
};

int polkit_new(sd_event *event, struct polkit **ret)
{
    struct polkit *polkit = calloc(1, sizeof(*polkit));

    if (!polkit)
        return -ENOMEM;
    polkit->event = sd_event_ref(event);
    *ret = polkit;
    return 0;
}

static void close_bus(struct polkit *polkit)
{
    polkit->bus = sd_bus_close_unref(polkit->bus);
}

/* Takes @check out of the list at @at; returns whether it was there. */
static bool unlink_check(struct polkit_check **at, struct polkit_check *check)
{
    while (*at && *at != check)
        at = &(*at)->next;
    if (!*at)
        return false;
    *at = check->next;
    check->next = NULL;
    return true;
}

static unsigned *count_of(struct polkit_check *check)
{
    return check->dialog_usec ? &check->polkit->dialogs_sent : &check->polkit->checks_sent;
}

static void note_answered(struct polkit_check *check)
{
    if (unlink_check(&check->polkit->sent, check))
        --*count_of(check);
    check->slot = sd_bus_slot_unref(check->slot);
}

/* What its owner has dropped is only kept to be counted. */
static void forget_dropped(struct polkit *polkit)
{
    for (struct polkit_check *check = polkit->sent, *next; check; check = next) {
        next = check->next;
        note_answered(check);
        if (!check->done)
            free(check);
    }
}

struct polkit *polkit_free(struct polkit *polkit)
{
    if (!polkit)
        return NULL;
    forget_dropped(polkit);
    close_bus(polkit);
    sd_event_unref(polkit->event);
    free(polkit);
    return NULL;
}

/* The answer to that is of no use: there may be no dialog, or polkit may be gone. */
static void close_dialog(struct polkit_check *check)
{
    if (check->dialog_bus)
        (void)sd_bus_call_method_async(check->dialog_bus, NULL, POLKIT_BUS_NAME, POLKIT_PATH,
                                       POLKIT_INTERFACE, "CancelCheckAuthorization", NULL, NULL,
                                       "s", check->dialog);
    check->dialog_bus = sd_bus_unref(check->dialog_bus);
}

/* No question any more. */
static void stop_waiting(struct polkit_check *check)
{
    (void)unlink_check(&check->polkit->waiting, check);
    check->question = sd_bus_message_unref(check->question);
    check->patience = sd_event_source_disable_unref(check->patience);
}

struct polkit_check *polkit_check_free(struct polkit_check *check)
{
    if (!check)
        return NULL;
    stop_waiting(check);
    close_dialog(check);
    sd_event_source_disable_unref(check->deferred);
    /* The bus counts it until polkit answers, and so do we. */
    check->done = NULL;
    if (!check->slot)
        free(check);
    return NULL;
}

static int on_reply(sd_bus_message *reply, void *userdata, sd_bus_error *error);

static int send_question(struct polkit_check *check)
{
    struct polkit *polkit = check->polkit;
    int r = sd_bus_call_async(polkit->bus, &check->slot, check->question, on_reply, check,
                              check->dialog_usec ? check->dialog_usec : CHECK_TIMEOUT_USEC);

    stop_waiting(check);
    if (r < 0)
        return r;
    if (check->dialog_usec)
        check->dialog_bus = sd_bus_ref(polkit->bus);
    check->next = polkit->sent;
    polkit->sent = check;
    ++*count_of(check);
    return r;
}

static void give_up(struct polkit_check *check)
{
    stop_waiting(check);
    check->done(POLKIT_UNAVAILABLE, check->userdata);
}

static unsigned checks_sent_of(const struct polkit *polkit, uid_t uid)
{
    unsigned n = 0;

    for (const struct polkit_check *check = polkit->sent; check; check = check->next)
        n += check->uid == uid && !check->dialog_usec;
    return n;
}

static bool may_be_sent(const struct polkit_check *check)
{
    const struct polkit *polkit = check->polkit;

    if (sd_bus_message_get_bus(check->question) != polkit->bus)
        return false;
    if (check->dialog_usec)
        return polkit->dialogs_sent < DIALOGS_MAX;
    return polkit->checks_sent < CHECKS_MAX &&
           checks_sent_of(polkit, check->uid) < CHECKS_PER_USER_MAX;
}

static void send_waiting(struct polkit *polkit)
{
    struct polkit_check *check = polkit->waiting;

    if (!polkit->bus || sd_bus_is_ready(polkit->bus) <= 0)
        return;
    while (check) {
        if (!may_be_sent(check)) {
            check = check->next;
            continue;
        }
        if (send_question(check) < 0)
            give_up(check);
        check = polkit->waiting; /* its owner may have done anything to it */
    }
}

static int on_connected(sd_bus_message *signal, void *userdata, sd_bus_error *error)
{
    send_waiting(userdata);
    return 0;
}

/* Of a bus that was left already, perhaps. */
static int on_disconnected(sd_bus_message *signal, void *userdata, sd_bus_error *error)
{
    struct polkit *polkit = userdata;
    struct polkit_check *check = polkit->waiting;

    while (check) {
        if (sd_bus_message_get_bus(check->question) != sd_bus_message_get_bus(signal)) {
            check = check->next;
            continue;
        }
        give_up(check);
        check = polkit->waiting;
    }
    return 0;
}

static int on_impatience(sd_event_source *source, uint64_t usec, void *userdata)
{
    give_up(userdata);
    return 0;
}

/* Calls @handler for the signal @name of sd-bus itself. */
static int match_local(struct polkit *polkit, const char *name, sd_bus_message_handler_t handler)
{
    return sd_bus_match_signal(polkit->bus, NULL, "org.freedesktop.DBus.Local",
                               "/org/freedesktop/DBus/Local", "org.freedesktop.DBus.Local", name,
                               handler, polkit);
}

/* As sd_bus_open_system() does it, but so that it tells when it is connected: sending a descriptor
 * before that would block until it is (sd_bus_send() has to know whether the bus takes any). */
static int connect_bus(struct polkit *polkit)
{
    const char *address = secure_getenv("DBUS_SYSTEM_BUS_ADDRESS");
    int r = sd_bus_new(&polkit->bus);

    if (r >= 0)
        r = sd_bus_set_address(polkit->bus, address ? address : SYSTEM_BUS);
    if (r >= 0)
        r = sd_bus_set_bus_client(polkit->bus, true);
    if (r >= 0)
        r = sd_bus_set_connected_signal(polkit->bus, true);
    if (r >= 0)
        r = match_local(polkit, "Connected", on_connected);
    if (r >= 0)
        r = match_local(polkit, "Disconnected", on_disconnected);
    if (r >= 0)
        r = sd_bus_start(polkit->bus);
    return r;
}

static int open_bus(struct polkit *polkit)
{
    int r;

    if (polkit->bus && sd_bus_is_open(polkit->bus) > 0)
        return 0;
    /* One that is closing still answers its open questions; its event source keeps it until then.
     */
    polkit->bus = sd_bus_unref(polkit->bus);
    r = connect_bus(polkit);
    if (r >= 0)
        r = sd_bus_attach_event(polkit->bus, polkit->event, SD_EVENT_PRIORITY_NORMAL);
    if (r < 0)
        close_bus(polkit);
    return r;
}

static void complain(struct polkit *polkit, const sd_bus_error *error)
{
    uint64_t now = clock_now();

    if (now - polkit->complaints_since >= COMPLAINTS_INTERVAL_USEC) {
        polkit->complaints_since = now;
        polkit->complaints = 0;
    }
    if (++polkit->complaints > COMPLAINTS_MAX)
        return;
    fprintf(stderr, SD_WARNING "polkit: no answer: %s: %s\n", error->name,
            error->message ? error->message : "");
    if (polkit->complaints == COMPLAINTS_MAX)
        fprintf(stderr,
                SD_INFO "polkit: many questions without an answer; not all of them are told\n");
}

/* When polkit goes away with a dialog open, the bus says the same as sd-bus when the time is up. */
static enum polkit_answer read_error(const struct polkit_check *check, const sd_bus_error *error)
{
    if (check->dialog_bus &&
        (sd_bus_error_has_name(error, SD_BUS_ERROR_NO_REPLY) ||
         sd_bus_error_has_name(error, SD_BUS_ERROR_TIMEOUT)) &&
        clock_now() >= check->deadline_usec)
        return POLKIT_TIMED_OUT;
    complain(check->polkit, error);
    return POLKIT_UNAVAILABLE;
}

static void pass_on(struct polkit_check *check, sd_bus_message *reply)
{
    enum polkit_answer answer;

    if (sd_bus_message_is_method_error(reply, NULL))
        answer = read_error(check, sd_bus_message_get_error(reply));
    else if (polkit_read_answer(reply, &answer) < 0)
        answer = POLKIT_UNAVAILABLE;
    /* What was answered is closed already. */
    if (answer != POLKIT_TIMED_OUT)
        check->dialog_bus = sd_bus_unref(check->dialog_bus);
    check->done(answer, check->userdata);
}

static int on_reply(sd_bus_message *reply, void *userdata, sd_bus_error *error)
{
    struct polkit_check *check = userdata;
    struct polkit *polkit = check->polkit;

    note_answered(check);
    if (check->done)
        pass_on(check, reply);
    else
        free(check);
    send_waiting(polkit);
    return 1;
}

static int on_deferred(sd_event_source *source, void *userdata)
{
    struct polkit_check *check = userdata;
    check->done(check->answer, check->userdata);
    return 0;
}

static void append_waiting(struct polkit_check *check)
{
    struct polkit_check **end = &check->polkit->waiting;

    while (*end)
        end = &(*end)->next;
    *end = check;
}

/* Sends the question as soon as the bus is connected and the question's turn has come. */
static int put_question(struct polkit_check *check, const struct peer *peer, const char *action,
                        const struct polkit_detail *details, size_t n_details)
{
    struct polkit *polkit = check->polkit;
    int r = open_bus(polkit);

    if (r >= 0)
        r = polkit_make_question(polkit->bus, peer, action, details, n_details, check->dialog,
                                 &check->question);
    if (r < 0)
        return r;
    if (sd_bus_is_ready(polkit->bus) > 0 && may_be_sent(check))
        return send_question(check);
    append_waiting(check);
    return sd_event_add_time_relative(polkit->event, &check->patience, CLOCK_MONOTONIC,
                                      CHECK_TIMEOUT_USEC, 0, on_impatience, check);
}

int polkit_ask(struct polkit *polkit, const struct peer *peer, const char *action,
               const struct polkit_detail *details, size_t n_details, uint64_t dialog_usec,
               polkit_fn done, void *userdata, struct polkit_check **ret)
{
    struct polkit_check *check = calloc(1, sizeof(*check));
    int r = 0;

    if (!check)
        return -ENOMEM;
    check->polkit = polkit;
    check->uid = peer->uid;
    check->dialog_usec = dialog_usec;
    check->done = done;
    check->userdata = userdata;
    check->deadline_usec = clock_now() + dialog_usec;
    if (dialog_usec)
        snprintf(check->dialog, sizeof(check->dialog), "sbxctl-%" PRIu64, ++polkit->dialogs);
    check->answer = POLKIT_UNAVAILABLE;
    /* polkit takes the uid as int32 and says yes to what overflows; a start time of 0 makes it skip
     * the check, and an ended process is an error to it as if it could not answer. */
    if (peer->uid > INT_MAX || peer->start_time == 0 || peer_has_ended(peer))
        check->answer = POLKIT_REFUSED;
    if (check->answer == POLKIT_REFUSED ||
        put_question(check, peer, action, details, n_details) < 0) {
        stop_waiting(check);
        r = sd_event_add_defer(polkit->event, &check->deferred, on_deferred, check);
        if (r < 0) {
            polkit_check_free(check);
            return r;
        }
    }
    *ret = check;
    return 0;
}
