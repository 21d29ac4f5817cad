/* Arguments of tools, see mcp-arguments.h. A model reads what is told here, and mends its call. */
#include "client/mcp-arguments.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "client/exit-status.h"
#include "client/helper.h"
#include "client/inputs.h"
#include "client/mcp-run.h"
#include "client/say.h"
#include "common/base64.h"

static const char see_schema[] = "look at the tool's input schema";

static int fail_argument(const char *name, const char *what)
{
    return say_failure(EXIT_USAGE, "Invalid", see_schema, "the argument %s must be %s", name, what);
}

static int fail_memory(void)
{
    return say_failure_errno(-ENOMEM, "cannot start the run");
}

/* NULL and what is absent are the same: some clients fill in every member. */
int mcp_argument_string(json_object *arguments, const char *name, const char **ret)
{
    json_object *value = json_object_object_get(arguments, name);

    if (!value)
        return 0;
    if (!json_object_is_type(value, json_type_string))
        return fail_argument(name, "a string");
    *ret = json_object_get_string(value);
    return 0;
}

int mcp_argument_bool(json_object *arguments, const char *name, bool *ret)
{
    json_object *value = json_object_object_get(arguments, name);

    if (!value)
        return 0;
    if (!json_object_is_type(value, json_type_boolean))
        return fail_argument(name, "true or false");
    *ret = json_object_get_boolean(value);
    return 0;
}

/* Models write 30.0 at times. */
static bool number_of(json_object *value, double *ret)
{
    if (!json_object_is_type(value, json_type_int) && !json_object_is_type(value, json_type_double))
        return false;
    *ret = json_object_get_double(value);
    return true;
}

int mcp_argument_number(json_object *arguments, const char *name, uint64_t min, uint64_t max,
                        uint64_t *ret)
{
    json_object *value = json_object_object_get(arguments, name);
    char range[96];
    double number;

    if (!value)
        return 0;
    if (!number_of(value, &number) || !(number >= (double)min && number <= (double)max) ||
        number != (double)(uint64_t)number) {
        snprintf(range, sizeof(range), "an integer from %" PRIu64 " to %" PRIu64, min, max);
        return fail_argument(name, range);
    }
    *ret = (uint64_t)number;
    return 0;
}

int mcp_arguments_check(json_object *arguments, const char *const *names)
{
    if (!arguments)
        return 0;
    json_object_object_foreach(arguments, key, value)
    {
        bool known = false;

        (void)value;
        for (size_t i = 0; names[i] && !known; i++)
            known = strcmp(names[i], key) == 0;
        if (!known) {
            _cleanup_free_ char *shown = displayed(key);
            return say_failure(EXIT_USAGE, "Invalid", see_schema, "there is no argument '%.100s'",
                               shown);
        }
    }
    return 0;
}

/* ---- Of run_code ---- */

/* An array of strings as pointers into it; @ret is new, and NULL if there is none. */
static int take_strings(json_object *arguments, const char *name, const char ***ret, size_t *ret_n)
{
    json_object *array = json_object_object_get(arguments, name);
    size_t n;

    if (!array)
        return 0;
    if (!json_object_is_type(array, json_type_array))
        return fail_argument(name, "an array of strings");
    n = json_object_array_length(array);
    *ret = calloc(n + 1, sizeof(char *));
    if (!*ret)
        return fail_memory();
    *ret_n = n;
    for (size_t i = 0; i < n; i++) {
        json_object *item = json_object_array_get_idx(array, i);
        if (!json_object_is_type(item, json_type_string))
            return fail_argument(name, "an array of strings");
        (*ret)[i] = json_object_get_string(item);
    }
    return 0;
}

static int take_packages(json_object *arguments, struct run_options *options)
{
    _cleanup_free_ const char **names = NULL;
    size_t n = 0;

    int r = take_strings(arguments, "packages", &names, &n);
    if (r != 0 || n == 0)
        return r;
    options->packages = calloc(n, sizeof(*options->packages));
    if (!options->packages)
        return fail_memory();
    for (size_t i = 0; i < n; i++)
        options->packages[i] = (struct package_wish){ .text = names[i] };
    options->n_packages = n;
    return 0;
}

static int take_environment(json_object *arguments, struct mcp_run_arguments *ret)
{
    json_object *object = json_object_object_get(arguments, "env");
    size_t n;

    if (!object)
        return 0;
    if (!json_object_is_type(object, json_type_object))
        return fail_argument("env", "an object with strings");
    n = (size_t)json_object_object_length(object);
    ret->environment = calloc(n + 1, sizeof(char *));
    ret->options.environment = calloc(n + 1, sizeof(char *));
    if (!ret->environment || !ret->options.environment)
        return fail_memory();
    json_object_object_foreach(object, key, value)
    {
        char **text = &ret->environment[ret->n_environment];

        if (!json_object_is_type(value, json_type_string) || *key == '\0' || strchr(key, '='))
            return fail_argument("env", "an object with strings, and names without '='");
        if (asprintf(text, "%s=%s", key, json_object_get_string(value)) < 0) {
            *text = NULL;
            return fail_memory();
        }
        ret->options.environment[ret->n_environment++] = *text;
    }
    ret->options.n_environment = ret->n_environment;
    return 0;
}

static int take_cpus(json_object *arguments, struct run_options *options)
{
    json_object *value = json_object_object_get(arguments, "cpus");
    double number;

    if (!value)
        return 0;
    if (!number_of(value, &number) || !(number >= 0.01 && number <= 1024))
        return fail_argument("cpus", "a number from 0.01 to 1024");
    options->cpu_percent = (uint64_t)(number * 100 + 0.5);
    return 0;
}

static int take_limits(json_object *arguments, struct run_options *options)
{
    uint64_t memory = 0, seconds = 0;

    int r = mcp_argument_number(arguments, "memoryMiB", 1, 1 << 24, &memory);
    if (r == 0)
        r = mcp_argument_number(arguments, "timeoutSeconds", 1, 1 << 24, &seconds);
    if (r == 0)
        r = take_cpus(arguments, options);
    options->memory_bytes = memory << 20;
    options->timeout_usec = seconds * 1000 * 1000;
    return r;
}

static int take_files(json_object *arguments, struct mcp_run_arguments *ret)
{
    json_object *array = json_object_object_get(arguments, "files");

    if (array && !json_object_is_type(array, json_type_array))
        return fail_argument("files", "an array of objects");
    ret->files = array;
    return 0;
}

/* What has a name is taken as it is; in which order does not matter. */
static int take_all(json_object *arguments, struct mcp_run_arguments *ret)
{
    static const char *const names[] = {
        "code",     "language", "arguments",   "files",          "stdin",     "env",
        "packages", "network",  "hosts",       "timeoutSeconds", "memoryMiB", "cpus",
        "image",    "template", "waitSeconds", "engine",         NULL,
    };
    struct run_options *options = &ret->options;
    const struct {
        const char *name, **target;
    } strings[] = {
        { "code", &options->code },         { "language", &options->language },
        { "engine", &options->engine },     { "image", &options->image },
        { "template", &options->template }, { "stdin", &ret->standard_input },
    };
    int r = mcp_arguments_check(arguments, names);

    for (size_t i = 0; r == 0 && i < ELEMENTS(strings); i++)
        r = mcp_argument_string(arguments, strings[i].name, strings[i].target);
    if (r == 0 && !options->code)
        r = fail_argument("code", "there");
    if (r == 0)
        r = mcp_argument_bool(arguments, "network", &options->network);
    if (r == 0)
        r = take_strings(arguments, "hosts", &options->hosts, &options->n_hosts);
    if (r == 0)
        r = take_strings(arguments, "arguments", (const char ***)&options->arguments,
                         &options->n_arguments);
    if (r == 0)
        r = take_packages(arguments, options);
    if (r == 0)
        r = take_environment(arguments, ret);
    if (r == 0)
        r = take_limits(arguments, options);
    if (r == 0)
        r = take_files(arguments, ret);
    if (r == 0)
        r = mcp_argument_number(arguments, "waitSeconds", 0, MCP_WAIT_MAX, &ret->wait_seconds);
    options->network = options->network || options->n_hosts > 0;
    return r;
}

int mcp_arguments_parse(json_object *arguments, struct mcp_run_arguments *ret)
{
    _cleanup_(mcp_arguments_release) struct mcp_run_arguments parsed = { .wait_seconds =
                                                                             MCP_WAIT_MAX };

    int r = take_all(arguments, &parsed);
    if (r != 0)
        return r;
    *ret = parsed;
    parsed = (struct mcp_run_arguments){};
    return 0;
}

void mcp_arguments_release(struct mcp_run_arguments *arguments)
{
    for (size_t i = 0; i < arguments->n_environment; i++)
        free(arguments->environment[i]);
    free(arguments->environment);
    free(arguments->options.arguments);
    run_options_release(&arguments->options);
    *arguments = (struct mcp_run_arguments){};
}

/* ---- Files ---- */

struct given_file {
    const char *name, *content, *base64, *path;
    size_t content_size;
};

static int parse_file(json_object *object, struct given_file *ret)
{
    static const char *const names[] = { "name", "content", "contentBase64", "path", NULL };

    *ret = (struct given_file){};
    if (!json_object_is_type(object, json_type_object))
        return fail_argument("files", "an array of objects");
    int r = mcp_arguments_check(object, names);
    if (r == 0)
        r = mcp_argument_string(object, "name", &ret->name);
    if (r == 0)
        r = mcp_argument_string(object, "content", &ret->content);
    if (r == 0)
        r = mcp_argument_string(object, "contentBase64", &ret->base64);
    if (r == 0)
        r = mcp_argument_string(object, "path", &ret->path);
    if (r != 0)
        return r;
    if (!!ret->content + !!ret->base64 + !!ret->path != 1 || (!ret->path && !ret->name))
        return fail_argument("files", "an array of objects with name and one of content, "
                                      "contentBase64 and path");
    return 0;
}

static int add_base64(struct request *request, const struct given_file *file)
{
    _cleanup_free_ char *bytes = strdup(file->base64);
    size_t size;

    if (!bytes)
        return fail_memory();
    if (base64_decode(bytes, strlen(bytes), &size) < 0) {
        _cleanup_free_ char *shown = displayed(file->name);
        return say_failure(EXIT_USAGE, "Invalid", see_schema,
                           "what is given for the file %.200s is no base64", shown);
    }
    return inputs_add_bytes(request, file->name, bytes, size);
}

static int add_paths(struct request *request, const struct input_path *paths, size_t n)
{
    struct input_limits limits;

    if (n == 0)
        return 0;
    int r = request_ask_limits(&limits);
    return r == 0 ? inputs_add_paths(request, paths, n, &limits) : r;
}

static int add_files(struct request *request, json_object *files)
{
    size_t n = files ? json_object_array_length(files) : 0, n_paths = 0;
    _cleanup_free_ struct input_path *paths = calloc(n + 1, sizeof(*paths));
    int r = paths ? 0 : fail_memory();

    for (size_t i = 0; r == 0 && i < n; i++) {
        struct given_file file;
        r = parse_file(json_object_array_get_idx(files, i), &file);
        if (r == 0 && file.path)
            paths[n_paths++] = (struct input_path){ file.path, file.name };
        else if (r == 0 && file.base64)
            r = add_base64(request, &file);
        else if (r == 0)
            r = inputs_add_bytes(request, file.name, file.content, strlen(file.content));
    }
    return r == 0 ? add_paths(request, paths, n_paths) : r;
}

int mcp_arguments_request(const struct mcp_run_arguments *arguments, struct request *ret)
{
    _cleanup_(request_release) struct request request = {};

    int r = request_make(&arguments->options, &request);
    if (r == 0)
        r = add_files(&request, arguments->files);
    if (r == 0 && json_add_string(request.parameters, "streams", "descriptors") < 0)
        r = fail_memory();
    if (r != 0)
        return r;
    *ret = request;
    request = (struct request){};
    return 0;
}
