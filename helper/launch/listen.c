/* The way out of a sandbox that is granted a network: a socket that listens on its own loopback,
 * see launch.h. Nothing of this process accepts on it or keeps it. */
#include "launch.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

/* What the kernel lets wait, at most: net.core.somaxconn may be less. */
#define BACKLOG 512

int listen_on_loopback(void)
{
    const struct sockaddr_in address = { .sin_family = AF_INET,
                                         .sin_port = htons(LAUNCH_LISTEN_PORT),
                                         .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    _cleanup_close_ int sock = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    /* Without SO_REUSEPORT and SO_REUSEADDR: no program can listen beside it. */
    if (sock < 0 || bind(sock, (const struct sockaddr *)&address, sizeof(address)) < 0 ||
        listen(sock, BACKLOG) < 0)
        return -errno;
    return TAKE_FD(sock);
}
