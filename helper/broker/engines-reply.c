/* What this machine's engines are, see engines-reply.h. They are asked all at once, since each may
 * take its time to say that it cannot. */
#include "broker/engines-reply.h"
#include "broker/config-words.h"
#include "broker/engines.h"
#include "broker/policy-image.h"
#include "broker/prepare.h"
#include "common/cleanup.h"

#include <stdio.h>
#include <string.h>

/* Longer than the Docker engine waits for its daemon. */
#define SILENCE_USEC (15 * 1000 * 1000ULL)
#define ENGINES_MAX 32
/* Of the languages, and the one of those that have none. */
#define IMAGES_MAX (CONFIG_LANGUAGES_MAX + 1)

struct question {
    struct asker *asker;
    const char *name;  /* in the asker's list */
    const char *image; /* of the configuration; NULL: about the engine */
    struct prepare *prepare;
};

struct asker {
    struct manager *manager;
    struct varlink_call *call;
    json_object *names, *details;
    struct question questions[ENGINES_MAX + IMAGES_MAX];
    size_t n, n_answered;
};

static void asker_free(struct asker *asker)
{
    varlink_call_on_gone(asker->call, NULL, NULL);
    varlink_call_unref(asker->call);
    for (size_t i = 0; i < asker->n; i++)
        prepare_free(asker->questions[i].prepare);
    json_object_put(asker->names);
    json_object_put(asker->details);
    free(asker);
}

static void on_gone(struct varlink_call *call, void *userdata)
{
    asker_free(userdata);
}

static int answer(struct varlink_call *call, struct manager *manager, json_object *names,
                  json_object *details)
{
    _cleanup_json_ json_object *reply = json_object_new_object();

    if (!reply || json_add(reply, "engines", json_object_get(names)) < 0 ||
        json_add_string(reply, "default", manager->config.engine) < 0 ||
        json_add(reply, "details", json_object_get(details)) < 0)
        return -ENOMEM;
    return varlink_reply(call, TAKE_PTR(reply));
}

static json_object *describe(const struct config *config, json_object *names)
{
    json_object *details = json_object_new_object();

    for (size_t i = 0; details && i < json_object_array_length(names); i++) {
        const char *name = json_object_get_string(json_object_array_get_idx(names, i));
        json_object *engine = json_object_new_object();

        (void)json_add_bool(engine, "images", policy_engine_has_images(config, name));
        (void)json_add_bool(engine, "cloud", words_have(config->cloud_engines, name, strlen(name)));
        (void)json_add(details, name, engine);
    }
    return details;
}

/* A cloud that the configuration knows is one that somebody may look for. */
static void describe_missing(const struct config *config, json_object *details)
{
    for (char *const *name = config->cloud_engines; *name; name++) {
        _cleanup_free_ char *reason = NULL;

        if (json_object_object_get(details, *name))
            continue;
        json_object *engine = json_object_new_object();
        (void)json_add_bool(engine, "images", false);
        (void)json_add_bool(engine, "cloud", true);
        (void)json_add_bool(engine, "usable", false);
        if (asprintf(&reason,
                     "It is not installed, or not enabled: systemctl enable --now "
                     "sbxctl-engine-%s.socket",
                     *name) < 0)
            reason = NULL;
        (void)json_add_string(engine, "reason", reason);
        (void)json_add(details, *name, engine);
    }
}

/* ---- Asking ---- */

static void note(struct question *question, bool usable, const char *reason)
{
    json_object *engine = json_object_object_get(question->asker->details, question->name);

    (void)json_add_bool(engine, "usable", usable);
    (void)json_add_string(engine, "reason", reason);
    question->asker->n_answered++;
}

static void note_running(struct question *question, const struct engine_progress *progress)
{
    json_object *engine = json_object_object_get(question->asker->details, question->name);

    if (strcmp(progress->phase, ENGINE_PHASE_RUNNING) != 0)
        return;
    (void)json_add_uint64(engine, "running", progress->current);
    (void)json_add_uint64(engine, "runningMax", progress->total);
}

static void finish_if_complete(struct asker *asker)
{
    if (asker->n_answered < asker->n)
        return;
    (void)answer(asker->call, asker->manager, asker->names, asker->details);
    asker_free(asker);
}

static void note_image(struct question *question, const struct prepare_event *event)
{
    json_object *engine = json_object_object_get(question->asker->details, question->name);

    if (event->type == PREPARE_PROGRESS)
        return;
    if (event->type == PREPARE_REFUSED && strcmp(event->refused->phase, ENGINE_PHASE_MISSING) == 0)
        (void)json_append(json_object_object_get(engine, "missingImages"),
                          json_object_new_string(question->image));
    question->asker->n_answered++;
    finish_if_complete(question->asker);
}

static void ask_for_images(struct question *about);

static void on_prepare(const struct prepare_event *event, void *userdata)
{
    struct question *question = userdata;

    if (question->image) {
        note_image(question, event);
        return;
    }
    switch (event->type) {
    case PREPARE_PROGRESS:
        note_running(question, event->progress);
        return;
    case PREPARE_DONE:
        note(question, true, NULL);
        ask_for_images(question);
        break;
    case PREPARE_REFUSED:
        note(question, false, event->refused->message);
        break;
    case PREPARE_SILENT:
    default:
        note(question, false,
             event->error == -ETIMEDOUT ? "It does not answer." : "It hung up on the question.");
        break;
    }
    finish_if_complete(question->asker);
}

static bool is_asked_for(const struct asker *asker, const char *image)
{
    for (size_t i = 0; i < asker->n; i++)
        if (asker->questions[i].image && strcmp(asker->questions[i].image, image) == 0)
            return true;
    return false;
}

/* One that cannot be asked about is none that is known to be missing. */
static void ask_for_image(struct question *about, const char *image)
{
    struct asker *asker = about->asker;

    if (!image || asker->n == ELEMENTS(asker->questions) || is_asked_for(asker, image))
        return;
    struct question *question = &asker->questions[asker->n];
    *question = (struct question){ .asker = asker, .name = about->name, .image = image };
    if (prepare_look(asker->manager->event, about->name, image, SILENCE_USEC, on_prepare, question,
                     &question->prepare) >= 0)
        asker->n++;
}

/* Of the default engine alone: the images of languages are those that it runs. */
static void ask_for_images(struct question *about)
{
    const struct config *config = &about->asker->manager->config;
    json_object *engine = json_object_object_get(about->asker->details, about->name);

    if (strcmp(about->name, config->engine) != 0 || !policy_engine_has_images(config, about->name))
        return;
    (void)json_add(engine, "missingImages", json_object_new_array());
    ask_for_image(about, config->image);
    for (size_t i = 0; i < config->n_languages; i++)
        ask_for_image(about, config->languages[i].image);
}

static int ask_all(struct manager *manager, struct varlink_call *call, json_object *names,
                   json_object *details)
{
    struct asker *asker = calloc(1, sizeof(*asker));

    if (!asker)
        return -ENOMEM;
    *asker = (struct asker){
        .manager = manager,
        .call = varlink_call_ref(call),
        .names = json_object_get(names),
        .details = json_object_get(details),
    };
    varlink_call_on_gone(call, on_gone, asker);
    asker->n = json_object_array_length(names);
    asker->n = asker->n < ENGINES_MAX ? asker->n : ENGINES_MAX;
    for (size_t i = 0; i < asker->n; i++) {
        struct question *question = &asker->questions[i];

        question->asker = asker;
        question->name = json_object_get_string(json_object_array_get_idx(names, i));
        if (prepare_begin(manager->event, question->name, "", false, SILENCE_USEC, on_prepare,
                          question, &question->prepare) < 0)
            note(question, false, "Its socket is not active.");
    }
    finish_if_complete(asker);
    return 0;
}

int engines_reply(struct manager *manager, struct varlink_call *call)
{
    static const struct json_field fields[] = { { "probe", JSON_FIELD_BOOL, 0 } };
    _cleanup_json_ json_object *names = engines_available(), *details = NULL;
    const char *bad;
    bool probe = false;

    if (json_dispatch(varlink_call_parameters(call), fields, ELEMENTS(fields), false, &probe,
                      &bad) < 0)
        return varlink_error_invalid_parameter(call, bad);
    details = names ? describe(&manager->config, names) : NULL;
    if (!details)
        return -ENOMEM;
    if (probe)
        describe_missing(&manager->config, details);
    return probe ? ask_all(manager, call, names, details) : answer(call, manager, names, details);
}
