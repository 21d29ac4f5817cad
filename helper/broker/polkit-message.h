/* What is said to polkit and what it answers, as D-Bus messages; for polkit.c only. */
#pragma once

#include <systemd/sd-bus.h>

#include "broker/polkit.h"

#define POLKIT_BUS_NAME "org.freedesktop.PolicyKit1"
#define POLKIT_PATH "/org/freedesktop/PolicyKit1/Authority"
#define POLKIT_INTERFACE "org.freedesktop.PolicyKit1.Authority"

/* @dialog: the name by which it can be cancelled; "": nobody is to be asked. Once it is made, the
 * message is in @ret, also if an error follows. */
int polkit_make_question(sd_bus *bus, const struct peer *peer, const char *action,
                         const struct polkit_detail *details, size_t n_details, const char *dialog,
                         sd_bus_message **ret);
/* 0, or -EBADMSG if that is no answer. */
int polkit_read_answer(sd_bus_message *reply, enum polkit_answer *ret);
