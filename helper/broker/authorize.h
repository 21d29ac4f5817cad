/* The authorization table: what each method of the interface needs. Default deny: a method without
 * a row is refused. */
#pragma once

#include "broker/policy.h"
#include "broker/polkit.h"

enum authorize_rule {
    AUTHORIZE_REFUSE,   /* no row */
    AUTHORIZE_ANYBODY,  /* tells nothing about runs */
    AUTHORIZE_OWN_RUNS, /* touches the caller's own runs only, checked by the index */
    AUTHORIZE_BY_RISK,  /* polkit, by the approvals that the plan needs */
};

/* @method without the interface. */
enum authorize_rule authorize_method(const char *method);

/* Takes the first one out of @approvals, which must not be empty. */
enum approval approval_take(unsigned *approvals);

/* The polkit action of one approval. */
const char *authorize_action(enum approval approval);
/* The action that stands for several approvals in one dialog. */
const char *authorize_combined_action(bool admin);
/* Whether approving it is an administrator's by default. */
bool authorize_needs_admin(enum approval approval);

/* A caller's name for a dialog: one line, printable, short, and nothing that a toolkit could take
 * for markup or polkit for a variable, nor that would end the quotes around it. A new string, or
 * NULL out of memory. */
char *authorize_plain_name(const char *name);

/* What a run asks for that needs @approvals, for people: "network access and memory of 1 GiB
 * (default: 512 MiB)". */
void authorize_describe(unsigned approvals, const struct plan *plan, const struct limits *defaults,
                        char *buffer, size_t size);

/* Asks polkit about @action, which stands for @approvals, with what is asked for as details. They
 * are an interface, for which administrators write rules: sbxctl-polkit(7) lists them. @request may
 * be NULL: then it is about no script in particular. As polkit_ask(). */
int authorize_ask(struct polkit *polkit, const struct peer *peer, const char *action,
                  unsigned approvals, const struct request *request, const struct plan *plan,
                  uint64_t dialog_usec, polkit_fn done, void *userdata, struct polkit_check **ret);
