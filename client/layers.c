/* sbxctl packages: the user's layers of packages, and their removal. */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "client/exit-status.h"
#include "client/helper.h"
#include "client/say.h"
#include "client/table.h"
#include "client/text.h"
#include "client/verb.h"
#include "common/clock.h"
#include "common/quantity.h"

#define KEY_SHOWN 12
#define PACKAGES_SHOWN 100

struct layer {
    const char *key, *language, *engine;
    json_object *requested;
    uint64_t used_usec, bytes;
    bool in_use;
};

static int layer_parse(json_object *object, struct layer *ret)
{
    static const struct json_field fields[] = {
        { "key", JSON_FIELD_STRING, offsetof(struct layer, key), true },
        { "language", JSON_FIELD_STRING, offsetof(struct layer, language) },
        { "engine", JSON_FIELD_STRING, offsetof(struct layer, engine) },
        { "requested", JSON_FIELD_ARRAY, offsetof(struct layer, requested) },
        { "usedUSec", JSON_FIELD_UINT64, offsetof(struct layer, used_usec), .max = INT64_MAX },
        { "bytes", JSON_FIELD_UINT64, offsetof(struct layer, bytes), .max = INT64_MAX },
        { "inUse", JSON_FIELD_BOOL, offsetof(struct layer, in_use) },
    };

    *ret = (struct layer){ .language = "", .engine = "" };
    return json_dispatch(object, fields, ELEMENTS(fields), true, ret, &(const char *){ NULL });
}

/* ---- the list */

static void join_requested(json_object *requested, char buffer[PACKAGES_SHOWN])
{
    size_t n = requested ? json_object_array_length(requested) : 0, used = 0;

    *buffer = '\0';
    for (size_t i = 0; i < n && used < PACKAGES_SHOWN; i++) {
        const char *text = json_object_get_string(json_object_array_get_idx(requested, i));
        _cleanup_free_ char *shown = displayed(text ? text : "?");
        used +=
            (size_t)snprintf(buffer + used, PACKAGES_SHOWN - used, "%s%s", i > 0 ? " " : "", shown);
    }
}

static int add_layer(struct table *table, json_object *object, uint64_t now_usec)
{
    char used[TEXT_AGE], size[QUANTITY_TEXT], packages[PACKAGES_SHOWN];
    struct layer layer;

    if (layer_parse(object, &layer) < 0)
        return 0;
    _cleanup_free_ char *key = displayed(layer.key), *language = displayed(layer.language);
    _cleanup_free_ char *engine = displayed(layer.engine);
    if (strlen(key) > KEY_SHOWN)
        key[KEY_SHOWN] = '\0';
    join_requested(layer.requested, packages);
    return table_add(table, (const char *[]){
                                key,
                                layer.in_use ? "now" : text_age(layer.used_usec, now_usec, used),
                                format_bytes(layer.bytes, size),
                                language,
                                engine,
                                packages,
                            });
}

static int print_list(json_object *layers)
{
    static const char *const heading[] = {
        "KEY", "USED", "SIZE", "LANGUAGE", "ENGINE", "PACKAGES"
    };
    _cleanup_(table_release) struct table table = { .n_columns = ELEMENTS(heading) };
    size_t n = json_object_array_length(layers);
    int r = table_add(&table, heading);

    if (n == 0) {
        say("you have no packages; 'sbxctl run --with NAME' installs some");
        return 0;
    }
    for (size_t i = 0; i < n && r == 0; i++)
        r = add_layer(&table, json_object_array_get_idx(layers, i), clock_usec(CLOCK_REALTIME));
    if (r < 0)
        return say_failure_errno(r, "cannot list the packages");
    table_print(stdout, &table, terminal_width());
    return print_end();
}

/* ---- removal */

static int remove_one(struct varlink_client *client, const char *key, json_object *removed)
{
    _cleanup_answer_ struct varlink_answer answer = {};
    json_object *parameters = json_object_new_object();

    if (json_add_string(parameters, "key", key) < 0) {
        json_object_put(parameters);
        return say_failure_errno(-ENOMEM, "cannot remove the packages");
    }
    int r = helper_call(client, "RemoveLayer", parameters, &answer);
    if (r == 0 && json_append(removed, json_object_new_string(key)) < 0)
        r = say_failure_errno(-ENOMEM, "cannot remove the packages");
    return r;
}

/* The one key that is @text or begins with it. Returns 0, or the exit status of what was told. */
static int find_key(json_object *layers, const char *text, const char **ret)
{
    _cleanup_free_ char *shown = displayed(text);
    size_t found = 0;

    for (size_t i = 0; i < json_object_array_length(layers); i++) {
        const char *key = json_get_string(json_object_array_get_idx(layers, i), "key");
        if (!key || *text == '\0' || strncmp(key, text, strlen(text)) != 0)
            continue;
        *ret = key;
        found++;
    }
    if (found == 1)
        return 0;
    return say_failure(
        EXIT_OURS, found > 1 ? "AmbiguousKey" : "NoSuchLayer",
        found > 1 ? "give more of the key" : "'sbxctl packages' lists those that you have",
        found > 1 ? "more than one key begins with %s" : "you have no packages %s", shown);
}

static int remove_named(struct varlink_client *client, json_object *layers, char **texts, size_t n,
                        json_object *removed)
{
    _cleanup_free_ const char **keys = calloc(n + 1, sizeof(*keys));
    int r = keys ? 0 : say_failure_errno(-ENOMEM, "cannot remove the packages");

    /* All are looked up before the first is removed. */
    for (size_t i = 0; i < n && r == 0; i++)
        r = find_key(layers, texts[i], &keys[i]);
    for (size_t i = 0; i < n && r == 0; i++)
        r = remove_one(client, keys[i], removed);
    return r;
}

/* What runs use stays. */
static int remove_unused(struct varlink_client *client, json_object *layers, json_object *removed)
{
    size_t kept = 0;
    int r = 0;

    for (size_t i = 0; i < json_object_array_length(layers) && r == 0; i++) {
        struct layer layer;
        if (layer_parse(json_object_array_get_idx(layers, i), &layer) < 0)
            continue;
        kept += layer.in_use;
        if (!layer.in_use)
            r = remove_one(client, layer.key, removed);
    }
    if (r == 0 && kept > 0)
        say_warning("%zu that runs use %s left", kept, kept == 1 ? "is" : "are");
    return r;
}

static int remove_layers(const struct verb_arguments *arguments, struct varlink_client *client,
                         json_object *layers)
{
    _cleanup_json_ json_object *object = json_object_new_object();
    json_object *removed = json_object_new_array();

    if (json_add(object, "removed", removed) < 0)
        return say_failure_errno(-ENOMEM, "cannot remove the packages");
    int r = arguments->all ? remove_unused(client, layers, removed)
                           : remove_named(client, layers, arguments->arguments + 1,
                                          arguments->n_arguments - 1, removed);
    return r == 0 && arguments->json ? print_json(object) : r;
}

/* ---- the verb */

static int check_arguments(const struct verb *verb, struct verb_arguments *arguments)
{
    bool removes = arguments->n_arguments > 0;

    /* It reads best behind the word, where options end for getopt. */
    if (arguments->n_arguments == 2 && strcmp(arguments->arguments[1], "--all") == 0) {
        arguments->all = true;
        arguments->n_arguments = 1;
    }

    if (removes && strcmp(arguments->arguments[0], "rm") != 0)
        return verb_usage_error(verb,
                                "'%s' is not understood; to remove some, write rm before "
                                "their keys",
                                arguments->arguments[0]);
    if (!removes && arguments->all)
        return verb_usage_error(verb, "--all goes with rm");
    if (removes && arguments->all != (arguments->n_arguments == 1))
        return verb_usage_error(verb, arguments->all ? "--all and keys do not go together"
                                                     : "the key is missing");
    return 0;
}

int verb_packages(const struct verb *verb, int argc, char **argv)
{
    _cleanup_client_ struct varlink_client *client = NULL;
    _cleanup_answer_ struct varlink_answer answer = {};
    struct verb_arguments arguments;
    int r;

    if (!verb_read_arguments(verb, argc, argv, 0, SIZE_MAX, &arguments, &r))
        return r;
    r = check_arguments(verb, &arguments);
    if (r != 0)
        return r;
    say_mode.json = arguments.json;
    r = helper_connect(&client);
    if (r == 0)
        r = helper_call(client, "ListLayers", NULL, &answer);
    if (r != 0)
        return r;
    json_object *layers = json_object_object_get(answer.parameters, "layers");
    if (!json_object_is_type(layers, json_type_array))
        return say_failure(EXIT_OURS, "Failed", NULL, "the helper's list is not understood");
    if (arguments.n_arguments > 0)
        return remove_layers(&arguments, client, layers);
    return arguments.json ? print_json(answer.parameters) : print_list(layers);
}
