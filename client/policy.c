/* sbxctl policy: what a run may use without being asked, at most, and what needs an approval. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "client/exit-status.h"
#include "client/helper.h"
#include "client/policy-text.h"
#include "client/result.h"
#include "client/say.h"
#include "client/table.h"
#include "client/text.h"
#include "client/verb.h"
#include "common/quantity.h"

#define APPROVAL_TEXT 80
#define LABEL_WIDTH 12
#define LINE_WIDTH 80

struct answer {
    json_object *defaults, *ceiling, *languages, *approvals, *network, *packages, *results;
    uint64_t runs_max, queued_max, script_bytes_max, input_bytes_max, inputs_max;
    const char *engine;
};

static int answer_parse(json_object *object, struct answer *ret)
{
    static const struct json_field fields[] = {
        { "defaults", JSON_FIELD_OBJECT, offsetof(struct answer, defaults), true },
        { "ceiling", JSON_FIELD_OBJECT, offsetof(struct answer, ceiling), true },
        { "approvals", JSON_FIELD_OBJECT, offsetof(struct answer, approvals) },
        { "languages", JSON_FIELD_OBJECT, offsetof(struct answer, languages) },
        { "network", JSON_FIELD_OBJECT, offsetof(struct answer, network) },
        { "packages", JSON_FIELD_OBJECT, offsetof(struct answer, packages) },
        { "results", JSON_FIELD_OBJECT, offsetof(struct answer, results) },
        { "engine", JSON_FIELD_STRING, offsetof(struct answer, engine), true },
        { "runsMax", JSON_FIELD_UINT64, offsetof(struct answer, runs_max), .max = INT64_MAX },
        { "queuedMax", JSON_FIELD_UINT64, offsetof(struct answer, queued_max), .max = INT64_MAX },
        { "scriptBytesMax", JSON_FIELD_UINT64, offsetof(struct answer, script_bytes_max),
          .max = INT64_MAX },
        { "inputBytesMax", JSON_FIELD_UINT64, offsetof(struct answer, input_bytes_max),
          .max = INT64_MAX },
        { "inputsMax", JSON_FIELD_UINT64, offsetof(struct answer, inputs_max), .max = INT64_MAX },
    };

    *ret = (struct answer){};
    return json_dispatch(object, fields, ELEMENTS(fields), true, ret, &(const char *){ NULL });
}

/* "needs your password (io.sbxctl.run-network)". */
static const char *approval(json_object *approvals, const char *action, char buffer[APPROVAL_TEXT])
{
    snprintf(buffer, APPROVAL_TEXT, "%s (%s)", approval_text(json_get_string(approvals, action)),
             action);
    return buffer;
}

/* What asking for more than the default takes, as far as it can be asked for. */
static const char *more(json_object *approvals, enum policy_field field, const char *from,
                        const char *to, char buffer[APPROVAL_TEXT])
{
    if (field > POLICY_TIME || strcmp(from, to) == 0)
        return "";
    return approval(approvals,
                    field == POLICY_NETWORK ? "io.sbxctl.run-network" : "io.sbxctl.run-resources",
                    buffer);
}

static int print_policies(json_object *approvals, const struct policy *defaults,
                          const struct policy *ceiling)
{
    static const char *const heading[] = { "", "DEFAULT", "CEILING", "ABOVE THE DEFAULT" };
    _cleanup_(table_release) struct table table = { .n_columns = ELEMENTS(heading) };
    char text[POLICY_TEXT], ceiling_text[POLICY_TEXT], approval_line[APPROVAL_TEXT];
    int r = table_add(&table, heading);

    for (enum policy_field f = POLICY_NETWORK; f < POLICY_FIELDS && r == 0; f++) {
        const char *from = policy_field_text(defaults, f, text);
        const char *to = f <= POLICY_TIME ? policy_field_text(ceiling, f, ceiling_text) : "fixed";
        r = table_add(&table, (const char *[]){ policy_field_name(f), from, to,
                                                more(approvals, f, from, to, approval_line) });
    }
    if (r < 0)
        return say_failure_errno(r, "cannot show the policy");
    table_print(stdout, &table, terminal_width());
    return 0;
}

/* A list of the configuration, as it would be written there. @if_empty: NULL to say nothing then.
 */
static void print_list(const char *label, json_object *object, const char *key,
                       const char *if_empty)
{
    json_object *list;
    size_t column = LABEL_WIDTH, n;

    if (!json_object_object_get_ex(object, key, &list) ||
        !json_object_is_type(list, json_type_array))
        return;
    n = json_object_array_length(list);
    if (n == 0 && !if_empty)
        return;
    printf("%-*s%s%s", LABEL_WIDTH, label, n == 0 ? " " : "", n == 0 ? if_empty : "");
    for (size_t i = 0; i < n; i++) {
        const char *item = json_object_get_string(json_object_array_get_idx(list, i));
        _cleanup_free_ char *shown = displayed(item ? item : "?");
        if (i > 0 && column + 1 + strlen(shown) > LINE_WIDTH) {
            printf("\n%*s", LABEL_WIDTH, "");
            column = LABEL_WIDTH;
        }
        column += (size_t)printf(" %s", shown);
    }
    putchar('\n');
}

static void print_network(json_object *network)
{
    if (!network)
        return;
    puts("\nwith a network");
    print_list("hosts", network, "allowedNames", "none");
    print_list("but not", network, "deniedNames", NULL);
    print_list("ports", network, "allowedPorts", "none");
    print_list("private", network, "allowedAddresses", NULL);
    print_list("but not", network, "deniedAddresses", NULL);
}

static void print_text(const char *label, json_object *object, const char *key)
{
    const char *text = json_get_string(object, key);
    _cleanup_free_ char *shown = displayed(text ? text : "?");

    printf("%-*s %s\n", LABEL_WIDTH, label, shown);
}

static void print_packages(const struct answer *answer)
{
    char text[APPROVAL_TEXT];

    if (!answer->packages)
        return;
    puts("\npackages");
    printf("%-*s %s\n", LABEL_WIDTH, "approval",
           approval(answer->approvals, "io.sbxctl.run-packages", text));
    print_list("names", answer->packages, "allowed", "none");
    print_list("but not", answer->packages, "denied", NULL);
    print_text("Python from", answer->packages, "index");
    print_text("Node from", answer->packages, "nodeIndex");
}

static void print_limits(const struct answer *answer)
{
    char size[QUANTITY_TEXT], text[APPROVAL_TEXT];
    _cleanup_free_ char *engine = displayed(answer->engine);

    printf("\nengine       %s\n", engine);
    printf("cloud        %s\n", approval(answer->approvals, "io.sbxctl.run-cloud", text));
    printf("other images %s\n", approval(answer->approvals, "io.sbxctl.run-image", text));
    printf("runs         %" PRIu64 " at once, %" PRIu64 " waiting\n", answer->runs_max,
           answer->queued_max);
    printf("script       up to %s\n", format_bytes(answer->script_bytes_max, size));
    printf("files given  up to %" PRIu64 " with %s together\n", answer->inputs_max,
           format_bytes(answer->input_bytes_max, size));
    if (!answer->languages)
        return;
    const char *label = "languages";
    json_object_object_foreach(answer->languages, name, interpreter)
    {
        const char *path = json_object_get_string(interpreter);
        _cleanup_free_ char *shown = displayed(name), *shown_path = displayed(path ? path : "");
        printf("%-12s %s (%s)\n", label, shown, shown_path);
        label = "";
    }
}

struct results {
    uint64_t max_age_usec, runs_max, bytes_max, files_max, runs, bytes, files;
    bool removes_oldest;
};

static int results_parse(json_object *object, struct results *ret)
{
    static const struct json_field fields[] = {
        { "maxAgeUSec", JSON_FIELD_UINT64, offsetof(struct results, max_age_usec),
          .max = INT64_MAX },
        { "runsMax", JSON_FIELD_UINT64, offsetof(struct results, runs_max), true,
          .max = INT64_MAX },
        { "bytesMax", JSON_FIELD_UINT64, offsetof(struct results, bytes_max), true,
          .max = INT64_MAX },
        { "filesMax", JSON_FIELD_UINT64, offsetof(struct results, files_max), true,
          .max = INT64_MAX },
        { "runs", JSON_FIELD_UINT64, offsetof(struct results, runs), true, .max = INT64_MAX },
        { "bytes", JSON_FIELD_UINT64, offsetof(struct results, bytes), true, .max = INT64_MAX },
        { "files", JSON_FIELD_UINT64, offsetof(struct results, files), true, .max = INT64_MAX },
        { "removesOldest", JSON_FIELD_BOOL, offsetof(struct results, removes_oldest) },
    };

    *ret = (struct results){ .max_age_usec = UNKNOWN };
    return json_dispatch(object, fields, ELEMENTS(fields), true, ret, &(const char *){ NULL });
}

static void print_results(json_object *object)
{
    char bytes[QUANTITY_TEXT], bytes_max[QUANTITY_TEXT], age[TEXT_AGE];
    struct results results;

    if (!object || results_parse(object, &results) < 0)
        return;
    puts("\nresults that are kept");
    printf("%-*s %" PRIu64 " of %" PRIu64 "\n", LABEL_WIDTH, "runs", results.runs,
           results.runs_max);
    printf("%-*s %s of %s\n", LABEL_WIDTH, "size", format_bytes(results.bytes, bytes),
           format_bytes(results.bytes_max, bytes_max));
    printf("%-*s %" PRIu64 " of %" PRIu64 "\n", LABEL_WIDTH, "files", results.files,
           results.files_max);
    if (results.max_age_usec != UNKNOWN)
        printf("%-*s %s after their end\n", LABEL_WIDTH, "removed",
               text_span(results.max_age_usec, age));
    printf("%-*s %s\n", LABEL_WIDTH, "when full",
           results.removes_oldest ? "the oldest are removed" : "the next run is refused");
}

int verb_policy(const struct verb *verb, int argc, char **argv)
{
    _cleanup_client_ struct varlink_client *client = NULL;
    _cleanup_answer_ struct varlink_answer answer = {};
    struct policy defaults, ceiling;
    struct verb_arguments arguments;
    struct answer parsed;
    int r;

    if (!verb_read_arguments(verb, argc, argv, 0, 0, &arguments, &r))
        return r;
    say_mode.json = arguments.json;
    r = helper_connect(&client);
    if (r == 0)
        r = helper_get_policy(client, true, &answer);
    if (r != 0)
        return r;
    if (arguments.json)
        return print_json(answer.parameters);
    if (answer_parse(answer.parameters, &parsed) < 0 ||
        policy_parse(parsed.defaults, &defaults) < 0 || policy_parse(parsed.ceiling, &ceiling) < 0)
        return say_failure(EXIT_OURS, "Failed", NULL, "the helper's policy is not understood");
    r = print_policies(parsed.approvals, &defaults, &ceiling);
    if (r != 0)
        return r;
    print_limits(&parsed);
    print_results(parsed.results);
    print_network(parsed.network);
    print_packages(&parsed);
    return print_end();
}
