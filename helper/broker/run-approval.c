/* The approvals of a run: asks for them, tells the caller when somebody is asked, and turns the
 * verdict into the queue or a refusal. */
#include "broker/authorize.h"
#include "broker/run-internal.h"
#include "broker/verdict-words.h"

static void refuse(struct run *run, const struct approval_verdict *verdict)
{
    struct verdict_answer answer;

    verdict_answer(verdict, &run->plan, &run->manager->config.defaults, &answer);
    (void)run_audit_decision(run, verdict->approvals, verdict->action, answer.decision);
    run_refuse(run, RUN_DENIED, answer.error, answer.fields, answer.reason);
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

static void on_asking(unsigned approvals, const char *action, void *userdata)
{
    struct run *run = userdata;
    const struct limits *defaults = &run->manager->config.defaults;

    run_notify(run, "approval", verdict_awaited(approvals, action, &run->plan, defaults), NULL, 0);
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
