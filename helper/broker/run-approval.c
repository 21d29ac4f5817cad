/* The approvals of a run: asks for them, tells the caller when somebody is asked, and turns the
 * verdict into the queue or a refusal. */
#include "broker/authorize.h"
#include "broker/run-internal.h"

#include <stdio.h>

/* Each way of not being allowed in its own words. */
static const struct {
    const char *decision;       /* in the journal */
    const char *error;          /* of the interface */
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

static void describe(const struct run *run, unsigned approvals, char *buffer, size_t size)
{
    authorize_describe(approvals, &run->plan, &run->manager->config.defaults, buffer, size);
}

static void refuse(struct run *run, const struct approval_verdict *verdict)
{
    json_object *fields = json_object_new_object();
    char what[400], reason[512], error[64];

    describe(run, verdict->approvals, what, sizeof(what));
    snprintf(reason, sizeof(reason), "%s%s%s", words[verdict->verdict].before, what,
             words[verdict->verdict].after);
    snprintf(error, sizeof(error), "io.sbxctl.Sandbox.%s", words[verdict->verdict].error);
    (void)run_audit_decision(run, verdict->approvals, verdict->action,
                             words[verdict->verdict].decision);
    (void)json_add_string(fields, "action", verdict->action);
    (void)json_add_string(fields, "hint", words[verdict->verdict].hint);
    run_refuse(run, RUN_DENIED, error, fields, reason);
}

static void on_verdict(const struct approval_verdict *verdict, void *userdata)
{
    struct run *run = userdata;

    if (verdict->verdict != VERDICT_ALLOWED) {
        refuse(run, verdict);
        return;
    }
    if (run_audit_decision(run, verdict->approvals, verdict->action, "allowed") < 0 &&
        run->manager->config.audit_required) {
        run_refuse(run, RUN_REJECTED, "io.sbxctl.Sandbox.AuditUnavailable", NULL,
                   "The journal took no record of the decision, so nothing was run.");
        return;
    }
    run->approving = approving_free(run->approving);
    run_enqueue(run);
}

/* Whoever waits shall know for what. */
static void on_asking(unsigned approvals, const char *action, void *userdata)
{
    struct run *run = userdata;
    json_object *more = json_object_new_object();
    char what[400], phase[512];

    describe(run, approvals, what, sizeof(what));
    snprintf(phase, sizeof(phase), "asking for approval of %s", what);
    (void)json_add_string(more, "phase", phase);
    (void)json_add_string(more, "action", action);
    run_notify(run, "approval", more, NULL, 0);
}

void run_approve(struct run *run)
{
    const struct approving_callbacks callbacks = { on_asking, on_verdict, run };

    if (approving_begin(run->manager, varlink_call_peer(run->call), &run->request, &run->plan,
                        run->request.interactive, &callbacks, &run->approving) < 0)
        on_verdict(&(struct approval_verdict){ VERDICT_UNAVAILABLE, run->plan.approvals,
                                               authorize_action(APPROVAL_RUN) },
                   run);
}
