/* The authorization table: what each method of the interface needs. Default deny: a method without
 * a row is refused. */
#pragma once

#include "broker/policy.h"
#include "broker/polkit.h"

enum authorize_rule {
    AUTHORIZE_REFUSE,   /* no row */
    AUTHORIZE_ANYBODY,  /* tells nothing about runs */
    AUTHORIZE_OWN_RUNS, /* touches the caller's own runs only, checked by the index */
    AUTHORIZE_BY_RISK,  /* polkit, by the approvals that the plan needs */
};

/* @method without the interface. */
enum authorize_rule authorize_method(const char *method);

/* What a run asks for that needs @approval, for people: "memory of 1 GiB, above the default of 512
 * MiB". */
void authorize_describe(enum approval approval, const struct limits *limits,
                        const struct limits *defaults, char *buffer, size_t size);

/* Asks polkit for one approval, with what the run asks for as details: network, memory (bytes),
 * cpus (percent of one), timeout (seconds), engine, script (its name, escaped) and sha256.
 * Administrators write rules on them. As polkit_ask(). */
int authorize_ask(struct polkit *polkit, const struct peer *peer, enum approval approval,
                  const struct request *request, const struct plan *plan, polkit_fn done,
                  void *userdata, struct polkit_check **ret);

/* The polkit action of one approval. */
const char *authorize_action(enum approval approval);
