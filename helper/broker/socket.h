/* Connecting to the services that the broker makes use of. Called by sandbox.c, pool.c and
 * spare.c. */
#pragma once

/* A non-blocking SOCK_SEQPACKET connection to @path, where the service manager listens. Returns it,
 * or a negative errno: -ENOENT and -ECONNREFUSED (nobody listens), -EAGAIN (too many wait), -EACCES
 * (somebody else than root made the socket), -ENAMETOOLONG. */
int socket_connect_root(const char *path);
