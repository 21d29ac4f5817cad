/* What the caller may have, see policy-reply.h. */
#include "broker/policy-reply.h"
#include "broker/keeper.h"
#include "broker/result.h"
#include "broker/survey.h"
#include "egress/protocol-lists.h"

#include <string.h>

struct policy_question {
    struct manager *manager;
    struct varlink_call *call;
    struct survey *survey;
};

static void question_free(struct policy_question *question)
{
    varlink_call_on_gone(question->call, NULL, NULL);
    varlink_call_unref(question->call);
    survey_free(question->survey);
    free(question);
}

static json_object *languages_object(const struct config *config)
{
    json_object *object = json_object_new_object();

    for (size_t i = 0; object && i < config->n_languages; i++)
        (void)json_add_string(object, config->languages[i].name, config->languages[i].interpreter);
    return object;
}

static json_object *network_object(const struct config_network *network)
{
    _cleanup_json_ json_object *object = json_object_new_object();

    if (!object ||
        json_add(object, "allowedNames", egress_names_array(&network->allowed_names)) < 0 ||
        json_add(object, "deniedNames", egress_names_array(&network->denied_names)) < 0 ||
        json_add(object, "allowedPorts", egress_ports_array(&network->ports)) < 0 ||
        json_add(object, "allowedAddresses", egress_addresses_array(&network->allowed_addresses)) <
            0 ||
        json_add(object, "deniedAddresses", egress_addresses_array(&network->denied_addresses)) <
            0 ||
        json_add_uint64(object, "connectionsMax", network->connections) < 0 ||
        json_add_uint64(object, "bytesMax", network->bytes) < 0 ||
        json_add_uint64(object, "idleUSec", network->idle_usec) < 0)
        return NULL;
    return TAKE_PTR(object);
}

/* NULL-terminated lists. */
static json_object *names_array(char *const *names)
{
    size_t n = 0;

    while (names[n])
        n++;
    return result_strings(names, n);
}

static json_object *packages_object(const struct config_packages *packages)
{
    _cleanup_json_ json_object *object = json_object_new_object();

    if (!object || json_add_string(object, "index", packages->index.text) < 0 ||
        json_add_string(object, "nodeIndex", packages->node_index.text) < 0 ||
        json_add(object, "allowed", names_array(packages->allowed)) < 0 ||
        json_add(object, "denied", names_array(packages->denied)) < 0 ||
        json_add_bool(object, "onlyBinary", packages->only_binary) < 0 ||
        json_add_uint64(object, "timeoutUSec", packages->timeout_usec) < 0 ||
        json_add_uint64(object, "layerBytesMax", packages->layer_bytes) < 0 ||
        json_add_uint64(object, "layerFilesMax", packages->layer_files) < 0 ||
        json_add_uint64(object, "userBytesMax", packages->user_bytes) < 0 ||
        json_add_uint64(object, "maxAgeUSec", packages->max_age_usec) < 0)
        return NULL;
    return TAKE_PTR(object);
}

/* Not twice, which lists of a few dozen bear. */
static int add_image(json_object *array, const char *image)
{
    if (!image)
        return 0;
    for (size_t i = 0; i < json_object_array_length(array); i++)
        if (strcmp(json_object_get_string(json_object_array_get_idx(array, i)), image) == 0)
            return 0;
    return json_append(array, json_object_new_string(image));
}

/* Those that anybody may run in, as they are written in the configuration. */
static json_object *images_array(const struct config *config)
{
    _cleanup_json_ json_object *array = json_object_new_array();
    int r = array ? add_image(array, config->image) : -ENOMEM;

    for (size_t i = 0; r >= 0 && i < config->n_languages; i++)
        r = add_image(array, config->languages[i].image);
    for (char *const *image = config->images; r >= 0 && *image; image++)
        r = add_image(array, *image);
    return r < 0 ? NULL : TAKE_PTR(array);
}

/* Limits that are not set are left out. */
static json_object *queue_object(const struct queue *queue)
{
    const struct queue_limits *limits = &queue->limits;
    _cleanup_json_ json_object *object = json_object_new_object();

    if (!object || json_add_uint64(object, "runsMax", limits->runs) < 0 ||
        json_add_uint64(object, "runsPerUserMax", limits->runs_per_user) < 0 ||
        json_add_uint64(object, "queuedMax", limits->queued) < 0 ||
        json_add_uint64(object, "queuedPerUserMax", limits->queued_per_user) < 0 ||
        json_add_uint64(object, "memoryBytesMax", limits->memory_bytes) < 0 ||
        (limits->memory_per_user_bytes > 0 &&
         json_add_uint64(object, "memoryPerUserBytesMax", limits->memory_per_user_bytes) < 0) ||
        (limits->cpu_percent > 0 &&
         json_add_uint64(object, "cpuPercentMax", limits->cpu_percent) < 0) ||
        json_add_uint64(object, "inputPerUserBytesMax", limits->held_per_user_bytes) < 0 ||
        json_add_uint64(object, "running", queue->n_running) < 0 ||
        json_add_uint64(object, "queued", queue->n_waiting) < 0 ||
        json_add_uint64(object, "memoryBytes", queue->memory_bytes) < 0)
        return NULL;
    return TAKE_PTR(object);
}

/* Of the caller, with what it has. Limits that are not set are left out. */
static json_object *results_object(const struct manager *manager, uid_t uid)
{
    const struct retention_rules *rules = &manager->config.results;
    const struct retention_use use = index_use(manager->index, uid);
    _cleanup_json_ json_object *object = json_object_new_object();

    if (!object ||
        (rules->max_age_usec > 0 &&
         json_add_uint64(object, "maxAgeUSec", rules->max_age_usec) < 0) ||
        json_add_uint64(object, "runsMax", rules->max_runs) < 0 ||
        json_add_uint64(object, "bytesMax", rules->max_bytes) < 0 ||
        json_add_uint64(object, "filesMax", rules->max_files) < 0 ||
        json_add_bool(object, "removesOldest", rules->remove_oldest) < 0 ||
        json_add_uint64(object, "runs", use.runs) < 0 ||
        json_add_uint64(object, "bytes", use.bytes) < 0 ||
        json_add_uint64(object, "files", use.files) < 0)
        return NULL;
    return TAKE_PTR(object);
}

static json_object *policy_object(const struct manager *manager, uid_t uid, json_object *approvals)
{
    const struct config *config = &manager->config;
    _cleanup_json_ json_object *reply = json_object_new_object();

    if (!reply || json_add(reply, "defaults", result_policy(config, &config->defaults, NULL)) < 0 ||
        json_add(reply, "ceiling", result_policy(config, &config->ceiling, NULL)) < 0 ||
        json_add(reply, "approvals", json_object_get(approvals)) < 0 ||
        json_add_uint64(reply, "runsMax", config->queue.runs_per_user) < 0 ||
        json_add_uint64(reply, "queuedMax", config->queue.queued_per_user) < 0 ||
        json_add_uint64(reply, "scriptBytesMax", config->script_bytes) < 0 ||
        json_add_uint64(reply, "inputBytesMax", config->input_bytes) < 0 ||
        json_add_uint64(reply, "inputsMax", config->inputs) < 0 ||
        json_add(reply, "languages", languages_object(config)) < 0 ||
        json_add(reply, "results", results_object(manager, uid)) < 0 ||
        json_add(reply, "queue", queue_object(&manager->queue)) < 0 ||
        json_add(reply, "images", images_array(config)) < 0 ||
        json_add(reply, "network", network_object(&config->network)) < 0 ||
        json_add(reply, "packages", packages_object(&config->packages)) < 0 ||
        json_add_string(reply, "engine", config->engine) < 0)
        return NULL;
    return TAKE_PTR(reply);
}

/* Takes over @approvals. */
static void answer(struct manager *manager, struct varlink_call *call, json_object *approvals)
{
    json_object *reply = policy_object(manager, varlink_call_peer(call)->uid, approvals);

    json_object_put(approvals);
    if (reply)
        (void)varlink_reply(call, reply);
    else
        result_answer_failed(call, "The policy could not be put together.");
}

static void on_surveyed(json_object *answers, void *userdata)
{
    struct policy_question *question = userdata;

    answer(question->manager, question->call, answers);
    question_free(question);
}

static void on_gone(struct varlink_call *call, void *userdata)
{
    question_free(userdata);
}

static int ask_polkit(struct manager *manager, struct varlink_call *call)
{
    struct policy_question *question = calloc(1, sizeof(*question));
    int r;

    if (!question)
        return -ENOMEM;
    question->manager = manager;
    question->call = varlink_call_ref(call);
    varlink_call_on_gone(call, on_gone, question);
    r = survey_begin(manager, varlink_call_peer(call), NULL, NULL, on_surveyed, question,
                     &question->survey);
    if (r < 0)
        question_free(question);
    return r;
}

int policy_reply(struct manager *manager, struct varlink_call *call)
{
    static const struct json_field fields[] = {
        { "approvals", JSON_FIELD_BOOL, 0 },
    };
    bool with_approvals = true;
    const char *bad;

    if (json_dispatch(varlink_call_parameters(call), fields, ELEMENTS(fields), false,
                      &with_approvals, &bad) < 0)
        return varlink_error_invalid_parameter(call, bad);
    if (with_approvals)
        return ask_polkit(manager, call);
    answer(manager, call, json_object_new_object());
    return 0;
}
