/* sbxctl engines: which engines there are, and how they stand. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "client/exit-status.h"
#include "client/helper.h"
#include "client/say.h"
#include "client/table.h"
#include "client/text.h"
#include "client/verb.h"

struct engine {
    bool images, cloud, usable;
    const char *reason;
    uint64_t running, running_max; /* of a cloud; UINT64_MAX: not told */
};

static int engine_parse(json_object *object, struct engine *ret)
{
    static const struct json_field fields[] = {
        { "images", JSON_FIELD_BOOL, offsetof(struct engine, images) },
        { "cloud", JSON_FIELD_BOOL, offsetof(struct engine, cloud) },
        { "usable", JSON_FIELD_BOOL, offsetof(struct engine, usable) },
        { "reason", JSON_FIELD_STRING, offsetof(struct engine, reason) },
        { "running", JSON_FIELD_UINT64, offsetof(struct engine, running), false, 0, INT64_MAX },
        { "runningMax", JSON_FIELD_UINT64, offsetof(struct engine, running_max), false, 0,
          INT64_MAX },
    };

    *ret = (struct engine){ .running = UINT64_MAX, .running_max = UINT64_MAX };
    return json_dispatch(object, fields, ELEMENTS(fields), true, ret, &(const char *){ NULL });
}

static int add_engine(struct table *table, const char *name, const char *standard,
                      const struct engine *engine)
{
    _cleanup_free_ char *shown = displayed(name);
    char usable[64] = "usable";

    if (engine->running != UINT64_MAX)
        snprintf(usable, sizeof(usable), "usable, %" PRIu64 " of %" PRIu64 " running",
                 engine->running, engine->running_max);
    return table_add(table, (const char *[]){ shown, strcmp(name, standard) == 0 ? "yes" : "",
                                              engine->images  ? "images"
                                              : engine->cloud ? "in the cloud"
                                                              : "this machine's programs",
                                              engine->usable ? usable : "not usable" });
}

/* Whole, since they tell what to do. */
static void print_reason(const char *name, const struct engine *engine)
{
    if (engine->usable || !engine->reason)
        return;
    _cleanup_free_ char *shown = displayed(name), *reason = displayed(engine->reason);
    _cleanup_free_ char *text = NULL;

    if (asprintf(&text, "%s: %s", shown, reason) < 0) {
        text = NULL;
        return;
    }
    putchar('\n');
    text_print_wrapped(stdout, text, terminal_width());
}

static int print_engines(json_object *details, const char *standard)
{
    static const char *const heading[] = { "ENGINE", "DEFAULT", "RUNS", "STATE" };
    _cleanup_(table_release) struct table table = { .n_columns = ELEMENTS(heading) };
    struct engine engine;
    int r = table_add(&table, heading);

    json_object_object_foreach(details, name, object)
    {
        if (r == 0 && engine_parse(object, &engine) < 0)
            return say_failure(EXIT_OURS, "Failed", NULL,
                               "what the helper says of its engines is not understood");
        r = r < 0 ? r : add_engine(&table, name, standard, &engine);
    }
    if (r < 0)
        return say_failure_errno(r, "cannot show the engines");
    table_print(stdout, &table, terminal_width());
    json_object_object_foreach(details, unusable, described)
    {
        if (engine_parse(described, &engine) >= 0)
            print_reason(unusable, &engine);
    }
    return print_end();
}

int verb_engines(const struct verb *verb, int argc, char **argv)
{
    _cleanup_client_ struct varlink_client *client = NULL;
    _cleanup_answer_ struct varlink_answer answer = {};
    json_object *parameters = json_object_new_object();
    struct verb_arguments arguments;
    int r = EXIT_OURS;

    if (json_add_bool(parameters, "probe", true) < 0 ||
        !verb_read_arguments(verb, argc, argv, 0, 0, &arguments, &r)) {
        json_object_put(parameters);
        return r;
    }
    say_mode.json = arguments.json;
    r = helper_connect(&client);
    if (r == 0)
        r = helper_call(client, "GetEngines", TAKE_PTR(parameters), &answer);
    json_object_put(parameters);
    if (r != 0)
        return r;
    if (arguments.json)
        return print_json(answer.parameters);
    json_object *details = json_object_object_get(answer.parameters, "details");
    const char *standard = json_get_string(answer.parameters, "default");
    if (!json_object_is_type(details, json_type_object) || !standard)
        return say_failure(EXIT_OURS, "Failed", NULL,
                           "what the helper says of its engines is not understood");
    return print_engines(details, standard);
}
