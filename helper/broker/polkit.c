/* CheckAuthorization of org.freedesktop.PolicyKit1.Authority over sd-bus, see polkit.h and the
 * polkit reference manual. */
#include "broker/polkit.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <systemd/sd-bus.h>

#define CHECK_TIMEOUT_USEC (25 * 1000 * 1000ULL)

struct polkit {
    sd_event *event;
    sd_bus *bus; /* opened when first needed, again when it was lost */
};

struct polkit_check {
    sd_bus_slot *slot;
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

struct polkit_check *polkit_check_free(struct polkit_check *check)
{
    if (!check)
        return NULL;
    sd_bus_slot_unref(check->slot);
    sd_event_source_disable_unref(check->deferred);
    free(check);
    return NULL;
}

static int open_bus(struct polkit *polkit)
{
    int r;

    if (polkit->bus && sd_bus_is_open(polkit->bus) > 0)
        return 0;
    /* One that is closing still answers its open questions; its event source keeps it until then.
     */
    polkit->bus = sd_bus_unref(polkit->bus);
    r = sd_bus_open_system(&polkit->bus);
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
    bool dismissed = false;

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
    }
    *ret = authorized && !challenge ? POLKIT_YES
           : dismissed              ? POLKIT_DISMISSED
           : challenge              ? POLKIT_CHALLENGE
                                    : POLKIT_NO;
    return 0;
}

static int on_reply(sd_bus_message *reply, void *userdata, sd_bus_error *error)
{
    struct polkit_check *check = userdata;
    enum polkit_answer answer;

    if (sd_bus_message_is_method_error(reply, NULL) || read_answer(reply, &answer) < 0)
        answer = POLKIT_UNAVAILABLE;
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

static int send_question(struct polkit *polkit, struct polkit_check *check, const struct peer *peer,
                         const char *action, const struct polkit_detail *details, size_t n_details)
{
    sd_bus_message *message = NULL;
    int r = open_bus(polkit);

    if (r >= 0)
        r = sd_bus_message_new_method_call(polkit->bus, &message, "org.freedesktop.PolicyKit1",
                                           "/org/freedesktop/PolicyKit1/Authority",
                                           "org.freedesktop.PolicyKit1.Authority",
                                           "CheckAuthorization");
    if (r >= 0)
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
        r = sd_bus_message_append(message, "us", (uint32_t)0, "");
    if (r >= 0)
        r = sd_bus_call_async(polkit->bus, &check->slot, message, on_reply, check,
                              CHECK_TIMEOUT_USEC);
    sd_bus_message_unref(message);
    return r;
}

int polkit_ask(struct polkit *polkit, const struct peer *peer, const char *action,
               const struct polkit_detail *details, size_t n_details, polkit_fn done,
               void *userdata, struct polkit_check **ret)
{
    struct polkit_check *check = calloc(1, sizeof(*check));
    int r = 0;

    if (!check)
        return -ENOMEM;
    check->done = done;
    check->userdata = userdata;
    check->answer = POLKIT_UNAVAILABLE;
    /* polkit takes the uid as int32 and says yes to what overflows; a start time of 0 makes it skip
     * the check. */
    if (peer->uid > INT_MAX || peer->start_time == 0)
        check->answer = POLKIT_REFUSED;
    else
        r = send_question(polkit, check, peer, action, details, n_details);
    if (check->answer == POLKIT_REFUSED || r < 0) {
        r = sd_event_add_defer(polkit->event, &check->deferred, on_deferred, check);
        if (r < 0) {
            polkit_check_free(check);
            return r;
        }
    }
    *ret = check;
    return 0;
}
