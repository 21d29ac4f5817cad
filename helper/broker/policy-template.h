/* Which template of a cloud a run may use: decided by the configuration's list. */
#pragma once

#include "broker/policy.h"

/* Takes @wanted (may be NULL: the engine's own default) into @plan, as its image. What is not on
 * the list needs an approval. As policy_apply(). */
int policy_template(const struct config *config, const char *wanted, struct plan *plan,
                    struct refusal *refusal);
