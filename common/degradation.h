/* What this machine lacks, told to its administrator: one record in the journal per lack and start
 * of a service, with a catalog entry (systemd/sbxctl.catalog). Called by the broker and the engines
 * when they start, never for a run. Programs run all the same; a lack that endangers others is a
 * refusal and is none of these. */
#pragma once

#define DEGRADATION_SOCKET "/run/systemd/journal/socket"
#define DEGRADATION_MESSAGE_ID "d2c41a30c0b8416b995687272d11ed71"

enum degradation {
    DEGRADATION_PEER_PIDFD,   /* Linux before 6.5 */
    DEGRADATION_PRIVATE_PIDS, /* systemd before 257 */
    DEGRADATION_SWAP_LIMIT,   /* control groups version 1 */
};

/* Writes the record for journald at @socket_path (DEGRADATION_SOCKET), without blocking; on stderr
 * if it is not taken there. Its field SBXCTL_DEGRADATION holds a word like "private-pids". */
void degradation_tell(const char *socket_path, enum degradation degradation);
