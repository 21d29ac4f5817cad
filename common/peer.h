/* Who is on the other end of a unix socket, by the kernel's word alone. Taken once, right after
 * accept(), by the varlink server and by every engine; nothing later and nothing a peer says
 * changes it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/cleanup.h"

struct peer {
    uid_t uid;
    gid_t gid;
    pid_t pid; /* in our PID namespace, never 0 */
    int pidfd; /* -1 where the kernel lacks SO_PEERPIDFD (before 6.5) */
    /* Field 22 of /proc/PID/stat in clock ticks; 0: could not be read for sure. */
    uint64_t start_time;
    gid_t *groups; /* supplementary groups at connect time */
    size_t n_groups;
};

/* Whether the kernel can tie a socket to its peer's process at all (SO_PEERPIDFD). */
bool peer_pidfd_supported(void);

/* Reads the identity of the socket's peer into @ret. Returns 0 or a negative errno, and then the
 * connection must be refused: -ESRCH (peer not visible here), or whatever getsockopt() said. A peer
 * that is gone already is no error: its start_time is 0. */
int peer_acquire(int sock, struct peer *ret);
/* The process has ended. Where the kernel has no pidfd of it, nobody knows, and this is false. */
bool peer_has_ended(const struct peer *peer);
/* Releases all of it; what is left is PEER_NULL. */
void peer_release(struct peer *peer);
#define PEER_NULL                                       \
    {                                                   \
        .uid = (uid_t)-1, .gid = (gid_t)-1, .pidfd = -1 \
    }
