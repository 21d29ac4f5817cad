/* Keeps results as long as the rules of [Results] say: counts what each user has, and removes what
 * has to go in the background, one run after the other, each with an audit record. Never a run that
 * has not ended. */
#pragma once

#include "broker/retention.h"
#include "broker/manager.h"

struct keeper;

int keeper_new(struct manager *manager, struct keeper **ret);
struct keeper *keeper_free(struct keeper *keeper);
/* Looks through all results soon: a run ended, or may have. */
void keeper_look(struct keeper *keeper);
/* Whether something is being removed. */
bool keeper_is_busy(const struct keeper *keeper);

/* The finished runs of a user, oldest first, to be freed; their ids are borrowed from the index
 * until it changes. Returns 0 or -ENOMEM. */
int keeper_list(const struct manager *manager, uid_t uid, struct retained **ret, size_t *ret_n);
/* Sets when the run of @result goes for its age, if it has ended. */
int keeper_add_expiry(const struct manager *manager, json_object *result);
