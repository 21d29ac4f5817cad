/* Which image a run gets, and whether it is on the administrator's list. Called by policy.c, and
 * for pulling. Pure, as policy.h is. */
#pragma once

#include "broker/policy.h"

/* Decides for @wanted, which may be NULL, by the plan's engine and language (which may be NULL,
 * too): leaves .image, and APPROVAL_IMAGE for one that is not on the list. An entry with a digest
 * pins what is asked for without one. Returns 0, or -EPERM with a refusal. */
int policy_image(const struct config *config, const char *wanted, struct plan *plan,
                 struct refusal *refusal);

/* Whether the engine runs images. */
bool policy_engine_has_images(const struct config *config, const char *engine);
