/* Images by the configuration, see policy-image.h. */
#include "broker/policy-image.h"
#include "broker/config-words.h"

#include <stdio.h>
#include <string.h>

#include "common/image-reference.h"

bool policy_engine_has_images(const struct config *config, const char *engine)
{
    return words_have(config->image_engines, engine, strlen(engine));
}

/* The entry of the list that allows @wanted, or NULL. What is a default is allowed. */
static const char *find_allowed(const struct config *config, const char *wanted)
{
    for (char *const *image = config->images; *image; image++)
        if (image_reference_matches(*image, wanted))
            return *image;
    if (config->image && image_reference_matches(config->image, wanted))
        return config->image;
    for (size_t i = 0; i < config->n_languages; i++) {
        const char *image = config->languages[i].image;
        if (image && image_reference_matches(image, wanted))
            return image;
    }
    return NULL;
}

static const char *default_image(const struct config *config, const struct plan *plan)
{
    return plan->language && plan->language->image ? plan->language->image : config->image;
}

static int reject_images(const struct config *config, const struct plan *plan,
                         struct refusal *refusal)
{
    char hint[128] = "Leave out --image.";

    if (plan->cloud)
        return refusal_reject(refusal, "image", "Choose a template of the cloud with --template.",
                              "The engine '%s' runs no images of this machine.", plan->engine);
    if (config->image_engines[0])
        snprintf(hint, sizeof(hint), "Leave out --image, or use --engine %.64s.",
                 config->image_engines[0]);
    return refusal_reject(refusal, "image", hint,
                          "The engine '%s' runs no images, but this machine's own programs.",
                          plan->engine);
}

int policy_image(const struct config *config, const char *wanted, struct plan *plan,
                 struct refusal *refusal)
{
    if (!policy_engine_has_images(config, plan->engine))
        return wanted ? reject_images(config, plan, refusal) : 0;
    if (!wanted)
        wanted = default_image(config, plan);
    if (!wanted)
        return refusal_reject(
            refusal, "image",
            "Choose one with --image, or ask the administrator to set Image= in the "
            "section of the language.",
            "There is no image for this language.");
    if (!image_reference_is_valid(wanted))
        return refusal_reject(refusal, "image", "Write it as NAME:TAG or NAME@sha256:DIGEST.",
                              "That is not the name of an image.");
    plan->image = find_allowed(config, wanted);
    if (plan->image)
        return 0;
    plan->image = wanted;
    plan->approvals |= APPROVAL_IMAGE;
    return 0;
}
