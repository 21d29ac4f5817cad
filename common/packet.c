/* One packet with file descriptors over a SOCK_SEQPACKET socket, see packet.h. */
#include "packet.h"
#include "cleanup.h"

#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>

union control {
    char buffer[CMSG_SPACE(sizeof(int) * PACKET_FDS_MAX)];
    struct cmsghdr align;
};

int packet_send(int sock, const void *data, size_t size, const int *fds, size_t n_fds)
{
    struct iovec iov = { .iov_base = (void *)data, .iov_len = size };
    struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
    union control control = { 0 };

    if (n_fds > PACKET_FDS_MAX)
        return -EINVAL;
    if (n_fds > 0) {
        msg.msg_control = control.buffer;
        msg.msg_controllen = CMSG_SPACE(sizeof(int) * n_fds);
        struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);
        cmsg->cmsg_level = SOL_SOCKET;
        cmsg->cmsg_type = SCM_RIGHTS;
        cmsg->cmsg_len = CMSG_LEN(sizeof(int) * n_fds);
        memcpy(CMSG_DATA(cmsg), fds, sizeof(int) * n_fds);
    }
    for (;;) {
        if (sendmsg(sock, &msg, MSG_NOSIGNAL) >= 0)
            return 0;
        if (errno != EINTR)
            return -errno;
    }
}

/* That the peer hung up with something of ours unread is told once, and before what it said until
 * then (Linux, net/unix/af_unix.c): that is asked for anew. */
static ssize_t receive(int sock, struct msghdr *msg)
{
    bool was_reset = false;

    for (;;) {
        ssize_t n = recvmsg(sock, msg, MSG_CMSG_CLOEXEC);
        if (n >= 0)
            return n;
        if (errno != EINTR && (errno != ECONNRESET || was_reset))
            return -errno;
        was_reset = was_reset || errno == ECONNRESET;
    }
}

ssize_t packet_recv(int sock, void *data, size_t size, int fds[PACKET_FDS_MAX], size_t *ret_n_fds)
{
    struct iovec iov = { .iov_base = data, .iov_len = size };
    union control control = { 0 };
    struct msghdr msg = {
        .msg_iov = &iov,
        .msg_iovlen = 1,
        .msg_control = control.buffer,
        .msg_controllen = sizeof(control.buffer),
    };
    size_t n_fds = 0;

    for (size_t i = 0; i < PACKET_FDS_MAX; i++)
        fds[i] = -1;
    *ret_n_fds = 0;

    ssize_t n = receive(sock, &msg);
    if (n < 0)
        return n;

    for (struct cmsghdr *c = CMSG_FIRSTHDR(&msg); c; c = CMSG_NXTHDR(&msg, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        /* The control buffer holds no more than PACKET_FDS_MAX, so this cannot overrun. */
        for (size_t i = 0; i < count && n_fds < PACKET_FDS_MAX; i++)
            memcpy(&fds[n_fds++], CMSG_DATA(c) + i * sizeof(int), sizeof(int));
    }
    if (msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) {
        packet_close_fds(fds);
        return -EMSGSIZE;
    }
    /* An empty packet looks like the end of file: nobody takes its descriptors. */
    if (n == 0) {
        packet_close_fds(fds);
        return 0;
    }
    *ret_n_fds = n_fds;
    return n;
}

void packet_close_fds(int fds[PACKET_FDS_MAX])
{
    for (size_t i = 0; i < PACKET_FDS_MAX; i++)
        fds[i] = close_fd(fds[i]);
}
