/* varlink messages on a stream socket, see varlink-frame.h. */
#include "varlink-frame.h"

#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>

#include "foreign.h"
#include "varlink.h"

#define BUFFER_MIN 4096
/* An empty buffer above this is given back: one long message must not cost memory for ever. */
#define BUFFER_KEEP (64 * 1024)

union control {
    char buffer[CMSG_SPACE(sizeof(int) * VARLINK_FDS_MAX)];
    struct cmsghdr align;
};

/* ---- Descriptors ---- */

void varlink_fds_release(struct varlink_fds *fds)
{
    for (size_t i = 0; i < fds->n; i++) {
        if (fds->foreign)
            foreign_close(fds->fd[i], fds->from);
        else
            close_fd(fds->fd[i]);
    }
    free(fds->fd);
    *fds = (struct varlink_fds){ 0 };
}

int varlink_fds_dup(const int *fds, size_t n, struct varlink_fds *ret)
{
    _cleanup_(varlink_fds_release) struct varlink_fds copy = { 0 };

    if (n > VARLINK_FDS_MAX)
        return -EINVAL;
    if (n > 0) {
        copy.fd = calloc(n, sizeof(int));
        if (!copy.fd)
            return -ENOMEM;
    }
    for (; copy.n < n; copy.n++) {
        copy.fd[copy.n] = fcntl(fds[copy.n], F_DUPFD_CLOEXEC, 3);
        if (copy.fd[copy.n] < 0)
            return -errno;
    }
    *ret = TAKE_FDS(copy);
    return 0;
}

/* Puts all descriptors of a received message into @ret, which is released by the caller on error
 * too. */
static int collect_fds(struct msghdr *msg, struct varlink_fds *ret)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
        size_t count;
        int *grown;

        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        if (count == 0)
            continue;
        grown = reallocarray(ret->fd, ret->n + count, sizeof(int));
        if (!grown) {
            for (size_t i = 0; i < count; i++) {
                int fd;

                memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
                foreign_close(fd, ret->from);
            }
            return -ENOMEM;
        }
        ret->fd = grown;
        memcpy(ret->fd + ret->n, CMSG_DATA(c), count * sizeof(int));
        ret->n += count;
    }
    return 0;
}

/* ---- Reading ---- */

int varlink_prepare_socket(int sock)
{
    int flags = fcntl(sock, F_GETFL);

    if (flags < 0 || fcntl(sock, F_SETFL, flags | O_NONBLOCK) < 0 ||
        fcntl(sock, F_SETFD, FD_CLOEXEC) < 0)
        return -errno;
    return 0;
}

void varlink_reader_release(struct varlink_reader *reader)
{
    varlink_fds_release(&reader->fds);
    free(reader->data);
    *reader = (struct varlink_reader){ .message_max = reader->message_max,
                                       .strict = reader->strict,
                                       .stranger = reader->stranger };
}

size_t varlink_reader_waiting(const struct varlink_reader *reader)
{
    return reader->end - reader->start;
}

/* Makes room for at least one more byte. Called only when no complete message is waiting, so what
 * has to be moved is less than one read and each byte is moved once. */
static int reader_grow(struct varlink_reader *reader)
{
    size_t size;
    char *data;

    if (reader->start > 0) {
        memmove(reader->data, reader->data + reader->start, varlink_reader_waiting(reader));
        reader->end -= reader->start;
        reader->scanned -= reader->start;
        reader->fds_at -= reader->fds.n > 0 ? reader->start : 0;
        reader->start = 0;
    }
    if (reader->end < reader->allocated)
        return 0;
    if (reader->allocated > reader->message_max)
        return -EMSGSIZE;
    size = reader->allocated ? 2 * reader->allocated : BUFFER_MIN;
    if (size > reader->message_max + 1)
        size = reader->message_max + 1;
    data = realloc(reader->data, size);
    if (!data)
        return -ENOMEM;
    reader->data = data;
    reader->allocated = size;
    return 0;
}

/* Decides about descriptors that came with the last @n bytes of the buffer. */
static int reader_accept_fds(struct varlink_reader *reader, size_t n, struct varlink_fds fds)
{
    const char *first = reader->data + reader->end - n;

    /* Two sets would have to be told apart; nobody who is answered call by call sends that. */
    if (reader->fds.n > 0)
        goto refuse;
    if (reader->strict &&
        (varlink_reader_waiting(reader) != n || memchr(first, '\0', n - 1) != NULL))
        goto refuse;
    reader->fds = fds;
    reader->fds_at = reader->end - 1;
    return 0;
refuse:
    varlink_fds_release(&fds);
    return -EPROTO;
}

/* Limits @iov to what can be read without descriptors: those that are not wanted the kernel closes,
 * in the thread that reads on, with all the waiting that this may be. Returns 0, -EPROTO if some
 * come first, or a negative errno. */
static int reader_avoid_fds(int sock, struct iovec *iov)
{
    struct msghdr msg = { .msg_iov = iov, .msg_iovlen = 1 };
    ssize_t n;

    do
        n = recvmsg(sock, &msg, MSG_PEEK | MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return -errno;
    if (msg.msg_flags & MSG_CTRUNC)
        return -EPROTO;
    if (n > 0)
        iov->iov_len = (size_t)n;
    return 0;
}

ssize_t varlink_reader_fill(struct varlink_reader *reader, int sock)
{
    _cleanup_(varlink_fds_release) struct varlink_fds fds = { .foreign = reader->strict,
                                                              .from = reader->stranger };
    union control control;
    struct msghdr msg = { .msg_iovlen = 1 };
    struct iovec iov;
    ssize_t n;
    int r;

    r = reader_grow(reader);
    if (r < 0)
        return r;
    iov = (struct iovec){ .iov_base = reader->data + reader->end,
                          .iov_len = reader->allocated - reader->end };
    if (reader->strict && foreign_overdue(reader->stranger)) {
        r = reader_avoid_fds(sock, &iov);
        if (r < 0)
            return r;
    }
    msg.msg_iov = &iov;
    do {
        msg.msg_control = control.buffer;
        msg.msg_controllen = sizeof(control.buffer);
        n = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    } while (n < 0 && errno == EINTR);
    if (n < 0)
        return -errno;

    r = collect_fds(&msg, &fds);
    if (r < 0)
        return r;
    /* A descriptor limit of ours or a security module took some: what is left means nothing. */
    if (msg.msg_flags & MSG_CTRUNC)
        return -EPROTO;
    if (n == 0)
        return 0;
    reader->end += (size_t)n;
    if (fds.n > 0) {
        r = reader_accept_fds(reader, (size_t)n, TAKE_FDS(fds));
        if (r < 0)
            return r;
    }
    return n;
}

bool varlink_reader_next(struct varlink_reader *reader, const char **ret_message, size_t *ret_size,
                         struct varlink_fds *ret_fds)
{
    const char *nul;
    size_t at;

    if (reader->start == reader->end) {
        if (reader->allocated > BUFFER_KEEP)
            varlink_reader_release(reader);
        return false;
    }
    nul = memchr(reader->data + reader->scanned, '\0', reader->end - reader->scanned);
    if (!nul) {
        reader->scanned = reader->end;
        return false;
    }
    at = (size_t)(nul - reader->data);
    *ret_message = reader->data + reader->start;
    *ret_size = at - reader->start;
    *ret_fds = (struct varlink_fds){ 0 };
    if (reader->fds.n > 0 && reader->fds_at <= at)
        *ret_fds = TAKE_FDS(reader->fds);
    reader->start = reader->scanned = at + 1;
    return true;
}

/* ---- Writing ---- */

struct varlink_output {
    struct varlink_output *next;
    struct varlink_fds fds;
    size_t size, sent;
    char data[];
};

static struct varlink_output *output_free(struct varlink_output *output)
{
    varlink_fds_release(&output->fds);
    free(output);
    return NULL;
}

void varlink_writer_release(struct varlink_writer *writer)
{
    while (writer->first) {
        struct varlink_output *output = writer->first;

        writer->first = output->next;
        output_free(output);
    }
    *writer = (struct varlink_writer){ 0 };
}

#define DEL '\x7f'
#define DEL_ESCAPED "\\u007f"

static size_t escaped_size(const char *text, size_t size)
{
    size_t n = size;

    for (const char *del = text; (del = memchr(del, DEL, size - (size_t)(del - text))); del++)
        n += strlen(DEL_ESCAPED) - 1;
    return n;
}

/* JSON allows a DEL within a string, systemd's parser only an escaped one; json-c escapes none. */
static void copy_escaped(char *target, const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (text[i] == DEL)
            target = mempcpy(target, DEL_ESCAPED, strlen(DEL_ESCAPED));
        else
            *target++ = text[i];
    *target = '\0';
}

int varlink_writer_push(struct varlink_writer *writer, json_object *message, struct varlink_fds fds)
{
    struct varlink_output *output;
    const char *text;
    size_t size, escaped;

    text = json_text(message, &size);
    escaped = text ? escaped_size(text, size) : 0;
    output = text ? malloc(sizeof(*output) + escaped + 1) : NULL;
    if (!output) {
        varlink_fds_release(&fds);
        return -ENOMEM;
    }
    *output = (struct varlink_output){ .fds = fds, .size = escaped + 1 };
    copy_escaped(output->data, text, size);
    if (writer->last)
        writer->last->next = output;
    else
        writer->first = output;
    writer->last = output;
    writer->size += output->size;
    return 0;
}

/* Sends some of one message; descriptors go with its first byte. Returns the bytes sent or a
 * negative errno. */
static ssize_t output_send(struct varlink_output *output, int sock)
{
    struct iovec iov = { .iov_base = output->data + output->sent,
                         .iov_len = output->size - output->sent };
    struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
    union control control = { 0 };
    ssize_t n;

    if (output->fds.n > 0) {
        struct cmsghdr *c = &control.align;

        msg.msg_control = control.buffer;
        msg.msg_controllen = CMSG_SPACE(sizeof(int) * output->fds.n);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int) * output->fds.n);
        memcpy(CMSG_DATA(c), output->fds.fd, sizeof(int) * output->fds.n);
    }
    do
        n = sendmsg(sock, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return -errno;
    varlink_fds_release(&output->fds);
    return n;
}

int varlink_writer_flush(struct varlink_writer *writer, int sock)
{
    while (writer->first) {
        struct varlink_output *output = writer->first;
        ssize_t n = output_send(output, sock);

        if (n == -EAGAIN)
            return 0;
        if (n < 0)
            return (int)n;
        output->sent += (size_t)n;
        writer->size -= (size_t)n;
        if (output->sent < output->size)
            continue;
        writer->first = output->next;
        if (!writer->first)
            writer->last = NULL;
        output_free(output);
    }
    return 1;
}
