/* The answer to a dry run, see plan-reply.h. */
#include "broker/plan-reply.h"
#include "broker/leaving.h"
#include "broker/policy-packages.h"
#include "broker/result.h"
#include "broker/survey.h"

#include <string.h>

struct dry_run {
    struct manager *manager;
    struct varlink_call *call;
    struct request request;
    struct plan plan;
    json_object *approvals;
    struct survey *survey;
};

static void dry_run_free(struct dry_run *dry)
{
    varlink_call_on_gone(dry->call, NULL, NULL);
    varlink_call_unref(dry->call);
    survey_free(dry->survey);
    json_object_put(dry->approvals);
    plan_release(&dry->plan);
    request_release(&dry->request);
    free(dry);
}

static json_object *inputs_object(const struct request *request)
{
    json_object *object = json_object_new_object();

    for (size_t i = 0; object && i < request->n_inputs; i++)
        if (json_add_uint64(object, request->inputs[i].name, request->inputs[i].size) < 0) {
            json_object_put(object);
            return NULL;
        }
    return object;
}

/* Their values are nobody's to show. */
static json_object *variables_array(const struct request *request)
{
    json_object *array = json_object_new_array();

    for (size_t i = 0; array && i < request->n_environment; i++) {
        int length = (int)strcspn(request->environment[i], "=");
        if (json_append(array, json_object_new_string_len(request->environment[i], length)) < 0) {
            json_object_put(array);
            return NULL;
        }
    }
    return array;
}

static json_object *plan_object(struct dry_run *dry)
{
    const struct request *request = &dry->request;
    _cleanup_json_ json_object *plan = json_object_new_object();

    if (!plan || json_add_string(plan, "engine", dry->plan.engine) < 0 ||
        json_add_string(plan, "image", dry->plan.image) < 0 ||
        json_add_string(plan, "language", dry->plan.language->name) < 0 ||
        json_add_string(plan, "interpreter", dry->plan.language->interpreter) < 0 ||
        json_add(plan, "arguments", result_strings(request->arguments, request->n_arguments)) < 0 ||
        json_add(plan, "policy",
                 result_policy(&dry->manager->config, &dry->plan.limits, &dry->plan.hosts)) < 0 ||
        (dry->plan.n_packages > 0 &&
         json_add(plan, "packages", policy_packages_array(&dry->plan)) < 0) ||
        json_add(plan, "approvals", json_object_get(dry->approvals)) < 0 ||
        json_add(plan, "inputs", inputs_object(request)) < 0 ||
        json_add(plan, "environment", variables_array(request)) < 0 ||
        json_add_bool(plan, "standardInput", leaving_has_input(request)) < 0 ||
        json_add_string(plan, "scriptName", request->script_name) < 0 ||
        json_add_uint64(plan, "scriptBytes", request->script_bytes) < 0 ||
        json_add_string(plan, "scriptSha256", request->script_sha256) < 0 ||
        json_add_string(plan, "requestSha256", request->sha256) < 0)
        return NULL;
    return TAKE_PTR(plan);
}

static void answer(struct dry_run *dry)
{
    json_object *reply = json_object_new_object();

    if (reply && json_add_string(reply, "event", "planned") >= 0 &&
        json_add(reply, "plan", plan_object(dry)) >= 0) {
        (void)varlink_reply(dry->call, reply);
    } else {
        json_object_put(reply);
        result_answer_failed(dry->call, "The plan could not be made.");
    }
    dry_run_free(dry);
}

static void on_surveyed(json_object *answers, void *userdata)
{
    struct dry_run *dry = userdata;

    dry->approvals = answers;
    answer(dry);
}

static void on_gone(struct varlink_call *call, void *userdata)
{
    dry_run_free(userdata);
}

void plan_reply(struct manager *manager, struct varlink_call *call, struct request *request,
                struct plan *plan)
{
    struct dry_run *dry = calloc(1, sizeof(*dry));

    if (!dry) {
        plan_release(plan);
        request_release(request);
        result_answer_failed(call, "The plan could not be made.");
        return;
    }
    *dry = (struct dry_run){
        .manager = manager,
        .call = varlink_call_ref(call),
        .request = *request,
        .plan = *plan,
    };
    varlink_call_on_gone(call, on_gone, dry);
    if (survey_begin(manager, varlink_call_peer(call), &dry->request, &dry->plan, on_surveyed, dry,
                     &dry->survey) < 0)
        answer(dry);
}
