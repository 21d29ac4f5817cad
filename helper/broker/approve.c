/* The order of questions to polkit, see approve.h. A yes on a combined action is asked for only
 * when each of its parts could be approved by somebody: it never stands in for a part's no. */
#include "broker/approve.h"

struct approving {
    struct manager *manager;
    struct approving *next; /* in the manager's list, while the dialog is open */
    const struct peer *peer;
    const struct request *request;
    const struct plan *plan;
    bool may_ask, in_dialog;
    unsigned open;       /* not asked for yet */
    unsigned challenged; /* somebody has to approve them */
    bool admin;          /* and one of them is an administrator's to approve */
    enum approval asked;
    const char *action; /* that is being asked for */
    struct polkit_check *check;
    struct approving_callbacks callbacks;
};

static void leave_dialog(struct approving *approving)
{
    struct approving **at = &approving->manager->dialogs;

    if (!approving->in_dialog)
        return;
    while (*at != approving)
        at = &(*at)->next;
    *at = approving->next;
    approving->in_dialog = false;
}

static bool has_dialog(const struct manager *manager, uid_t uid)
{
    for (const struct approving *a = manager->dialogs; a; a = a->next)
        if (a->peer->uid == uid)
            return true;
    return false;
}

struct approving *approving_free(struct approving *approving)
{
    if (!approving)
        return NULL;
    leave_dialog(approving);
    polkit_check_free(approving->check);
    free(approving);
    return NULL;
}

/* Often the end of @approving: its owner frees it. */
static void finish(struct approving *approving, enum verdict verdict, unsigned approvals)
{
    const struct approval_verdict final = { .verdict = verdict,
                                            .approvals = approvals,
                                            .action = approving->action };

    leave_dialog(approving);
    approving->callbacks.done(&final, approving->callbacks.userdata);
}

static void on_dialog_answer(enum polkit_answer answer, void *userdata)
{
    static const enum verdict verdicts[] = {
        [POLKIT_YES] = VERDICT_ALLOWED,
        [POLKIT_NO] = VERDICT_NOT_GIVEN,
        [POLKIT_CHALLENGE] = VERDICT_NO_AGENT,
        [POLKIT_CHALLENGE_ADMIN] = VERDICT_NO_AGENT,
        [POLKIT_DISMISSED] = VERDICT_DISMISSED,
        [POLKIT_TIMED_OUT] = VERDICT_TIMED_OUT,
        [POLKIT_UNAVAILABLE] = VERDICT_UNAVAILABLE,
        [POLKIT_REFUSED] = VERDICT_UNIDENTIFIED,
    };
    struct approving *approving = userdata;
    unsigned about = answer == POLKIT_YES ? approving->plan->approvals : approving->challenged;

    approving->check = polkit_check_free(approving->check);
    finish(approving, verdicts[answer], about);
}

static int ask(struct approving *approving, unsigned approvals, uint64_t dialog_usec,
               polkit_fn done)
{
    return authorize_ask(approving->manager->polkit, approving->peer, approving->action, approvals,
                         approving->request, approving->plan, dialog_usec, done, approving,
                         &approving->check);
}

static void open_dialog(struct approving *approving)
{
    unsigned challenged = approving->challenged;

    approving->action = (challenged & (challenged - 1)) == 0
                            ? authorize_action((enum approval)challenged)
                            : authorize_combined_action(approving->admin);
    if (!approving->may_ask) {
        finish(approving, VERDICT_NOT_ASKED, challenged);
        return;
    }
    if (has_dialog(approving->manager, approving->peer->uid)) {
        finish(approving, VERDICT_BUSY, challenged);
        return;
    }
    approving->next = approving->manager->dialogs;
    approving->manager->dialogs = approving;
    approving->in_dialog = true;
    if (approving->callbacks.asking)
        approving->callbacks.asking(challenged, approving->action, approving->callbacks.userdata);
    if (ask(approving, challenged, approving->manager->config.approval_timeout_usec,
            on_dialog_answer) < 0)
        on_dialog_answer(POLKIT_UNAVAILABLE, approving);
}

static void ask_next(struct approving *approving);

static void on_answer(enum polkit_answer answer, void *userdata)
{
    struct approving *approving = userdata;

    approving->check = polkit_check_free(approving->check);
    switch (answer) {
    case POLKIT_YES:
        break;
    case POLKIT_CHALLENGE_ADMIN:
    case POLKIT_CHALLENGE:
        approving->challenged |= approving->asked;
        approving->admin = approving->admin || answer == POLKIT_CHALLENGE_ADMIN ||
                           authorize_needs_admin(approving->asked);
        break;
    case POLKIT_REFUSED:
        finish(approving, VERDICT_UNIDENTIFIED, approving->asked);
        return;
    case POLKIT_NO:
    case POLKIT_DISMISSED:
        finish(approving, VERDICT_DENIED, approving->asked);
        return;
    case POLKIT_TIMED_OUT:
    case POLKIT_UNAVAILABLE:
        finish(approving, VERDICT_UNAVAILABLE, approving->asked);
        return;
    }
    ask_next(approving);
}

static void ask_next(struct approving *approving)
{
    if (approving->open != 0) {
        approving->asked = approval_take(&approving->open);
        approving->action = authorize_action(approving->asked);
        if (ask(approving, approving->asked, 0, on_answer) < 0)
            on_answer(POLKIT_UNAVAILABLE, approving);
    } else if (approving->challenged != 0) {
        open_dialog(approving);
    } else {
        approving->action = NULL;
        finish(approving, VERDICT_ALLOWED, approving->plan->approvals);
    }
}

int approving_begin(struct manager *manager, const struct peer *peer, const struct request *request,
                    const struct plan *plan, bool may_ask,
                    const struct approving_callbacks *callbacks, struct approving **ret)
{
    struct approving *approving = calloc(1, sizeof(*approving));

    if (!approving)
        return -ENOMEM;
    *approving = (struct approving){
        .manager = manager,
        .peer = peer,
        .request = request,
        .plan = plan,
        .may_ask = may_ask,
        .open = plan->approvals,
        .callbacks = *callbacks,
    };
    *ret = approving;
    ask_next(approving);
    return 0;
}
