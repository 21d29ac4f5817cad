/* What polkit says now to each approval, asked without interaction: for a dry run, and for what the
 * caller could ask for. */
#pragma once

#include "broker/authorize.h"
#include "broker/manager.h"

struct survey;

/* @answers: an object, action to "yes" (at once), "challenge" (with the caller's password),
 * "administrator" (with an administrator's) or "no". Taken over; NULL if memory is short. Called
 * once from the event loop, or before survey_begin() returns. */
typedef void (*survey_fn)(json_object *answers, void *userdata);

/* About @request and @plan, which must outlive it; both NULL: about anything up to the ceiling.
 * Returns 0 or -ENOMEM. */
int survey_begin(struct manager *manager, const struct peer *peer, const struct request *request,
                 const struct plan *plan, survey_fn done, void *userdata, struct survey **ret);
struct survey *survey_free(struct survey *survey);
