/* From options to the parameters of method Run, see request.h. */
#include "client/request.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/exit-status.h"
#include "client/helper.h"
#include "client/inputs.h"
#include "client/say.h"
#include "client/script.h"
#include "common/escape.h"

int request_take_fd(struct request *request, int fd, size_t *ret_index)
{
    if (request->n_fds == ELEMENTS(request->fds)) {
        close_fd(fd);
        return say_failure(
            EXIT_OURS, "Failed", "put them into one archive, and give that with --file",
            "there are too many input files; at most %d can be passed on", REQUEST_INPUTS_MAX);
    }
    *ret_index = request->n_fds;
    request->fds[request->n_fds++] = fd;
    return 0;
}

void request_release(struct request *request)
{
    for (size_t i = 0; i < request->n_fds; i++)
        close_fd(request->fds[i]);
    json_object_put(request->parameters);
    *request = (struct request){};
}

static int add_arguments(json_object *parameters, const struct run_options *options)
{
    json_object *array = json_object_new_array();

    if (json_add(parameters, "arguments", array) < 0)
        return say_failure_errno(-ENOMEM, "cannot start the run");
    for (size_t i = 0; i < options->n_arguments; i++) {
        const char *argument = options->arguments[i];
        if (!utf8_is_valid(argument)) {
            _cleanup_free_ char *shown = displayed(argument);
            return say_failure(EXIT_OURS, "Failed", NULL, "the argument '%s' is not valid UTF-8",
                               shown);
        }
        if (json_append(array, json_object_new_string(argument)) < 0)
            return say_failure_errno(-ENOMEM, "cannot start the run");
    }
    return 0;
}

static int add_variable(json_object *environment, const char *text)
{
    const char *sign = strchr(text, '='), *value;
    _cleanup_free_ char *name = NULL, *shown = NULL;

    name = strndup(text, sign ? (size_t)(sign - text) : strlen(text));
    if (!name)
        return say_failure_errno(-ENOMEM, "cannot start the run");
    shown = displayed(name);
    value = sign ? sign + 1 : getenv(name);
    if (!value) {
        say_warning("the variable %s is not set here, so it is not set inside", shown);
        return 0;
    }
    if (!utf8_is_valid(name) || !utf8_is_valid(value))
        return say_failure(EXIT_OURS, "Failed", NULL, "the variable %s is not valid UTF-8", shown);
    if (json_add_string(environment, name, value) < 0)
        return say_failure_errno(-ENOMEM, "cannot start the run");
    return 0;
}

static int add_environment(json_object *parameters, const struct run_options *options)
{
    json_object *environment = json_object_new_object();

    if (json_add(parameters, "environment", environment) < 0)
        return say_failure_errno(-ENOMEM, "cannot start the run");
    for (size_t i = 0; i < options->n_environment; i++) {
        int r = add_variable(environment, options->environment[i]);
        if (r != 0)
            return r;
    }
    return 0;
}

static int add_script(struct request *request, const struct run_options *options)
{
    _cleanup_(script_release) struct script script = SCRIPT_NULL;
    json_object *parameters = request->parameters;
    size_t index = 0;

    int r = script_open(options, &script);
    if (r != 0)
        return r;
    r = request_take_fd(request, TAKE_FD(script.fd), &index);
    if (r != 0)
        return r;
    request->stdin_is_script = script.was_stdin;
    if (json_add_uint64(parameters, "scriptFd", index) < 0 ||
        json_add_string(parameters, "scriptName", script.name) < 0 ||
        json_add_string(parameters, "language", script.language) < 0)
        return say_failure_errno(-ENOMEM, "cannot start the run");
    return 0;
}

int request_ask_limits(struct input_limits *ret)
{
    static const struct json_field fields[] = {
        { "inputBytesMax", JSON_FIELD_UINT64, offsetof(struct input_limits, bytes_max), true,
          .max = INT64_MAX },
        { "inputsMax", JSON_FIELD_UINT64, offsetof(struct input_limits, inputs_max), true,
          .max = INT64_MAX },
    };
    _cleanup_client_ struct varlink_client *client = NULL;
    _cleanup_answer_ struct varlink_answer answer = {};

    int r = helper_connect(&client);
    if (r == 0)
        r = helper_get_policy(client, false, &answer);
    if (r != 0)
        return r;
    if (json_dispatch(answer.parameters, fields, ELEMENTS(fields), true, ret,
                      &(const char *){ NULL }) < 0)
        return say_failure(EXIT_OURS, "Failed", NULL, "the helper's policy is not understood");
    return 0;
}

static int add_inputs(struct request *request, const struct run_options *options)
{
    struct input_limits limits;

    request->inputs = json_object_new_array();
    if (json_add(request->parameters, "inputs", request->inputs) < 0)
        return say_failure_errno(-ENOMEM, "cannot start the run");
    if (options->n_files == 0 && options->n_input_runs == 0)
        return 0;
    const struct input_wishes wishes = {
        .paths = options->files,
        .n_paths = options->n_files,
        .runs = options->input_runs,
        .n_runs = options->n_input_runs,
    };
    int r = request_ask_limits(&limits);
    return r == 0 ? inputs_add(request, &wishes, &limits) : r;
}

static int add_hosts(json_object *parameters, const struct run_options *options)
{
    json_object *array = json_object_new_array();
    int r = json_add(parameters, "networkNames", array);

    for (size_t i = 0; i < options->n_hosts && r == 0; i++)
        for (const char *name = options->hosts[i]; *name && r == 0;) {
            size_t length = strcspn(name, ",");

            r = json_append(array, json_object_new_string_len(name, (int)length));
            name += length + (name[length] == ',');
        }
    return r;
}

static int add_packages(json_object *parameters, const struct run_options *options)
{
    json_object *array = json_object_new_array();
    int r = 0;

    if (options->n_packages > 0) {
        if (json_add(parameters, "packages", array) < 0)
            return say_failure_errno(-ENOMEM, "cannot start the run");
        r = packages_add(array, options->packages, options->n_packages);
    } else {
        json_object_put(array);
    }
    if (r == 0 && options->require_hashes && json_add_bool(parameters, "requireHashes", true) < 0)
        return say_failure_errno(-ENOMEM, "cannot start the run");
    return r;
}

static int add_wishes(json_object *parameters, const struct run_options *options)
{
    static const struct {
        const char *name;
        size_t offset;
    } numbers[] = {
        { "memoryBytes", offsetof(struct run_options, memory_bytes) },
        { "cpuPercent", offsetof(struct run_options, cpu_percent) },
        { "timeoutUSec", offsetof(struct run_options, timeout_usec) },
    };
    int r = json_add_string(parameters, "engine", options->engine);

    if (r == 0)
        r = json_add_string(parameters, "image", options->image);
    if (r == 0)
        r = json_add_string(parameters, "template", options->template);
    if (r == 0 && options->network)
        r = json_add_string(parameters, "network", "internet");
    if (r == 0 && options->n_hosts > 0)
        r = add_hosts(parameters, options);
    for (size_t i = 0; i < ELEMENTS(numbers) && r == 0; i++) {
        uint64_t value = *(const uint64_t *)((const char *)options + numbers[i].offset);
        if (value > 0)
            r = json_add_uint64(parameters, numbers[i].name, value);
    }
    if (r == 0 && options->detach)
        r = json_add_bool(parameters, "detach", true);
    if (r == 0 && options->allow_secrets)
        r = json_add_bool(parameters, "allowSecrets", true);
    if (r == 0 && options->dry_run)
        r = json_add_bool(parameters, "dryRun", true);
    if (r == 0)
        r = json_add_bool(parameters, "allowInteractiveAuthentication", !options->no_ask_password);
    return r == 0 ? 0 : say_failure_errno(r, "cannot start the run");
}

int request_make(const struct run_options *options, struct request *ret)
{
    _cleanup_(request_release) struct request request = { .parameters = json_object_new_object() };

    if (!request.parameters)
        return say_failure_errno(-ENOMEM, "cannot start the run");
    int r = add_script(&request, options);
    if (r == 0)
        r = add_inputs(&request, options);
    if (r == 0)
        r = add_arguments(request.parameters, options);
    if (r == 0)
        r = add_environment(request.parameters, options);
    if (r == 0)
        r = add_packages(request.parameters, options);
    if (r == 0)
        r = add_wishes(request.parameters, options);
    if (r != 0)
        return r;
    *ret = request;
    request = (struct request){};
    return 0;
}
