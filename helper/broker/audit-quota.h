/* How many requests that come to nothing each user has recorded one by one: the journal is of a
 * fixed size, and a user who is refused often enough would push everything else out of it. What is
 * beyond is counted, and told in one record per user and interval. Used by the methods and by
 * run-audit.c; must never keep back the record of a run that starts. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <systemd/sd-event.h>

#include "broker/audit.h"

struct audit_quota;

/* @limit requests for each user in @interval_usec. @audit must outlive it. Returns 0 or a negative
 * errno. */
int audit_quota_new(sd_event *event, struct audit *audit, uint64_t limit, uint64_t interval_usec,
                    struct audit_quota **ret);
/* Tells what was held back so far. */
struct audit_quota *audit_quota_free(struct audit_quota *quota);

/* Whether a request of @uid is to be recorded; if not, it is counted. */
bool audit_quota_take(struct audit_quota *quota, uid_t uid);
/* A request that was taken has come to something: it is none of those that are limited. With
 * @held_back, audit_quota_take() had said no. */
void audit_quota_give_back(struct audit_quota *quota, uid_t uid, bool held_back);
