/* The blocking varlink client, see varlink.h. Holds the server's answers to the same grammar as the
 * server holds calls to. */
#include "varlink.h"

#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include "common/clock.h"
#include "varlink-frame.h"
#include "varlink-header.h"

/* A full backlog means a server that hangs; nobody should wait for that for ever. */
#define CONNECT_TIMEOUT_SEC 30

struct varlink_client {
    int fd;
    struct varlink_reader reader;
    struct varlink_writer writer;
    bool waiting; /* for the final answer to a call */
    bool more;    /* which may be answered several times */
};

static void client_freep(struct varlink_client **client)
{
    varlink_client_free(*client);
}

int varlink_client_new(int fd, struct varlink_client **ret)
{
    _cleanup_(client_freep) struct varlink_client *client = calloc(1, sizeof(*client));
    int r;

    if (!client) {
        close_fd(fd);
        return -ENOMEM;
    }
    client->fd = fd;
    client->reader.message_max = VARLINK_OUTPUT_MAX;
    r = varlink_prepare_socket(fd);
    if (r < 0)
        return r;
    *ret = TAKE_PTR(client);
    return 0;
}

struct varlink_client *varlink_client_free(struct varlink_client *client)
{
    if (!client)
        return NULL;
    close_fd(client->fd);
    varlink_reader_release(&client->reader);
    varlink_writer_release(&client->writer);
    free(client);
    return NULL;
}

int varlink_client_connect(const char *path, struct varlink_client **ret)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    struct timeval patience = { .tv_sec = CONNECT_TIMEOUT_SEC };
    _cleanup_close_ int fd = -1;
    int r;

    if (strlen(path) >= sizeof(address.sun_path))
        return -ENAMETOOLONG;
    strcpy(address.sun_path, path);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    /* connect() of a unix socket waits for room in the backlog as long as sending may take (unix(7)
     * is silent about it). */
    if (setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)) < 0)
        return -errno;
    do
        r = connect(fd, (struct sockaddr *)&address, sizeof(address));
    while (r < 0 && errno == EINTR);
    if (r < 0)
        return errno == EAGAIN ? -ETIMEDOUT : -errno;
    return varlink_client_new(TAKE_FD(fd), ret);
}

int varlink_client_fd(const struct varlink_client *client)
{
    return client->fd;
}

static int wait_for(int fd, short events, uint64_t deadline)
{
    struct pollfd p = { .fd = fd, .events = events };

    return poll_until(&p, 1, deadline);
}

int varlink_client_send(struct varlink_client *client, const char *method, json_object *parameters,
                        enum varlink_call_flags flags, const int *fds, size_t n_fds)
{
    bool more = flags & VARLINK_CALL_MORE, oneway = flags & VARLINK_CALL_ONEWAY;
    _cleanup_json_ json_object *owned = parameters, *message = NULL;
    struct varlink_fds copies;
    int r;

    if (client->waiting)
        return -EBUSY;
    message = varlink_build_call(method, TAKE_PTR(owned), more, oneway);
    if (!message)
        return -ENOMEM;
    r = varlink_fds_dup(fds, n_fds, &copies);
    if (r < 0)
        return r;
    r = varlink_writer_push(&client->writer, message, copies);
    if (r < 0)
        return r;
    while ((r = varlink_writer_flush(&client->writer, client->fd)) == 0) {
        r = wait_for(client->fd, POLLOUT, UINT64_MAX);
        if (r < 0)
            break;
    }
    if (r < 0) {
        varlink_writer_release(&client->writer);
        return r;
    }
    client->waiting = !oneway;
    client->more = more;
    return 0;
}

/* Makes an answer of one message; @fds are consumed always. Returns 1, -EBADMSG or -ENOMEM. */
static int parse_answer(struct varlink_client *client, const char *text, size_t size,
                        struct varlink_fds fds, struct varlink_answer *ret)
{
    _cleanup_(varlink_fds_release) struct varlink_fds owned = fds;
    _cleanup_json_ json_object *message = NULL, *parameters = NULL;
    _cleanup_free_ char *error = NULL;
    struct varlink_answer_header header;
    int r;

    r = json_parse_guarded(text, size, &message);
    if (r < 0)
        return r == -ENOMEM ? r : -EBADMSG;
    r = varlink_parse_answer(message, &header);
    if (r < 0)
        return r;
    if ((header.continues && !client->more) || owned.n > VARLINK_FDS_MAX)
        return -EBADMSG;
    if (header.error) {
        error = strdup(header.error);
        if (!error)
            return -ENOMEM;
    }
    parameters = header.parameters ? json_object_get(header.parameters) : json_object_new_object();
    if (!parameters)
        return -ENOMEM;

    client->waiting = header.continues;
    *ret = (struct varlink_answer){ .continues = header.continues, .n_fds = owned.n };
    ret->parameters = TAKE_PTR(parameters);
    ret->error = TAKE_PTR(error);
    for (size_t i = 0; i < owned.n; i++)
        ret->fds[i] = TAKE_FD(owned.fd[i]);
    return 1;
}

int varlink_client_receive(struct varlink_client *client, uint64_t timeout_usec,
                           struct varlink_answer *ret)
{
    uint64_t deadline;

    if (!client->waiting)
        return -ENODATA;
    if (__builtin_add_overflow(clock_now(), timeout_usec, &deadline))
        deadline = UINT64_MAX;
    for (;;) {
        struct varlink_fds fds;
        const char *text;
        size_t size;
        ssize_t n;

        if (varlink_reader_next(&client->reader, &text, &size, &fds))
            return parse_answer(client, text, size, fds, ret);
        n = varlink_reader_fill(&client->reader, client->fd);
        if (n == 0)
            return -ECONNRESET;
        if (n == -EMSGSIZE || n == -EPROTO)
            return -EBADMSG;
        if (n == -EAGAIN) {
            int r = wait_for(client->fd, POLLIN, deadline);

            if (r <= 0)
                return r;
        } else if (n < 0) {
            return (int)n;
        }
    }
}

void varlink_answer_release(struct varlink_answer *answer)
{
    for (size_t i = 0; i < answer->n_fds; i++)
        close_fd(answer->fds[i]);
    json_object_put(answer->parameters);
    free(answer->error);
    *answer = (struct varlink_answer){ 0 };
}
