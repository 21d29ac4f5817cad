/* See socket.h. */
#include "broker/socket.h"
#include "common/cleanup.h"

#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

/* The service manager made the listening socket; a root-owned directory holds it. Anybody else's is
 * not what we look for. */
static int check_peer(int sock)
{
    struct ucred peer;
    socklen_t size = sizeof(peer);

    if (getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0)
        return -errno;
    return peer.uid == 0 ? 0 : -EACCES;
}

int socket_connect_root(const char *path)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    _cleanup_close_ int sock = -1;

    if (strlen(path) >= sizeof(address.sun_path))
        return -ENAMETOOLONG;
    strcpy(address.sun_path, path);
    sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (sock < 0 || connect(sock, (struct sockaddr *)&address, sizeof(address)) < 0)
        return -errno;
    int r = check_peer(sock);
    return r < 0 ? r : TAKE_FD(sock);
}
