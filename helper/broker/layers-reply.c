/* The caller's layers, see layers-reply.h. */
#include "broker/layers-reply.h"
#include "broker/layers.h"
#include "broker/result.h"

#include <stdio.h>
#include <string.h>

/* A call that waits for the store. */
struct question {
    struct manager *manager;
    struct varlink_call *call;
    struct store_job *job;
    char key[LAYER_KEY_LENGTH + 1];
};

static void question_free(struct question *question)
{
    varlink_call_on_gone(question->call, NULL, NULL);
    varlink_call_unref(question->call);
    store_job_free(question->job);
    free(question);
}

static struct question *question_new(struct manager *manager, struct varlink_call *call)
{
    struct question *question = calloc(1, sizeof(*question));

    if (question) {
        question->manager = manager;
        question->call = varlink_call_ref(call);
    }
    return question;
}

/* ---- ListLayers */

static json_object *layer_object(const struct question *question, json_object *facts)
{
    static const char *const members[] = { "key",         "language",  "engine",      "image",
                                           "imageDigest", "requested", "createdUSec", "usedUSec",
                                           "bytes",       "files" };
    _cleanup_json_ json_object *object = json_object_new_object();
    const char *key = json_get_string(facts, "key");

    for (size_t i = 0; i < ELEMENTS(members); i++) {
        json_object *value = json_object_object_get(facts, members[i]);
        if (value && json_add(object, members[i], json_object_get(value)) < 0)
            return NULL;
    }
    if (!key || json_add_bool(object, "inUse",
                              layers_in_use(question->manager->layers,
                                            varlink_call_peer(question->call)->uid, key)) < 0)
        return NULL;
    return TAKE_PTR(object);
}

static json_object *list_object(const struct question *question, json_object *result)
{
    _cleanup_json_ json_object *reply = json_object_new_object();
    json_object *list = json_object_object_get(result, "layers"), *array = json_object_new_array();

    if (json_add(reply, "layers", array) < 0)
        return NULL;
    for (size_t i = 0; list && i < json_object_array_length(list); i++) {
        json_object *object = layer_object(question, json_object_array_get_idx(list, i));
        if (object && json_object_array_add(array, object) < 0)
            json_object_put(object);
    }
    return TAKE_PTR(reply);
}

static void on_listed(int error, json_object *result, int fd, void *userdata)
{
    struct question *question = userdata;
    json_object *reply = error < 0 ? NULL : list_object(question, result);

    close_fd(fd);
    if (reply)
        (void)varlink_reply(question->call, reply);
    else
        result_answer_failed(question->call, error < 0 ? strerrordesc_np(-error)
                                                       : "The layers could not be listed.");
    question_free(question);
}

static void on_gone(struct varlink_call *call, void *userdata)
{
    question_free(userdata);
}

int layers_reply_list(struct manager *manager, struct varlink_call *call)
{
    struct question *question;
    const char *bad;

    if (json_dispatch(varlink_call_parameters(call), NULL, 0, false, NULL, &bad) < 0)
        return varlink_error_invalid_parameter(call, bad);
    question = question_new(manager, call);
    if (!question)
        return -ENOMEM;
    int r = store_layer_list(manager->store, varlink_call_peer(call)->uid, on_listed, question,
                             &question->job);
    if (r < 0)
        question_free(question);
    else
        varlink_call_on_gone(call, on_gone, question);
    return r;
}

/* ---- RemoveLayer */

static int answer_key(struct varlink_call *call, const char *error, const char *key)
{
    json_object *fields = json_object_new_object();

    (void)json_add_string(fields, "key", key);
    return varlink_error(call, error, fields);
}

/* A removal goes on when its caller hangs up: half a layer helps nobody. */
static void on_removed(int error, void *userdata)
{
    struct question *question = userdata;

    if (error == -ENOENT)
        (void)answer_key(question->call, "io.sbxctl.Sandbox.NoSuchLayer", question->key);
    else if (error < 0)
        result_answer_failed(question->call, strerrordesc_np(-error));
    else
        (void)varlink_reply(question->call, NULL);
    question_free(question);
}

struct parameters {
    const char *key;
};

int layers_reply_remove(struct manager *manager, struct varlink_call *call)
{
    static const struct json_field fields[] = {
        { "key", JSON_FIELD_STRING, offsetof(struct parameters, key), true, 0, 128 },
    };
    struct parameters parameters = { 0 };
    struct question *question;
    const char *bad;

    if (json_dispatch(varlink_call_parameters(call), fields, ELEMENTS(fields), false, &parameters,
                      &bad) < 0)
        return varlink_error_invalid_parameter(call, bad);
    if (!layer_key_valid(parameters.key))
        return answer_key(call, "io.sbxctl.Sandbox.NoSuchLayer", parameters.key);
    question = question_new(manager, call);
    if (!question)
        return -ENOMEM;
    snprintf(question->key, sizeof(question->key), "%s", parameters.key);
    int r = layers_remove(manager->layers, varlink_call_peer(call)->uid, question->key, on_removed,
                          question);
    if (r >= 0)
        return 0;
    question_free(question);
    if (r == -EAGAIN) {
        result_answer_failed(call, "Too many of your packages are being removed at once");
        return 0;
    }
    return r == -EBUSY ? answer_key(call, "io.sbxctl.Sandbox.LayerInUse", parameters.key) : r;
}
