/* The approvals that a request needs, put to polkit: each is first asked for without interaction; a
 * plain no ends it, and what is left after that makes at most one dialog. */
#pragma once

#include "broker/authorize.h"
#include "broker/manager.h"

struct approving;

enum verdict {
    VERDICT_ALLOWED,
    VERDICT_DENIED,       /* a rule or default says no */
    VERDICT_NOT_ASKED,    /* somebody's password is needed, and the caller allowed no dialog */
    VERDICT_BUSY,         /* the same, and another dialog of the user is open */
    VERDICT_NO_AGENT,     /* nothing is there to show a dialog */
    VERDICT_NOT_GIVEN,    /* the password was wrong, or the administrator meanwhile said no */
    VERDICT_DISMISSED,    /* the dialog was closed */
    VERDICT_TIMED_OUT,    /* nobody answered it */
    VERDICT_UNAVAILABLE,  /* polkit gave no valid answer */
    VERDICT_UNIDENTIFIED, /* the caller cannot be named safely */
};

/* What is known when approving ends. */
struct approval_verdict {
    enum verdict verdict;
    unsigned
        approvals; /* what it is about: all that were asked for, or those that were not given */
    const char *action; /* that decided, static; NULL when all were given without a dialog */
};

/* @asking is called when a dialog is about to open, with the approvals it is about and its action;
 * may be NULL. @done is called exactly once from the event loop, unless the approving is freed
 * first. */
struct approving_callbacks {
    void (*asking)(unsigned approvals, const char *action, void *userdata);
    void (*done)(const struct approval_verdict *verdict, void *userdata);
    void *userdata;
};

/* Asks for all that @plan needs, for @peer. What it is given must outlive it. Returns 0 or a
 * negative errno, which is a no. */
int approving_begin(struct manager *manager, const struct peer *peer, const struct request *request,
                    const struct plan *plan, bool may_ask,
                    const struct approving_callbacks *callbacks, struct approving **ret);
/* Ends it without a verdict, and closes its dialog. NULL is fine. */
struct approving *approving_free(struct approving *approving);
