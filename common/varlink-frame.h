/* varlink messages on a stream socket: bytes and descriptors in, whole messages out, and the
 * reverse. Shared by server and client; knows nothing of what a message says. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "common/json.h"

/* A set of descriptors and its owner. Those that were taken out are -1. */
struct varlink_fds {
    int *fd;
    size_t n;
    bool foreign; /* passed by the stranger @from, and to be closed as such */
    uid_t from;
};
void varlink_fds_release(struct varlink_fds *fds);
/* Duplicates @n descriptors (O_CLOEXEC) into @ret. Returns 0 or a negative errno. */
int varlink_fds_dup(const int *fds, size_t n, struct varlink_fds *ret);
#define TAKE_FDS(f)                                      \
    ({                                                   \
        struct varlink_fds *_fdsp = &(f), _fds = *_fdsp; \
        *_fdsp = (struct varlink_fds){ 0 };              \
        _fds;                                            \
    })

/* Makes @sock non-blocking and O_CLOEXEC. Returns 0 or a negative errno. */
int varlink_prepare_socket(int sock);

/* Collects a message from a non-blocking socket. The kernel glues plain bytes to the bytes behind
 * them that carry descriptors, so one read can bring the end of one message and the descriptors of
 * the next. What is sure: the read ends with the piece that carries them. They therefore belong to
 * the message that the read's last byte is part of. */
struct varlink_reader {
    size_t message_max; /* bytes without the NUL */
    /* For strangers: a read that brings descriptors must begin with a message's first byte and must
     * not reach beyond that message, so whoever pipelines around descriptors is refused, not
     * guessed at. */
    bool strict;
    uid_t stranger; /* who, if strict */

    char *data; /* grows on demand */
    size_t allocated, start, end;
    size_t scanned; /* no NUL between start and here */
    struct varlink_fds fds;
    size_t fds_at; /* the message with this byte gets them */
};
/* Closes and frees all; the reader is as new. */
void varlink_reader_release(struct varlink_reader *reader);
/* Reads once. Returns the number of bytes; 0 at end of file; -EAGAIN; -EMSGSIZE if the message is
 * too long already; -EPROTO for descriptors that break the rules or were cut by the kernel (they
 * are closed), or another negative errno. */
ssize_t varlink_reader_fill(struct varlink_reader *reader, int sock);
/* Takes the next complete message: true with the message, borrowed until the next fill or release,
 * and the descriptors, which are the caller's. */
bool varlink_reader_next(struct varlink_reader *reader, const char **ret_message, size_t *ret_size,
                         struct varlink_fds *ret_fds);
/* Bytes that belong to no message taken yet. */
size_t varlink_reader_waiting(const struct varlink_reader *reader);

/* Messages that wait to be sent, each with its descriptors at its first byte. */
struct varlink_writer {
    struct varlink_output *first, *last;
    size_t size; /* bytes not sent yet */
};
void varlink_writer_release(struct varlink_writer *writer);
/* Appends @message (borrowed); @fds are consumed always. Returns 0 or -ENOMEM. */
int varlink_writer_push(struct varlink_writer *writer, json_object *message,
                        struct varlink_fds fds);
/* Sends what the socket takes, without SIGPIPE. Returns 1 when all is sent, 0 if the socket is
 * full, or a negative errno. */
int varlink_writer_flush(struct varlink_writer *writer, int sock);
