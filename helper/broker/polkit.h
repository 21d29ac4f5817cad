/* Questions to polkit, asked asynchronously over the system bus. Every answer that is not a clear
 * yes is a no. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <systemd/sd-event.h>

#include "common/peer.h"

struct polkit;
struct polkit_check;

enum polkit_answer {
    POLKIT_YES,
    POLKIT_NO,              /* a rule or default refused; after a dialog: it failed */
    POLKIT_CHALLENGE,       /* would need the password of the caller or of somebody unknown; after a
                               dialog was asked for: there is no agent to show it */
    POLKIT_CHALLENGE_ADMIN, /* would need an administrator's password (told by polkit 127 and later)
                             */
    POLKIT_DISMISSED,       /* the dialog was closed */
    POLKIT_TIMED_OUT,       /* nobody answered the dialog */
    POLKIT_UNAVAILABLE,     /* no polkit, no bus, a time-out, a malformed or unexpected reply */
    POLKIT_REFUSED,         /* not asked at all: the caller cannot be named safely */
};

struct polkit_detail {
    const char *key, *value;
};

typedef void (*polkit_fn)(enum polkit_answer answer, void *userdata);

int polkit_new(sd_event *event, struct polkit **ret);
/* Checks that are still open are never answered. */
struct polkit *polkit_free(struct polkit *polkit);

/* Asks whether @peer may do @action. With @dialog_usec the user may be asked, and has that long to
 * answer; with 0 nobody is. @done is called exactly once from the event loop, unless the check is
 * freed first. Returns 0 or -ENOMEM (and the like); a caller treats that as POLKIT_UNAVAILABLE. */
int polkit_ask(struct polkit *polkit, const struct peer *peer, const char *action,
               const struct polkit_detail *details, size_t n_details, uint64_t dialog_usec,
               polkit_fn done, void *userdata, struct polkit_check **ret);
/* Forgets the question, and closes its dialog. NULL is fine. */
struct polkit_check *polkit_check_free(struct polkit_check *check);
