/* Whether a request may name the hosts that it does, and how they are told. Called by policy.c, and
 * by those who show or record a plan. Pure, as policy.h is. */
#pragma once

#include "broker/policy.h"

/* Admits the request's hosts by section [Network], and leaves .hosts and .egress. Returns 0, or
 * -EPERM with a refusal. The limits and approvals of the plan are decided already. */
int policy_network(const struct config *config, const struct request *request, struct plan *plan,
                   struct refusal *refusal);

/* "any", the names with a space between two, or "none" without a network. */
#define POLICY_HOSTS_TEXT (REQUEST_HOSTS_TEXT_MAX + 1)
const char *policy_hosts_text(const struct plan *plan, char buffer[POLICY_HOSTS_TEXT]);
