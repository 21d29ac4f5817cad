/* The connection to sbxctl-helper, and its errors in words. Called by every verb. Must never send a
 * byte to a listener that is neither root's nor the helper's. */
#pragma once

#include <stdbool.h>

#include "common/varlink.h"

/* Where the helper listens. SBXCTL_SOCKET in the environment names another path, for tests: what
 * listens there must be root's, the helper's or the caller's own. */
#define HELPER_SOCKET "/run/sbxctl/io.sbxctl.Sandbox"
#define HELPER_USER "sbxctl"

static inline void varlink_client_freep(struct varlink_client **client)
{
    *client = varlink_client_free(*client);
}
#define _cleanup_client_ _cleanup_(varlink_client_freep)
#define _cleanup_answer_ _cleanup_(varlink_answer_release)

/* All of these return 0, or the exit status of a failure that has been told (say.h). */

int helper_connect(struct varlink_client **ret);

/* Calls @method (without the interface) and waits for its one answer; errors are told. @parameters
 * is consumed and may be NULL; @ret is to be released. */
int helper_call(struct varlink_client *client, const char *method, json_object *parameters,
                struct varlink_answer *ret);

/* The same of the method GetPolicy; without @approvals polkit is not asked, which takes most of the
 * time. */
int helper_get_policy(struct varlink_client *client, bool approvals, struct varlink_answer *ret);

/* Sends a call and leaves the receiving to the caller. */
int helper_send(struct varlink_client *client, const char *method, json_object *parameters,
                enum varlink_call_flags flags, const int *fds, size_t n_fds);

/* Tells the error in @answer. Returns the exit status for it, never 0. */
int helper_fail(const struct varlink_answer *answer);
/* What to do about a helper that went away. */
#define HELPER_GONE_HINT "'sbxctl doctor' tells why, or as root: journalctl -u sbxctl-helper"
/* Tells that the connection failed with the negative errno @r, before or after an answer came. */
int helper_fail_connection(int r, bool answered);
