/* The broker's ends of an engine connection and a launcher's control socket, on arbitrary packets
 * in arbitrary order, with descriptors of all kinds. The input is a list of steps, see step().
 * Whatever the peers do, the events must come in the order that sandbox.h promises, and no
 * descriptor may be left at the end. Needs to be root, for a tmpfs of its own. */
#include "broker/sandbox.h"

#include <dirent.h>
#include <arpa/inet.h>
#include <fcntl.h>
#include <signal.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define SENT_FDS_MAX 8

/* Descriptors that a packet may carry; opened once. */
enum kind { WORKSPACE, LAUNCHER, PIPE, REGULAR, MACHINE, STREAM, LISTENER, KINDS };

struct fuzz {
    sd_event *event;
    struct sandbox *sandbox;
    int engine, launcher;   /* the peers' ends; -1: closed */
    int next[SENT_FDS_MAX]; /* kinds that the next packet carries */
    size_t n_next;
    bool free_at_next_event; /* as a run does that ends in a callback */
    bool ready, launcher_gone, engine_gone, ended;
    bool listen, put, gone_to_run; /* what the launcher owes */
};

static int standing[KINDS];

/* ---- what the broker hears */

static void check_text(const char *text, size_t size)
{
    check(memchr(text, '\0', size) != NULL);
}

static void check_launcher_event(struct fuzz *f, const struct sandbox_event *event)
{
    check(f->ready && !f->launcher_gone);
    if (event->type == SANDBOX_LAUNCHER_GONE) {
        check(event->error <= 0);
        f->launcher_gone = true;
    } else if (event->type == SANDBOX_LISTENING) {
        check(f->listen && event->listening.error >= 0);
        check((event->listening.socket >= 0) == (event->listening.error == 0));
        f->listen = false;
    } else if (event->type == SANDBOX_PUT_DONE) {
        check(f->put && event->put_done->error >= 0);
        f->put = false;
    } else {
        check(f->gone_to_run);
        f->gone_to_run = false;
        switch (event->exited->kind) {
        case LAUNCH_EXIT_CODE:
            check(event->exited->value >= 0 && event->exited->value <= 255);
            break;
        case LAUNCH_EXIT_SIGNAL:
            check(event->exited->value > 0 && event->exited->value < NSIG);
            break;
        default:
            check(event->exited->kind == LAUNCH_EXIT_EXEC && event->exited->value > 0);
            break;
        }
    }
}

static void check_engine_event(struct fuzz *f, const struct sandbox_event *event)
{
    check(!f->engine_gone && !f->ended);
    switch (event->type) {
    case SANDBOX_READY:
        check(!f->ready && sandbox_workspace(f->sandbox) >= 0);
        check_text(event->ready->sandbox_id, sizeof(event->ready->sandbox_id));
        check_text(event->ready->image_digest, sizeof(event->ready->image_digest));
        f->ready = true;
        break;
    case SANDBOX_PROGRESS:
        check_text(event->progress->phase, sizeof(event->progress->phase));
        break;
    case SANDBOX_FAILED:
        check_text(event->failed->message, sizeof(event->failed->message));
        f->ended = true;
        break;
    case SANDBOX_ENDED:
        check(event->ended->why <= ENGINE_WHY_KILLED);
        f->ended = true;
        break;
    case SANDBOX_ENGINE_GONE:
        check(event->error <= 0);
        f->engine_gone = true;
        break;
    case SANDBOX_LISTENING:
    case SANDBOX_PUT_DONE:
    case SANDBOX_EXITED:
    case SANDBOX_LAUNCHER_GONE:
    default:
        check(false);
    }
}

static void on_event(const struct sandbox_event *event, void *userdata)
{
    struct fuzz *f = userdata;

    check(f->sandbox);
    if (event->type == SANDBOX_LISTENING || event->type == SANDBOX_PUT_DONE ||
        event->type == SANDBOX_EXITED || event->type == SANDBOX_LAUNCHER_GONE)
        check_launcher_event(f, event);
    else
        check_engine_event(f, event);
    if (f->free_at_next_event)
        f->sandbox = sandbox_free(f->sandbox);
}

static void settle(struct fuzz *f)
{
    while (sd_event_run(f->event, 0) > 0)
        ;
}

/* ---- what its peers do */

static void send_packet(struct fuzz *f, int sock, const void *data, size_t size)
{
    union {
        char buffer[CMSG_SPACE(sizeof(int) * SENT_FDS_MAX)];
        struct cmsghdr c;
    } control = { 0 };
    struct iovec iov = { .iov_base = (void *)data, .iov_len = size };
    struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
    int fds[SENT_FDS_MAX], pair[2] = { -1, -1 };

    for (size_t i = 0; i < f->n_next; i++) {
        fds[i] = standing[f->next[i]];
        if (f->next[i] != LAUNCHER)
            continue;
        if (pair[0] < 0)
            check(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) >= 0);
        fds[i] = pair[1];
    }
    if (f->n_next > 0) {
        msg.msg_control = control.buffer;
        msg.msg_controllen = CMSG_SPACE(sizeof(int) * f->n_next);
        control.c.cmsg_level = SOL_SOCKET;
        control.c.cmsg_type = SCM_RIGHTS;
        control.c.cmsg_len = CMSG_LEN(sizeof(int) * f->n_next);
        memcpy(CMSG_DATA(&control.c), fds, sizeof(int) * f->n_next);
    }
    if (sock >= 0)
        (void)sendmsg(sock, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (pair[0] >= 0 && !f->ready) {
        close_fd(f->launcher);
        f->launcher = TAKE_FD(pair[0]);
    }
    close_fd(pair[0]);
    close_fd(pair[1]);
    f->n_next = 0;
}

static void send_ready(struct fuzz *f)
{
    static const char text[] = "{\"type\":\"ready\",\"version\":1,\"sandboxId\":\"s\"}";

    f->next[0] = WORKSPACE;
    f->next[1] = LAUNCHER;
    f->n_next = 2;
    send_packet(f, f->engine, text, sizeof(text) - 1);
}

/* A packet of the launcher's that is whole but for the bytes given, which are written over it. */
static void send_launcher(struct fuzz *f, enum launch_type type, size_t whole, const uint8_t *data,
                          size_t size)
{
    union {
        struct launch_header header;
        struct launch_listening listening;
        struct launch_put_done put_done;
        struct launch_exited exited;
        uint8_t bytes[512];
    } packet = { .header = { LAUNCH_PROTOCOL_VERSION, type } };

    if (type == LAUNCH_EXITED)
        packet.exited.kind = LAUNCH_EXIT_CODE;
    memcpy(packet.bytes + sizeof(packet.header), data, size);
    send_packet(f, f->launcher, &packet, whole);
}

/* ---- what the broker does */

static bool is_idle(const struct fuzz *f)
{
    return f->ready && !f->listen && !f->put && !f->gone_to_run && !f->launcher_gone;
}

static void ask_to_listen(struct fuzz *f)
{
    if (is_idle(f))
        f->listen = sandbox_listen(f->sandbox) >= 0;
}

static void put(struct fuzz *f, const char *name)
{
    if (is_idle(f))
        f->put = sandbox_put(f->sandbox, name, 0644, 1, standing[REGULAR]) >= 0;
}

static void go(struct fuzz *f)
{
    static char *const argv[] = { (char *)"true" }, *const environment[] = { (char *)"A=b" };

    if (is_idle(f))
        f->gone_to_run = sandbox_go(f->sandbox, argv, 1, environment, 1, "/", standing) >= 0;
}

/* ---- the list of steps */

/* One step: a letter, a length, and so many bytes. Returns how long it was. */
static size_t step(struct fuzz *f, const uint8_t *data, size_t size)
{
    size_t n = size > 1 ? data[1] : 0, used;
    const uint8_t *more = data + 2;

    if (size > 1 && n > size - 2)
        n = size - 2;
    used = size > 1 ? 2 + n : 1;
    switch (data[0]) {
    case 'f': /* the next packet has descriptors of these kinds */
        f->n_next = n < SENT_FDS_MAX ? n : SENT_FDS_MAX;
        for (size_t i = 0; i < f->n_next; i++)
            f->next[i] = more[i] % KINDS;
        return used;
    case 'e':
        send_packet(f, f->engine, more, n);
        break;
    case 'l':
        send_packet(f, f->launcher, more, n);
        break;
    case 'r':
        send_ready(f);
        break;
    case 'd':
        send_launcher(f, LAUNCH_PUT_DONE, sizeof(struct launch_put_done), more, n);
        break;
    case 'x':
        send_launcher(f, LAUNCH_EXITED, sizeof(struct launch_exited), more, n);
        break;
    case 'i':
        send_launcher(f, LAUNCH_LISTENING, sizeof(struct launch_listening), more, n);
        break;
    case 'E':
        f->engine = close_fd(f->engine);
        break;
    case 'L':
        f->launcher = close_fd(f->launcher);
        break;
    case 'F':
        f->free_at_next_event = true;
        return used;
    case 'g': /* glue: the next step comes before the broker looks */
        return used;
    default:
        break;
    }
    if (f->sandbox && data[0] == 'p')
        put(f, "name");
    else if (f->sandbox && data[0] == 'o')
        go(f);
    else if (f->sandbox && data[0] == 't')
        ask_to_listen(f);
    else if (f->sandbox && data[0] == 'k')
        (void)sandbox_kill(f->sandbox, n);
    else if (f->sandbox && data[0] == 'c')
        sandbox_close(f->sandbox);
    if (used == size || data[used] != 'g')
        settle(f);
    return used;
}

static unsigned count_fds(void)
{
    DIR *d = opendir("/proc/self/fd");
    unsigned n = 0;

    check(d != NULL);
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

/* In a network of its own, so that the port is free. */
static void open_listener(void)
{
    const struct sockaddr_in address = { .sin_family = AF_INET,
                                         .sin_port = htons(LAUNCH_LISTEN_PORT),
                                         .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    struct ifreq loopback = { .ifr_name = "lo", .ifr_flags = IFF_UP };

    check(unshare(CLONE_NEWNET) >= 0);
    standing[LISTENER] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    check(standing[LISTENER] >= 0 && ioctl(standing[LISTENER], SIOCSIFFLAGS, &loopback) >= 0);
    check(bind(standing[LISTENER], (const struct sockaddr *)&address, sizeof(address)) >= 0);
    check(listen(standing[LISTENER], 1) >= 0);
}

static void open_standing(void)
{
    int fs = fsopen("tmpfs", FSOPEN_CLOEXEC), mounted, pair[2], pipes[2];

    if (standing[WORKSPACE] > 0)
        return;
    check(fs >= 0 && fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) >= 0);
    mounted = fsmount(fs, FSMOUNT_CLOEXEC, 0);
    standing[WORKSPACE] = openat(mounted, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    check(standing[WORKSPACE] > 0);
    close_fd(fs);
    check(pipe2(pipes, O_CLOEXEC) >= 0);
    standing[PIPE] = pipes[0];
    standing[REGULAR] = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    standing[MACHINE] = open("/etc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    check(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) >= 0);
    standing[STREAM] = pair[0];
    open_listener();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct engine_start start = {
        .run_id = "0",
        .cpu_percent = 1,
        .tasks = 1,
        .workspace_inodes = 1,
        .memory_bytes = 1,
        .workspace_bytes = 1,
        .scratch_bytes = 1,
        .lifetime_usec = 1,
    };
    struct fuzz f = { .engine = -1, .launcher = -1 };
    int pair[2];

    open_standing();
    unsigned before = count_fds(); /* libFuzzer opens some of its own between two runs */
    check(sd_event_new(&f.event) >= 0);
    check(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) >= 0);
    f.engine = pair[0];
    check(sandbox_new(f.event, pair[1], &start, on_event, &f, &f.sandbox) >= 0);
    while (size > 0) {
        size_t used = step(&f, data, size);

        data += used;
        size -= used;
    }
    settle(&f);
    f.sandbox = sandbox_free(f.sandbox);
    close_fd(f.engine);
    close_fd(f.launcher);
    sd_event_unref(f.event);
    check(count_fds() == before);
    return 0;
}
