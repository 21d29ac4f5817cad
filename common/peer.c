/* The identity of a unix socket's peer, see peer.h. Reads only what the kernel pinned at connect(),
 * plus the start time of the process, which it makes sure belongs to the same process. */
#include "peer.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

/* Linux 6.5, include/uapi/asm-generic/socket.h; Debian 12's headers are older. */
#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

/* Field 22 of proc_pid_stat(5). */
#define STAT_START_TIME 22

/* Leaves the pidfd of the peer in @ret, or -1 where the kernel has none to give, and in
 * @ret_unsupported whether that is because it lacks the option. Returns 0 or a negative errno.
 * Before 6.16 a peer that was reaped gives EINVAL or ESRCH. */
static int peer_pidfd(int sock, bool *ret_unsupported, int *ret)
{
    socklen_t length = sizeof(int);
    int pidfd = -1;

    *ret_unsupported = false;
    if (getsockopt(sock, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &length) >= 0) {
        if (length != sizeof(int) || pidfd < 0)
            return -EPROTO;
        *ret = pidfd;
        return 0;
    }
    *ret = -1;
    if (errno == ENOPROTOOPT) {
        *ret_unsupported = true;
        return 0;
    }
    return errno == EINVAL || errno == ESRCH || errno == ENODATA ? 0 : -errno;
}

bool peer_pidfd_supported(void)
{
    _cleanup_close_ int pidfd = -1;
    bool unsupported = false;
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return true;
    (void)peer_pidfd(pair[0], &unsupported, &pidfd);
    close_fd(pair[0]);
    close_fd(pair[1]);
    return !unsupported;
}

static int peer_groups(int sock, gid_t **ret, size_t *ret_n)
{
    socklen_t length = 16 * sizeof(gid_t);

    /* ERANGE tells the size in @length; the peer's groups were fixed at connect(), so the second
     * try fits. */
    for (int attempt = 0; attempt < 2; attempt++) {
        _cleanup_free_ gid_t *groups = malloc(length ? length : 1);

        if (!groups)
            return -ENOMEM;
        if (getsockopt(sock, SOL_SOCKET, SO_PEERGROUPS, groups, &length) >= 0) {
            *ret_n = length / sizeof(gid_t);
            *ret = TAKE_PTR(groups);
            return 0;
        }
        if (errno != ERANGE)
            return -errno;
    }
    return -ERANGE;
}

/* The process has not ended. (A signal 0 would say the same, but needs a permission to tell it
 * apart.) */
static bool pidfd_alive(int pidfd)
{
    struct pollfd p = { .fd = pidfd, .events = POLLIN };
    int r;

    do
        r = poll(&p, 1, 0);
    while (r < 0 && errno == EINTR);
    return r == 0;
}

/* Parses the start time out of the text of /proc/PID/stat; 0 if it is not there. The command's name
 * (field 2, in parentheses) is the process's own choice, so fields are counted from behind the last
 * parenthesis. */
static uint64_t parse_start_time(const char *stat)
{
    const char *p = strrchr(stat, ')');
    unsigned long long value;
    char *end;

    for (int field = 2; p && field < STAT_START_TIME; field++)
        p = strchr(p + 1, ' ');
    if (!p || p[1] < '0' || p[1] > '9')
        return 0;
    errno = 0;
    value = strtoull(p + 1, &end, 10);
    return errno == 0 && *end == ' ' ? value : 0;
}

/* Reads the start time of process @pid, whose /proc directory must belong to @owner unless that is
 * (uid_t)-1. */
static uint64_t read_start_time(pid_t pid, uid_t owner)
{
    _cleanup_close_ int directory = -1, fd = -1;
    char path[32], text[1024];
    struct stat st;
    ssize_t n;

    snprintf(path, sizeof(path), "/proc/%d", (int)pid);
    directory = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (directory < 0)
        return 0;
    if (owner != (uid_t)-1 && (fstat(directory, &st) < 0 || st.st_uid != owner))
        return 0;
    fd = openat(directory, "stat", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    do
        n = read(fd, text, sizeof(text) - 1);
    while (n < 0 && errno == EINTR);
    if (n <= 0)
        return 0;
    text[n] = '\0';
    return parse_start_time(text);
}

/* The start time if it is surely that of the peer, else 0: the pid is the peer's as long as its
 * pidfd says that it lives. */
static uint64_t peer_start_time(const struct peer *peer, bool unsupported)
{
    _cleanup_close_ int fallback = -1;
    uint64_t start_time;

    if (peer->pidfd >= 0) {
        start_time = read_start_time(peer->pid, (uid_t)-1);
        return pidfd_alive(peer->pidfd) ? start_time : 0;
    }
    if (!unsupported)
        return 0;
    /* Before Linux 6.5 nothing ties the socket to the process. The best that can be had: a process
     * of the same user had this pid right after accept(), and lives. A user who recycles a pid on
     * purpose hits a process of their own. */
    fallback = (int)syscall(SYS_pidfd_open, peer->pid, 0);
    if (fallback < 0)
        return 0;
    start_time = read_start_time(peer->pid, peer->uid);
    return pidfd_alive(fallback) ? start_time : 0;
}

int peer_acquire(int sock, struct peer *ret)
{
    _cleanup_(peer_release) struct peer peer = PEER_NULL;
    struct ucred cred = { .uid = (uid_t)-1 };
    socklen_t length = sizeof(cred);
    bool unsupported;
    int r;

    if (getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &cred, &length) < 0)
        return -errno;
    if (length != sizeof(cred) || cred.pid <= 0 || cred.uid == (uid_t)-1)
        return -ESRCH;
    peer.uid = cred.uid;
    peer.gid = cred.gid;
    peer.pid = cred.pid;
    r = peer_pidfd(sock, &unsupported, &peer.pidfd);
    if (r < 0)
        return r;
    r = peer_groups(sock, &peer.groups, &peer.n_groups);
    if (r < 0)
        return r;
    peer.start_time = peer_start_time(&peer, unsupported);

    *ret = peer;
    peer = (struct peer)PEER_NULL;
    return 0;
}

bool peer_has_ended(const struct peer *peer)
{
    return peer->pidfd >= 0 && !pidfd_alive(peer->pidfd);
}

void peer_release(struct peer *peer)
{
    close_fd(peer->pidfd);
    free(peer->groups);
    *peer = (struct peer)PEER_NULL;
}
