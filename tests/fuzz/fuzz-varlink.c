/* A varlink server with a small interface on arbitrary bytes. The input is what the caller sends;
 * since 0xff is in no valid message, it and the byte after it do something instead, see step(). The
 * loop runs until it is idle after each step, the server must survive, and no descriptor may be
 * left at the end. */
#include "common/foreign.h"
#include "common/varlink.h"

#include <dirent.h>
#include <poll.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include "check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define KEPT_MAX 8

struct fuzz {
    sd_event *event;
    struct varlink_server *server;
    int caller;
    struct varlink_call *kept[KEPT_MAX];
    size_t n_kept;
    size_t next_fds; /* descriptors to go with the next bytes */
};

static int on_echo(struct varlink_call *call, void *userdata)
{
    return varlink_reply(call, json_object_get(varlink_call_parameters(call)));
}

static void on_gone(struct varlink_call *call, void *userdata)
{
    check(!varlink_call_is_open(call));
}

static void on_drained(struct varlink_call *call, void *userdata)
{
    (void)varlink_notify(call, NULL, NULL, 0);
}

static int on_later(struct varlink_call *call, void *userdata)
{
    struct fuzz *f = userdata;

    if (f->n_kept == KEPT_MAX)
        return -EBUSY;
    f->kept[f->n_kept++] = varlink_call_ref(call);
    varlink_call_on_gone(call, on_gone, f);
    varlink_call_on_drained(call, on_drained, f);
    return 0;
}

static int on_take(struct varlink_call *call, void *userdata)
{
    close_fd(varlink_call_take_fd(call, 0));
    return varlink_call_n_fds(call) % 2 == 0 ? varlink_reply(call, NULL) : -EIO;
}

static int on_many(struct varlink_call *call, void *userdata)
{
    int fd = STDERR_FILENO;

    for (int i = 0; i < 3; i++)
        (void)varlink_notify(call, json_object_get(varlink_call_parameters(call)), &fd, i == 1);
    return 0; /* forgotten */
}

static const struct varlink_method methods[] = {
    { "Echo", on_echo, 0 },
    { "Later", on_later, 0 },
    { "Take", on_take, VARLINK_METHOD_TAKES_FDS },
    { "Many", on_many, VARLINK_METHOD_REQUIRES_MORE },
};

static const struct varlink_interface interface = {
    .name = "a.b",
    .description = "interface a.b\n",
    .methods = methods,
    .n_methods = ELEMENTS(methods),
};

static const struct varlink_interface *const interfaces[] = { &interface };

static void settle(struct fuzz *f)
{
    while (sd_event_run(f->event, 0) > 0)
        ;
}

static void send_bytes(struct fuzz *f, const uint8_t *data, size_t size)
{
    union {
        char buffer[CMSG_SPACE(sizeof(int) * 8)];
        struct cmsghdr c;
    } control = { 0 };
    struct iovec iov = { .iov_base = (void *)data, .iov_len = size };
    struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

    if (size == 0 || f->caller < 0)
        return;
    if (f->next_fds > 0) {
        msg.msg_control = control.buffer;
        msg.msg_controllen = CMSG_SPACE(sizeof(int) * f->next_fds);
        control.c.cmsg_level = SOL_SOCKET;
        control.c.cmsg_type = SCM_RIGHTS;
        control.c.cmsg_len = CMSG_LEN(sizeof(int) * f->next_fds);
        memset(CMSG_DATA(&control.c), 0, sizeof(int) * f->next_fds);
        f->next_fds = 0;
    }
    (void)sendmsg(f->caller, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void for_kept(struct fuzz *f, uint8_t what)
{
    for (size_t i = 0; i < f->n_kept; i++) {
        struct varlink_call *call = f->kept[i];
        int fd = STDERR_FILENO;

        if (what == 'n')
            (void)varlink_notify(call, json_object_get(varlink_call_parameters(call)), &fd, i % 2);
        else if (what == 'a')
            (void)varlink_reply(call, json_object_get(varlink_call_parameters(call)));
        else
            (void)varlink_error_invalid_parameter(call, "x");
    }
}

static void drop_kept(struct fuzz *f)
{
    while (f->n_kept > 0)
        varlink_call_unref(f->kept[--f->n_kept]);
}

static void read_answers(struct fuzz *f)
{
    static char buffer[64 * 1024];

    while (f->caller >= 0 && recv(f->caller, buffer, sizeof(buffer), MSG_DONTWAIT) > 0)
        settle(f);
}

static void step(struct fuzz *f, uint8_t what)
{
    switch (what) {
    case '0' ... '8':
        f->next_fds = what - '0';
        break;
    case 'n': /* notify all kept calls, answer them, or answer with an error */
    case 'a':
    case 'e':
        for_kept(f, what);
        break;
    case 'd':
        drop_kept(f);
        break;
    case 'g': /* glue: go on sending before the server looks */
        return;
    case 'r':
        read_answers(f);
        break;
    case 'w':
        shutdown(f->caller, SHUT_WR);
        break;
    case 'h':
        shutdown(f->caller, SHUT_RDWR);
        break;
    case 'c':
        f->caller = close_fd(f->caller);
        break;
    case 'u':
        f->server = varlink_server_unref(f->server);
        break;
    default:
        break;
    }
    settle(f);
}

static void run(struct fuzz *f, const uint8_t *data, size_t size)
{
    const uint8_t *end = data + size;

    while (data < end) {
        const uint8_t *mark = memchr(data, 0xff, (size_t)(end - data));

        send_bytes(f, data, (size_t)((mark ?: end) - data));
        if (!mark || mark + 1 == end)
            break;
        if (mark[1] != 'g')
            settle(f);
        step(f, mark[1]);
        data = mark + 2;
    }
    settle(f);
}

static unsigned count_fds(void)
{
    DIR *d = opendir("/proc/self/fd");
    unsigned n = 0;

    check(d != NULL);
    while (foreign_pending() > 0)
        poll(NULL, 0, 1);
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    unsigned before = count_fds(); /* libFuzzer opens some of its own between two runs */
    struct fuzz f = { .caller = -1 };
    const struct varlink_server_options options = {
        .connections_max = 2,
        .connections_per_user_max = 2,
        .userdata = &f,
    };
    int pair[2];

    check(sd_event_new(&f.event) >= 0);
    check(varlink_server_new(f.event, &options, interfaces, 1, &f.server) >= 0);
    check(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) >= 0);
    f.caller = pair[0];
    check(varlink_server_add_connection(f.server, pair[1]) >= 0);
    run(&f, data, size);
    read_answers(&f);
    f.caller = close_fd(f.caller);
    settle(&f);
    check(!f.server || varlink_server_connections(f.server) == 0);
    drop_kept(&f);
    varlink_server_unref(f.server);
    sd_event_unref(f.event);

    check(count_fds() == before);
    return 0;
}
