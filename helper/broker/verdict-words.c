/* What is said about approvals, see verdict-words.h. */
#include "broker/verdict-words.h"

#include <stdio.h>

#define DESCRIPTION_MAX 400

/* Each way of not being allowed in its own words. */
static const struct words {
    const char *decision, *error;
    const char *before, *after; /* what was asked for stands between them */
    const char *hint;
} words[] = {
    [VERDICT_DENIED] = { "denied", "Denied", "This machine's policy does not allow ", ".",
                         "Ask the administrator for a polkit rule." },
    [VERDICT_NOT_ASKED] = { "approval-required", "ApprovalRequired", "Approval is needed for ",
                            ", and nobody was to be asked.",
                            "Run it without --no-ask-password, or within the defaults, which "
                            "'sbxctl policy' shows." },
    [VERDICT_BUSY] = { "busy", "ApprovalBusy", "Approval is needed for ",
                       ", and another dialog of yours is open.",
                       "Answer that one first, then try again." },
    [VERDICT_NO_AGENT] = { "no-agent", "ApprovalRequired", "Approval is needed for ",
                           ", and there is nobody to ask: no desktop and no terminal.",
                           "Run it in a terminal, or within the defaults, which 'sbxctl policy' "
                           "shows; or ask the administrator for a polkit rule." },
    [VERDICT_NOT_GIVEN] = { "refused", "Denied", "Approval of ",
                            " was refused, or the password was wrong.",
                            "Try again, or run it within the defaults, which 'sbxctl policy' "
                            "shows." },
    [VERDICT_DISMISSED] = { "dismissed", "Denied", "The dialog about ", " was dismissed.",
                            "Run it again to be asked again, or within the defaults, which 'sbxctl "
                            "policy' shows." },
    [VERDICT_TIMED_OUT] = { "timed-out", "Denied", "Nobody answered the dialog about ", ".",
                            "Run it again to be asked again." },
    [VERDICT_UNAVAILABLE] = { "unavailable", "Denied",
                              "polkit did not answer, so nobody could approve ", ".",
                              "Ask the administrator to look at polkit: systemctl status polkit" },
    [VERDICT_UNIDENTIFIED] = { "unidentified", "Denied",
                               "The calling process cannot be identified safely, so nobody could "
                               "approve ",
                               ".",
                               "Call from a process that waits for the answer, and of a user whose "
                               "number is below 2147483648." },
};

void verdict_answer(const struct approval_verdict *verdict, const struct plan *plan,
                    const struct limits *defaults, struct verdict_answer *ret)
{
    const struct words *w = &words[verdict->verdict];
    char what[DESCRIPTION_MAX];

    *ret = (struct verdict_answer){ .decision = w->decision, .fields = json_object_new_object() };
    authorize_describe(verdict->approvals, plan, defaults, what, sizeof(what));
    snprintf(ret->reason, sizeof(ret->reason), "%s%s%s", w->before, what, w->after);
    snprintf(ret->error, sizeof(ret->error), "io.sbxctl.Sandbox.%s", w->error);
    (void)json_add_string(ret->fields, "action", verdict->action);
    (void)json_add_string(ret->fields, "hint", w->hint);
}

json_object *verdict_awaited(unsigned approvals, const char *action, const struct plan *plan,
                             const struct limits *defaults)
{
    json_object *fields = json_object_new_object();
    char what[DESCRIPTION_MAX], phase[512];

    authorize_describe(approvals, plan, defaults, what, sizeof(what));
    snprintf(phase, sizeof(phase), "asking for approval of %s", what);
    (void)json_add_string(fields, "phase", phase);
    (void)json_add_string(fields, "action", action);
    return fields;
}
