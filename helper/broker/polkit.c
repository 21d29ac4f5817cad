/* CheckAuthorization of org.freedesktop.PolicyKit1.Authority over sd-bus, see polkit.h and the
 * polkit reference manual. */
#include "broker/polkit.h"
#include "common/clock.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <systemd/sd-bus.h>
#include <systemd/sd-daemon.h>

#define AUTHORITY_NAME "org.freedesktop.PolicyKit1"
#define AUTHORITY_PATH "/org/freedesktop/PolicyKit1/Authority"
#define AUTHORITY_INTERFACE "org.freedesktop.PolicyKit1.Authority"

/* Without a dialog nobody has to think. */
#define CHECK_TIMEOUT_USEC (25 * 1000 * 1000ULL)

/* CheckAuthorizationFlags of the polkit reference manual. */
#define ALLOW_USER_INTERACTION 1U

#define SYSTEM_BUS "unix:path=/run/dbus/system_bus_socket"

struct polkit {
    sd_event *event;
    sd_bus *bus;                  /* opened when first needed, again when it was lost */
    uint64_t dialogs;             /* how many were asked for; names the next one */
    struct polkit_check *waiting; /* for the bus to be connected */
};

struct polkit_check {
    struct polkit *polkit;
    struct polkit_check *next; /* of those waiting */
    sd_bus_message *question;  /* until it is sent */
    sd_event_source *patience; /* and how long that may take */
    uint64_t dialog_usec;
    sd_bus_slot *slot;
    sd_bus *dialog_bus;        /* where a dialog is open; NULL: none is */
    char dialog[32];           /* its name, unique on that bus */
    uint64_t deadline_usec;    /* of the dialog, CLOCK_MONOTONIC */
    sd_event_source *deferred; /* carries an answer that is known without asking */
    enum polkit_answer answer;
    polkit_fn done;
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

struct polkit *polkit_free(struct polkit *polkit)
{
    if (!polkit)
        return NULL;
    close_bus(polkit);
    sd_event_unref(polkit->event);
    free(polkit);
    return NULL;
}

/* The answer to that is of no use: there may be no dialog, or polkit may be gone. */
static void close_dialog(struct polkit_check *check)
{
    if (check->dialog_bus)
        (void)sd_bus_call_method_async(check->dialog_bus, NULL, AUTHORITY_NAME, AUTHORITY_PATH,
                                       AUTHORITY_INTERFACE, "CancelCheckAuthorization", NULL, NULL,
                                       "s", check->dialog);
    check->dialog_bus = sd_bus_unref(check->dialog_bus);
}

/* No question any more. */
static void stop_waiting(struct polkit_check *check)
{
    struct polkit_check **at = &check->polkit->waiting;

    while (*at && *at != check)
        at = &(*at)->next;
    if (*at)
        *at = check->next;
    check->question = sd_bus_message_unref(check->question);
    check->patience = sd_event_source_disable_unref(check->patience);
}

struct polkit_check *polkit_check_free(struct polkit_check *check)
{
    if (!check)
        return NULL;
    stop_waiting(check);
    sd_bus_slot_unref(check->slot);
    close_dialog(check);
    sd_event_source_disable_unref(check->deferred);
    free(check);
    return NULL;
}

static int on_reply(sd_bus_message *reply, void *userdata, sd_bus_error *error);

static int send_question(struct polkit_check *check)
{
    int r = sd_bus_call_async(check->polkit->bus, &check->slot, check->question, on_reply, check,
                              check->dialog_usec ? check->dialog_usec : CHECK_TIMEOUT_USEC);

    if (r >= 0 && check->dialog_usec)
        check->dialog_bus = sd_bus_ref(check->polkit->bus);
    stop_waiting(check);
    return r;
}

static void give_up(struct polkit_check *check)
{
    stop_waiting(check);
    check->done(POLKIT_UNAVAILABLE, check->userdata);
}

static int on_connected(sd_bus_message *signal, void *userdata, sd_bus_error *error)
{
    struct polkit *polkit = userdata;

    while (polkit->waiting) {
        struct polkit_check *check = polkit->waiting;

        if (send_question(check) < 0)
            give_up(check);
    }
    return 0;
}

static int on_disconnected(sd_bus_message *signal, void *userdata, sd_bus_error *error)
{
    struct polkit *polkit = userdata;

    while (polkit->waiting)
        give_up(polkit->waiting);
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

/* Reads (bba{ss}); anything that is not exactly that is no answer. */
static int read_answer(sd_bus_message *reply, enum polkit_answer *ret)
{
    int authorized, challenge, r;
    bool dismissed = false, admin = false;

    r = sd_bus_message_enter_container(reply, SD_BUS_TYPE_STRUCT, "bba{ss}");
    if (r <= 0)
        return -EBADMSG;
    r = sd_bus_message_read(reply, "bb", &authorized, &challenge);
    if (r <= 0)
        return -EBADMSG;
    r = sd_bus_message_enter_container(reply, SD_BUS_TYPE_ARRAY, "{ss}");
    if (r < 0)
        return -EBADMSG;
    for (;;) {
        const char *key, *value;
        r = sd_bus_message_read(reply, "{ss}", &key, &value);
        if (r < 0)
            return -EBADMSG;
        if (r == 0)
            break;
        if (strcmp(key, "polkit.dismissed") == 0 && *value != '\0')
            dismissed = true;
        if (strcmp(key, "polkit.result") == 0 && strncmp(value, "auth_admin", 10) == 0)
            admin = true;
    }
    *ret = authorized && !challenge ? POLKIT_YES
           : dismissed              ? POLKIT_DISMISSED
           : challenge && admin     ? POLKIT_CHALLENGE_ADMIN
           : challenge              ? POLKIT_CHALLENGE
                                    : POLKIT_NO;
    return 0;
}

/* When polkit goes away with a dialog open, the bus says the same as sd-bus when the time is up. */
static enum polkit_answer read_error(const struct polkit_check *check, const sd_bus_error *error)
{
    if (check->dialog_bus &&
        (sd_bus_error_has_name(error, SD_BUS_ERROR_NO_REPLY) ||
         sd_bus_error_has_name(error, SD_BUS_ERROR_TIMEOUT)) &&
        clock_usec(CLOCK_MONOTONIC) >= check->deadline_usec)
        return POLKIT_TIMED_OUT;
    fprintf(stderr, SD_WARNING "polkit: no answer: %s: %s\n", error->name,
            error->message ? error->message : "");
    return POLKIT_UNAVAILABLE;
}

static int on_reply(sd_bus_message *reply, void *userdata, sd_bus_error *error)
{
    struct polkit_check *check = userdata;
    enum polkit_answer answer;

    if (sd_bus_message_is_method_error(reply, NULL))
        answer = read_error(check, sd_bus_message_get_error(reply));
    else if (read_answer(reply, &answer) < 0)
        answer = POLKIT_UNAVAILABLE;
    /* What was answered is closed already. */
    if (answer != POLKIT_TIMED_OUT)
        check->dialog_bus = sd_bus_unref(check->dialog_bus);
    check->done(answer, check->userdata);
    return 1;
}

static int on_deferred(sd_event_source *source, void *userdata)
{
    struct polkit_check *check = userdata;
    check->done(check->answer, check->userdata);
    return 0;
}

/* The subject in the one form that all polkits from 122 on take: newer ones use the pidfd, older
 * ones pid and start time. The uid is the socket's, and never anything else: polkit believes it. */
static int append_subject(sd_bus_message *message, const struct peer *peer)
{
    int r = sd_bus_message_open_container(message, 'r', "sa{sv}");

    if (r >= 0)
        r = sd_bus_message_append(message, "s", "unix-process");
    if (r >= 0)
        r = sd_bus_message_open_container(message, 'a', "{sv}");
    if (r >= 0 && peer->pidfd >= 0)
        r = sd_bus_message_append(message, "{sv}", "pidfd", "h", peer->pidfd);
    if (r >= 0)
        r = sd_bus_message_append(message, "{sv}{sv}{sv}", "pid", "u", (uint32_t)peer->pid,
                                  "start-time", "t", peer->start_time, "uid", "i",
                                  (int32_t)peer->uid);
    if (r >= 0)
        r = sd_bus_message_close_container(message);
    return r < 0 ? r : sd_bus_message_close_container(message);
}

static int make_question(struct polkit_check *check, const struct peer *peer, const char *action,
                         const struct polkit_detail *details, size_t n_details)
{
    sd_bus_message *message;
    int r =
        sd_bus_message_new_method_call(check->polkit->bus, &check->question, AUTHORITY_NAME,
                                       AUTHORITY_PATH, AUTHORITY_INTERFACE, "CheckAuthorization");

    if (r < 0)
        return r;
    message = check->question;
    r = append_subject(message, peer);
    if (r >= 0)
        r = sd_bus_message_append(message, "s", action);
    if (r >= 0)
        r = sd_bus_message_open_container(message, 'a', "{ss}");
    for (size_t i = 0; r >= 0 && i < n_details; i++)
        r = sd_bus_message_append(message, "{ss}", details[i].key, details[i].value);
    if (r >= 0)
        r = sd_bus_message_close_container(message);
    if (r >= 0)
        r = sd_bus_message_append(message, "us", check->dialog_usec ? ALLOW_USER_INTERACTION : 0U,
                                  check->dialog);
    return r;
}

/* Sends the question as soon as the bus is connected. */
static int put_question(struct polkit_check *check, const struct peer *peer, const char *action,
                        const struct polkit_detail *details, size_t n_details)
{
    struct polkit *polkit = check->polkit;
    int r = open_bus(polkit);

    if (r >= 0)
        r = make_question(check, peer, action, details, n_details);
    if (r < 0)
        return r;
    if (sd_bus_is_ready(polkit->bus) > 0)
        return send_question(check);
    check->next = polkit->waiting;
    polkit->waiting = check;
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
    check->dialog_usec = dialog_usec;
    check->done = done;
    check->userdata = userdata;
    check->deadline_usec = clock_usec(CLOCK_MONOTONIC) + dialog_usec;
    if (dialog_usec)
        snprintf(check->dialog, sizeof(check->dialog), "sbxctl-%" PRIu64, ++polkit->dialogs);
    check->answer = POLKIT_UNAVAILABLE;
    /* polkit takes the uid as int32 and says yes to what overflows; a start time of 0 makes it skip
     * the check. */
    if (peer->uid > INT_MAX || peer->start_time == 0)
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
