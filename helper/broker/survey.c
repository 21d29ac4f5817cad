/* One question to polkit after the other, see survey.h. */
#include "broker/survey.h"

struct survey {
    struct manager *manager;
    const struct peer *peer;
    const struct request *request;
    const struct plan *plan;
    unsigned open;
    enum approval asked;
    json_object *answers;
    struct polkit_check *check;
    bool silent; /* polkit let one question wait in vain: the others are not asked */
    survey_fn done;
    void *userdata;
};

struct survey *survey_free(struct survey *survey)
{
    if (!survey)
        return NULL;
    polkit_check_free(survey->check);
    json_object_put(survey->answers);
    free(survey);
    return NULL;
}

/* The most that a caller could ask for of what @approval is about, and no more of the rest. */
static struct plan most(const struct config *config, enum approval approval)
{
    struct plan plan = { .limits = config->defaults, .engine = config->engine };

    if (approval == APPROVAL_NETWORK)
        plan.limits.network = config->ceiling.network;
    if (approval == APPROVAL_RESOURCES) {
        plan.limits = config->ceiling;
        plan.limits.network = config->defaults.network;
    }
    if (approval == APPROVAL_CLOUD && config->cloud_engines[0])
        plan.engine = config->cloud_engines[0];
    return plan;
}

static void ask_next(struct survey *survey);

static void on_answer(enum polkit_answer answer, void *userdata)
{
    struct survey *survey = userdata;
    bool challenge = answer == POLKIT_CHALLENGE || answer == POLKIT_CHALLENGE_ADMIN;
    bool admin = answer == POLKIT_CHALLENGE_ADMIN || authorize_needs_admin(survey->asked);

    survey->check = polkit_check_free(survey->check);
    survey->silent = survey->silent || answer == POLKIT_UNAVAILABLE;
    (void)json_add_string(survey->answers, authorize_action(survey->asked),
                          answer == POLKIT_YES ? "yes"
                          : !challenge         ? "no"
                          : admin              ? "administrator"
                                               : "challenge");
    ask_next(survey);
}

static void ask_next(struct survey *survey)
{
    struct plan plan;

    if (survey->open == 0) {
        survey->done(TAKE_PTR(survey->answers), survey->userdata);
        return;
    }
    survey->asked = approval_take(&survey->open);
    plan = survey->plan ? *survey->plan : most(&survey->manager->config, survey->asked);
    if (survey->silent ||
        authorize_ask(survey->manager->polkit, survey->peer, authorize_action(survey->asked),
                      survey->asked, survey->request, &plan, 0, on_answer, survey,
                      &survey->check) < 0)
        on_answer(POLKIT_UNAVAILABLE, survey);
}

int survey_begin(struct manager *manager, const struct peer *peer, const struct request *request,
                 const struct plan *plan, survey_fn done, void *userdata, struct survey **ret)
{
    struct survey *survey = calloc(1, sizeof(*survey));

    if (!survey)
        return -ENOMEM;
    *survey = (struct survey){
        .manager = manager,
        .peer = peer,
        .request = request,
        .plan = plan,
        .open = plan ? plan->approvals : APPROVAL_ALL,
        .answers = json_object_new_object(),
        .done = done,
        .userdata = userdata,
    };
    *ret = survey;
    ask_next(survey);
    return 0;
}
