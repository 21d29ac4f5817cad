/* How long the sandboxes of each user lived in a cloud today, in a file of the broker's own: what
 * costs money is not forgotten when the helper restarts or a run is removed. A day is one of UTC.
 * Called by run-cloud.c; knows nothing of runs. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

struct cloud_budget;

/* Reads @path, if it is there. A file that cannot be read leaves nobody anything: that is said to
 * the log, and the administrator can remove it. Returns 0 or a negative errno. */
int cloud_budget_open(const char *path, uint64_t limit_usec, struct cloud_budget **ret);
struct cloud_budget *cloud_budget_free(struct cloud_budget *budget);

/* What is left for @uid; @now_usec is the time since the epoch, here and in the next. */
uint64_t cloud_budget_left(struct cloud_budget *budget, uid_t uid, uint64_t now_usec);
/* Takes @usec, which are on the disk then. Returns 0 with a number of the day they were taken of,
 * -EDQUOT if there are not so many, or another negative errno. */
int cloud_budget_take(struct cloud_budget *budget, uid_t uid, uint64_t usec, uint64_t now_usec,
                      uint64_t *ret_day);
/* The same for who took of @day, and only of that: -ESTALE if it is over. */
int cloud_budget_take_more(struct cloud_budget *budget, uid_t uid, uint64_t day, uint64_t usec,
                           uint64_t now_usec);
/* Of what was taken on @day only @used_usec were needed, or more. */
void cloud_budget_settle(struct cloud_budget *budget, uid_t uid, uint64_t day, uint64_t taken_usec,
                         uint64_t used_usec);
