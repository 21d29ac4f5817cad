/* One packet with file descriptors over a SOCK_SEQPACKET socket: the carrier of the engine,
 * launcher and store protocols. Called by the broker, the engines and their tests; never interprets
 * bytes. */
#pragma once

#include <stddef.h>
#include <sys/types.h>

/* Most descriptors that one of our packets may carry. */
#define PACKET_FDS_MAX 4

/* Sends @size bytes and @n_fds descriptors (which stay the caller's) as one packet, without
 * SIGPIPE. Returns 0, or a negative errno (-EPIPE and -ECONNRESET: the peer is gone; -EAGAIN on a
 * non-blocking socket whose queue is full). */
int packet_send(int sock, const void *data, size_t size, const int *fds, size_t n_fds);

/* Receives one packet of at most @size bytes. @fds has room for PACKET_FDS_MAX descriptors; those
 * received are the caller's, O_CLOEXEC, and counted in @ret_n_fds; unused slots are -1.
 * Who hung up is heard to its last packet, whether or not it read all of ours.
 * Returns the packet's length, 0 at end of file or for an empty packet (without descriptors), or a
 * negative errno: -EMSGSIZE for a packet (or a set of descriptors) that does not fit, whose
 * descriptors are closed then; -EAGAIN if non-blocking. */
ssize_t packet_recv(int sock, void *data, size_t size, int fds[PACKET_FDS_MAX], size_t *ret_n_fds);

/* Closes what is left in a received set. */
void packet_close_fds(int fds[PACKET_FDS_MAX]);
