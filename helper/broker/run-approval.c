/* The approvals of a run: asks for them, tells the caller when somebody is asked, and turns the
 * verdict into the queue or a refusal. */
#include "broker/authorize.h"
#include "broker/run-internal.h"
#include "broker/verdict-words.h"

#include <stdio.h>

static void describe(const struct run *run, unsigned approvals, char *buffer, size_t size)
{
    authorize_describe(approvals, &run->plan, &run->manager->config.defaults, buffer, size);
}

static void refuse(struct run *run, const struct approval_verdict *verdict)
{
    json_object *fields = json_object_new_object();
    const struct verdict_words *words = verdict_words(verdict->verdict);
    char what[400], reason[512], error[64];

    describe(run, verdict->approvals, what, sizeof(what));
    snprintf(reason, sizeof(reason), "%s%s%s", words->before, what, words->after);
    snprintf(error, sizeof(error), "io.sbxctl.Sandbox.%s", words->error);
    (void)run_audit_decision(run, verdict->approvals, verdict->action, words->decision);
    (void)json_add_string(fields, "action", verdict->action);
    (void)json_add_string(fields, "hint", words->hint);
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
