/* Values for completions, see complete.h. */
#include "client/complete.h"

#include <stdio.h>
#include <string.h>

#include "client/audit-events.h"
#include "client/exit-status.h"
#include "client/helper.h"
#include "client/runs.h"
#include "client/say.h"

/* Where a value comes from: a method's answer, and in it a member. */
static const struct source {
    const char *kind, *method, *member;
} sources[] = {
    { "engines", "GetEngines", "engines" },
    { "languages", "GetPolicy", "languages" },
    { "images", "GetPolicy", "images" },
    { "packages", "ListLayers", "layers" },
};

/* A value that holds anything else is left out: bash expands the words that compgen is given, down
 * to "<(command)". */
static void print_value(const char *value, const char *words)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
                                "/._-:@+,%";
    _cleanup_free_ char *about = displayed(words ? words : "");

    if (*value && *value != '-' && strspn(value, plain) == strlen(value))
        printf("%s%s%s\n", value, *about ? "\t" : "", about);
}

static void print_list(json_object *list)
{
    for (size_t i = 0; i < json_object_array_length(list); i++) {
        json_object *item = json_object_array_get_idx(list, i);
        const char *key = json_object_is_type(item, json_type_string)
                              ? json_object_get_string(item)
                              : json_get_string(item, "key");
        if (key)
            print_value(key, json_get_string(item, "ecosystem"));
    }
}

static void print_member(json_object *member)
{
    if (json_object_is_type(member, json_type_array)) {
        print_list(member);
    } else if (json_object_is_type(member, json_type_object)) {
        json_object_object_foreach(member, name, value)
        {
            print_value(name, json_object_get_string(value));
        }
    }
}

static int print_source(const struct source *source)
{
    _cleanup_client_ struct varlink_client *client = NULL;
    _cleanup_answer_ struct varlink_answer answer = {};
    int r = helper_connect(&client);

    r = r != 0 ? r : helper_call(client, source->method, NULL, &answer);
    if (r != 0)
        return r;
    print_member(json_object_object_get(answer.parameters, source->member));
    return print_end();
}

/* More is no help to somebody who types. */
#define RUNS_OFFERED 200

static int print_runs(void)
{
    _cleanup_client_ struct varlink_client *client = NULL;
    _cleanup_json_ json_object *list = NULL;
    int r = helper_connect(&client);

    r = r != 0 ? r : runs_list(client, false, RUNS_OFFERED, NULL, &list, NULL);
    if (r != 0)
        return r;
    for (size_t i = 0; i < json_object_array_length(list); i++) {
        _cleanup_free_ char *words = NULL;
        struct result run;
        if (result_parse(json_object_array_get_idx(list, i), &run) < 0 ||
            asprintf(&words, "%s %s", run_status_text(run.status),
                     run.script_name ? run.script_name : "") < 0) {
            words = NULL;
            continue;
        }
        print_value(run.id, words);
    }
    return print_end();
}

int complete(const char *kind)
{
    say_mode.quiet = true;
    if (strcmp(kind, "runs") == 0)
        return print_runs();
    if (strcmp(kind, "events") == 0) {
        for (const struct audit_event_name *event = audit_event_names; event->name; event++)
            puts(event->name);
        return print_end();
    }
    for (size_t i = 0; i < ELEMENTS(sources); i++)
        if (strcmp(kind, sources[i].kind) == 0)
            return print_source(&sources[i]);
    return EXIT_USAGE;
}
