/* Whether a request may have the packages that it asks for, and how they are told. Called by
 * policy.c, and by those who show or record a plan. Pure, as policy.h is. */
#pragma once

#include "broker/policy.h"

/* Reads the request's packages, admits them by section [Packages], and leaves .packages and
 * APPROVAL_PACKAGES. Engine and language of the plan are decided already. Returns 0, -EPERM with a
 * refusal, or -ENOMEM; what was read so far is the plan's. */
int policy_packages(const struct config *config, const struct request *request, struct plan *plan,
                    struct refusal *refusal);

/* Whether a run on such an engine and in such a language may have any packages; then @ret is where
 * they come from. */
bool policy_packages_possible(const struct config *config, const struct plan *plan,
                              enum ecosystem *ret);

/* Their names, without versions, with a space between two; "none" if there are none. For dialogs
 * and rules, so there is no character in it that means something else to them. */
#define POLICY_PACKAGES_TEXT 512
const char *policy_packages_names(const struct plan *plan, char buffer[POLICY_PACKAGES_TEXT]);
/* An array of what was asked for, as normalised, without hashes. A new reference, or NULL out of
 * memory. */
json_object *policy_packages_array(const struct plan *plan);
