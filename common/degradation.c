/* What this machine lacks, see degradation.h. The native protocol of journald, one datagram
 * (https://systemd.io/JOURNAL_NATIVE_PROTOCOL/): sd_journal_send() would wait for a journald that
 * stands still, and say nothing of one that is absent. */
#include "degradation.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <systemd/sd-daemon.h>

#include "common/cleanup.h"

static const struct {
    const char *name, *message;
} texts[] = {
    [DEGRADATION_PEER_PIDFD] = {
        "peer-pidfd",
        "This kernel (before Linux 6.5) ties no socket to its process: callers are known by process "
        "id and start time, and the audit trail names neither their session nor their unit.",
    },
    [DEGRADATION_PRIVATE_PIDS] = {
        "private-pids",
        "This systemd (before 257) has no PrivatePIDs=: a program in a sandbox can stop or kill "
        "its own launcher, which ends its run.",
    },
    [DEGRADATION_SWAP_LIMIT] = {
        "swap-limit",
        "Control groups are of version 1: what a program's memory limit does not hold may go to "
        "swap, if the machine has any.",
    },
};

static int send_record(const char *socket_path, const char *record, size_t size)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    _cleanup_close_ int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return -errno;
    if (strlen(socket_path) >= sizeof(address.sun_path))
        return -ENAMETOOLONG;
    strcpy(address.sun_path, socket_path);
    return sendto(fd, record, size, MSG_DONTWAIT | MSG_NOSIGNAL, (struct sockaddr *)&address,
                  sizeof(address)) < 0
               ? -errno
               : 0;
}

void degradation_tell(const char *socket_path, enum degradation degradation)
{
    char record[1024];

    assert(degradation < ELEMENTS(texts));
    int n = snprintf(record, sizeof(record),
                     "MESSAGE_ID=" DEGRADATION_MESSAGE_ID "\nPRIORITY=4\nSYSLOG_IDENTIFIER=%s\n"
                     "SBXCTL_DEGRADATION=%s\nMESSAGE=%s\n",
                     program_invocation_short_name, texts[degradation].name,
                     texts[degradation].message);
    assert(n > 0 && (size_t)n < sizeof(record));
    if (send_record(socket_path, record, (size_t)n) < 0)
        fprintf(stderr, SD_WARNING "%s\n", texts[degradation].message);
}
