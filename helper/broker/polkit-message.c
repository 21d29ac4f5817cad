/* CheckAuthorization on the wire, see polkit-message.h and the polkit reference manual. */
#include "broker/polkit-message.h"

#include <errno.h>
#include <string.h>

/* CheckAuthorizationFlags of the polkit reference manual. */
#define ALLOW_USER_INTERACTION 1U

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

int polkit_make_question(sd_bus *bus, const struct peer *peer, const char *action,
                         const struct polkit_detail *details, size_t n_details, const char *dialog,
                         sd_bus_message **ret)
{
    sd_bus_message *message;
    int r = sd_bus_message_new_method_call(bus, &message, POLKIT_BUS_NAME, POLKIT_PATH,
                                           POLKIT_INTERFACE, "CheckAuthorization");

    if (r < 0)
        return r;
    *ret = message;
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
        r = sd_bus_message_append(message, "us", *dialog ? ALLOW_USER_INTERACTION : 0U, dialog);
    return r;
}

/* Reads (bba{ss}); anything that is not exactly that is no answer. */
int polkit_read_answer(sd_bus_message *reply, enum polkit_answer *ret)
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
