/* The bench of the varlink tests, see varlink-bench.h. */
#include "varlink-bench.h"
#include "common/foreign.h"

#include <dirent.h>
#include <poll.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>

static int on_echo(struct varlink_call *call, void *userdata)
{
    struct bench *b = userdata;

    b->calls++;
    return varlink_reply(call, json_object_get(varlink_call_parameters(call)));
}

static void on_gone(struct varlink_call *call, void *userdata)
{
    struct bench *b = userdata;

    b->gone++;
}

static void on_drained(struct varlink_call *call, void *userdata)
{
    struct bench *b = userdata;

    b->drained++;
}

/* Keeps the call for the test to answer. */
static int on_later(struct varlink_call *call, void *userdata)
{
    struct bench *b = userdata;

    b->calls++;
    b->kept[b->n_kept++] = varlink_call_ref(call);
    varlink_call_on_gone(call, on_gone, b);
    varlink_call_on_drained(call, on_drained, b);
    return 0;
}

static int on_count(struct varlink_call *call, void *userdata)
{
    struct bench *b = userdata;

    b->calls++;
    for (uint64_t i = 0; i < 3; i++) {
        json_object *parameters = json_object_new_object();
        int r;

        json_add_uint64(parameters, "n", i);
        r = i < 2 ? varlink_notify(call, parameters, NULL, 0) : varlink_reply(call, parameters);
        if (r < 0)
            return r;
    }
    return 0;
}

static int on_big(struct varlink_call *call, void *userdata)
{
    json_object *parameters = json_object_new_object();
    char text[100001];

    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    json_add_string(parameters, "a", text);
    return varlink_reply(call, parameters);
}

static int on_take_fds(struct varlink_call *call, void *userdata)
{
    struct bench *b = userdata;

    b->calls++;
    b->n_fds = varlink_call_n_fds(call);
    if (b->n_fds > 0) {
        int fd = varlink_call_take_fd(call, 0);

        if (fd < 0 || !(fcntl(fd, F_GETFD) & FD_CLOEXEC) ||
            varlink_call_take_fd(call, 0) != -EINVAL)
            return -EBADF;
        close_fd(fd);
    }
    return varlink_call_take_fd(call, b->n_fds) == -EINVAL ? varlink_reply(call, NULL) : -EBADF;
}

static int on_fail(struct varlink_call *call, void *userdata)
{
    struct bench *b = userdata;

    b->calls++;
    return -EIO;
}

static int on_forget(struct varlink_call *call, void *userdata)
{
    struct bench *b = userdata;

    b->calls++;
    return 0;
}

static const struct varlink_method methods[] = {
    { "Echo", on_echo, 0 },
    { "Later", on_later, 0 },
    { "Count", on_count, VARLINK_METHOD_REQUIRES_MORE },
    { "Big", on_big, 0 },
    { "TakeFds", on_take_fds, VARLINK_METHOD_TAKES_FDS },
    { "Fail", on_fail, 0 },
    { "Forget", on_forget, 0 },
};

static const struct varlink_interface interface = {
    .name = "org.example.Test",
    .description = "interface org.example.Test\n",
    .methods = methods,
    .n_methods = ELEMENTS(methods),
};

/* Declared before the other, described behind it. */
static const struct varlink_interface empty = {
    .name = "xyz.example.Empty",
    .description = "interface xyz.example.Empty\n",
};

static const struct varlink_interface *const interfaces[] = { &empty, &interface };

static void on_refused(const struct peer *peer, const char *why, void *userdata)
{
    struct bench *b = userdata;

    b->refused++;
}

static void on_busy(bool busy, void *userdata)
{
    struct bench *b = userdata;

    if (busy)
        b->busy++;
    else
        b->idle++;
}

struct varlink_server_options bench_options;

static void default_options(struct bench *b)
{
    bench_options = (struct varlink_server_options){
        .vendor = "Example",
        .product = "bench",
        .version = "1",
        .url = "https://example.org",
        .connections_max = bench_options.connections_max ?: 64,
        .connections_per_user_max = bench_options.connections_per_user_max ?: 64,
        .message_timeout_usec = bench_options.message_timeout_usec,
        .refused = on_refused,
        .busy_changed = on_busy,
        .userdata = b,
    };
}

int bench_connect(struct bench *b)
{
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
        return -1;
    (void)varlink_server_add_connection(b->server, pair[1]);
    return pair[0];
}

int bench_start(void **state)
{
    struct bench *b = calloc(1, sizeof(*b));

    if (!b || sd_event_new(&b->event) < 0)
        return -1;
    default_options(b);
    if (varlink_server_new(b->event, &bench_options, interfaces, ELEMENTS(interfaces), &b->server) <
        0)
        return -1;
    bench_options = (struct varlink_server_options){ 0 };
    b->n_own = count_fds();
    b->caller = bench_connect(b);
    b->n_own = count_fds() - b->n_own - 1;
    *state = b;
    return 0;
}

int bench_stop(void **state)
{
    struct bench *b = *state;

    for (size_t i = 0; i < b->n_kept; i++)
        varlink_call_unref(b->kept[i]);
    varlink_server_unref(b->server);
    sd_event_unref(b->event);
    close_fd(b->caller);
    free(b);
    return 0;
}

void settle(struct bench *b)
{
    while (sd_event_run(b->event, 0) > 0)
        ;
}

/* Sends as much as the socket takes, lets the server run, and so on, as long as that gets any
 * further. */
void send_bytes(struct bench *b, const char *data, size_t size, size_t n_fds)
{
    union {
        char buffer[CMSG_SPACE(sizeof(int) * VARLINK_FDS_MAX)];
        struct cmsghdr c;
    } control = { 0 };
    struct iovec iov = { .iov_base = (char *)data, .iov_len = size };
    struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

    if (n_fds > 0) {
        msg.msg_control = control.buffer;
        msg.msg_controllen = CMSG_SPACE(sizeof(int) * n_fds);
        control.c.cmsg_level = SOL_SOCKET;
        control.c.cmsg_type = SCM_RIGHTS;
        control.c.cmsg_len = CMSG_LEN(sizeof(int) * n_fds);
        for (size_t i = 0; i < n_fds; i++)
            memcpy(CMSG_DATA(&control.c) + i * sizeof(int), &(int){ STDERR_FILENO }, sizeof(int));
    }
    while (iov.iov_len > 0) {
        ssize_t n = sendmsg(b->caller, &msg, MSG_NOSIGNAL);

        if (n < 0)
            break;
        iov.iov_base = (char *)iov.iov_base + n;
        iov.iov_len -= (size_t)n;
        msg.msg_control = NULL;
        msg.msg_controllen = 0;
        settle(b);
    }
}

void send_message(struct bench *b, const char *text)
{
    send_bytes(b, text, strlen(text) + 1, 0);
}

/* Reads all that is there; true at end of file. */
static bool receive(struct bench *b)
{
    for (;;) {
        ssize_t n = recv(b->caller, b->input + b->n_input, sizeof(b->input) - b->n_input, 0);

        if (n <= 0)
            return n == 0 || errno == ECONNRESET;
        b->n_input += (size_t)n;
        settle(b);
    }
}

const char *next_answer(struct bench *b)
{
    static char answer[sizeof(b->input)];
    const char *nul;
    size_t size;

    receive(b);
    nul = memchr(b->input, '\0', b->n_input);
    if (!nul)
        return NULL;
    size = (size_t)(nul - b->input) + 1;
    memcpy(answer, b->input, size);
    b->n_input -= size;
    memmove(b->input, nul + 1, b->n_input);
    return answer;
}

bool hung_up(struct bench *b)
{
    return receive(b) && b->n_input == 0;
}

unsigned count_fds(void)
{
    /* What the server does not want is closed by threads. */
    while (foreign_pending() > 0)
        poll(NULL, 0, 1);

    DIR *d = opendir("/proc/self/fd");
    unsigned n = 0;

    while (d && readdir(d))
        n++;
    if (d)
        closedir(d);
    return n;
}
