/* What sbxctl doctor looks at, and how it tells. Called by doctor.c, whose table has all checks;
 * these are in the doctor-*.c. A check changes nothing on the machine, takes a bounded time, works
 * for everybody, and tells causes: what cannot work since something else does not is left out. */
#pragma once

#include <stdbool.h>
#include <systemd/sd-bus.h>

#include "common/json.h"

enum doctor_state {
    DOCTOR_OK,
    DOCTOR_WARNING, /* runs can be made all the same */
    DOCTOR_FAILURE,
    DOCTOR_UNKNOWN, /* could not be looked at, by this user or at all */
};

struct doctor {
    json_object *findings; /* array */
    const char *check;     /* the name of the one that looks */
    sd_bus *bus;           /* the system's; NULL if it is not there */
    sd_bus *manager;       /* by which PID 1 can be asked; NULL if by none */
    /* What the helper said, NULL if it did not. */
    json_object *policy, *engines;
    const char *version;                                     /* borrowed */
    json_object *info;                                       /* that it is borrowed from */
    int helper_error;                                        /* of asking it, 0 if it answered */
    bool configuration_is_bad, state_is_bad, helper_is_down; /* told already */
};

/* Longer than anything healthy takes. */
#define DOCTOR_PATIENCE_USEC (5 * 1000 * 1000ULL)

/* Notes a finding: a sentence; what it means to users, or NULL; the command that mends it, which an
 * administrator can paste, or NULL where none can. */
void doctor_tell(struct doctor *doctor, enum doctor_state state, const char *meaning,
                 const char *command, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
/* The same with a command that is made up, and freed here. */
void doctor_tell_owned(struct doctor *doctor, enum doctor_state state, const char *meaning,
                       char *command, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
/* A new string, never NULL. */
char *doctor_text(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* A name that others chose, as one word of a command that a shell takes for nothing else. A new
 * string, never NULL. What cannot be shown as it is stays escaped, and is found by no command. */
char *doctor_word(const char *text);

/* ---- Units, doctor-units.c ---- */

struct doctor_unit {
    char load[32], active[32], file[32], result[32];
};
/* Returns whether PID 1 said something about it. */
bool doctor_unit_get(struct doctor *doctor, const char *name, struct doctor_unit *ret);
/* Tells of a unit that cannot be started, or that failed. Returns whether it did. */
bool doctor_unit_tell(struct doctor *doctor, enum doctor_state state, const char *name,
                      const char *meaning);
/* Of one that is masked alone. */
bool doctor_masked_tell(struct doctor *doctor, enum doctor_state state, const char *name,
                        const char *meaning);
/* All that, and also of one that is not active. */
bool doctor_socket_tell(struct doctor *doctor, enum doctor_state state, const char *name,
                        const char *meaning);

/* ---- The checks ---- */

/* Connects, and leaves what was asked to be answered meanwhile. */
void doctor_bus(struct doctor *doctor);
void doctor_account(struct doctor *doctor);
void doctor_configuration(struct doctor *doctor);
void doctor_state(struct doctor *doctor);
void doctor_socket(struct doctor *doctor);
void doctor_service(struct doctor *doctor);
void doctor_version(struct doctor *doctor);
void doctor_journal(struct doctor *doctor);
void doctor_polkit(struct doctor *doctor);
void doctor_rules(struct doctor *doctor);
void doctor_agent(struct doctor *doctor);
void doctor_engines(struct doctor *doctor);
void doctor_images(struct doctor *doctor);
void doctor_quota(struct doctor *doctor);
void doctor_egress(struct doctor *doctor);
void doctor_kernel(struct doctor *doctor);
void doctor_namespaces(struct doctor *doctor);
void doctor_cgroups(struct doctor *doctor);
void doctor_disk(struct doctor *doctor);
void doctor_clock(struct doctor *doctor);
void doctor_leftovers(struct doctor *doctor);

/* The helper's part, doctor-helper.c: asks it everything at once, and takes the answers. */
struct doctor_helper;
struct doctor_helper *doctor_helper_ask(struct doctor *doctor);
void doctor_helper_take(struct doctor *doctor, struct doctor_helper *helper);
