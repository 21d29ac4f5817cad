/* The answer to a dry run as lines, see plan.h. */
#include "client/plan.h"

#include <stdio.h>
#include <string.h>

#include "client/exit-status.h"
#include "client/policy-text.h"
#include "client/result.h"
#include "client/say.h"
#include "common/cleanup.h"
#include "common/quantity.h"

#define INPUTS_SHOWN 20
#define CLOUD_ACTION "io.sbxctl.run-cloud"

/* One a line, the first one behind what they are. */
static void print_words(const char *what, json_object *words)
{
    size_t n = words ? json_object_array_length(words) : 0;

    for (size_t i = 0; i < n; i++) {
        const char *word = json_object_get_string(json_object_array_get_idx(words, i));
        _cleanup_free_ char *shown = displayed(word ? word : "?");
        printf("%-13s %s\n", i == 0 ? what : "", shown);
    }
}

/* All of them: it is what an approval is about. */
static void print_leaving(const struct plan *plan)
{
    _cleanup_free_ char *script = displayed(plan->script_name);
    char size[QUANTITY_TEXT];

    printf("%-13s %s, %s\n", "leave here", script, format_bytes(plan->script_bytes, size));
    if (plan->inputs) {
        json_object_object_foreach(plan->inputs, name, bytes)
        {
            _cleanup_free_ char *shown = displayed(name);
            printf("%-13s %s, %s\n", "", shown,
                   format_bytes((uint64_t)json_object_get_int64(bytes), size));
        }
    }
    if (plan->standard_input)
        printf("%-13s %s\n", "", "standard input");
    if (plan->arguments && json_object_array_length(plan->arguments) > 0)
        printf("%-13s %s\n", "", "the arguments");
    if (plan->environment && json_object_array_length(plan->environment) > 0)
        printf("%-13s %s\n", "", "the variables, with their values");
}

static void print_inputs(json_object *inputs)
{
    char size[QUANTITY_TEXT];
    int n = 0, total = inputs ? json_object_object_length(inputs) : 0;

    if (total == 0) {
        printf("%-13s %s\n", "files read", "none");
        return;
    }
    json_object_object_foreach(inputs, name, bytes)
    {
        if (n == INPUTS_SHOWN)
            break;
        _cleanup_free_ char *shown = displayed(name);
        printf("%-13s %s, %s\n", n++ == 0 ? "files read" : "", shown,
               format_bytes((uint64_t)json_object_get_int64(bytes), size));
    }
    if (total > n)
        printf("%-13s … and %d more\n", "", total - n);
}

static void print_approvals(json_object *approvals)
{
    bool first = true;

    if (!approvals || json_object_object_length(approvals) == 0) {
        printf("%-13s %s\n", "approvals", "none");
        return;
    }
    json_object_object_foreach(approvals, action, verdict)
    {
        const char *text = json_object_get_string(verdict);
        _cleanup_free_ char *shown = displayed(action);
        printf("%-13s %s: %s\n", first ? "approvals" : "", shown, approval_text(text));
        first = false;
    }
}

int plan_print(json_object *object)
{
    char size[QUANTITY_TEXT];
    struct policy policy;
    struct plan plan;

    if (!object || plan_parse(object, &plan) < 0 ||
        (plan.policy && policy_parse(plan.policy, &policy) < 0))
        return say_failure(EXIT_OURS, "Failed", NULL, "the helper's plan is not understood");

    _cleanup_free_ char *name = displayed(plan.script_name), *engine = displayed(plan.engine);
    _cleanup_free_ char *language = displayed(plan.language);
    _cleanup_free_ char *interpreter = displayed(plan.interpreter);
    _cleanup_free_ char *sha256 = displayed(plan.script_sha256);
    printf("%-13s %s, %s\n", "script", name, format_bytes(plan.script_bytes, size));
    printf("%-13s %s\n", "sha256", sha256);
    if (plan.request_sha256) {
        _cleanup_free_ char *request = displayed(plan.request_sha256);
        printf("%-13s %s\n", "request", request);
    }
    printf("%-13s %s (%s)\n", "language", language, interpreter);
    print_words("arguments", plan.arguments);
    print_words("variables", plan.environment);
    printf("%-13s %s\n", "engine", engine);
    if (plan.image) {
        _cleanup_free_ char *image = displayed(plan.image);
        printf("%-13s %s\n", "image", image);
    }
    print_words("packages", plan.packages);
    if (plan.policy)
        policy_print_lines(&policy);
    if (plan.approvals && json_object_object_get(plan.approvals, CLOUD_ACTION))
        print_leaving(&plan);
    else
        print_inputs(plan.inputs);
    print_approvals(plan.approvals);
    say("nothing was run");
    return print_end();
}
