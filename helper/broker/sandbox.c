/* The broker's ends of an engine connection and a launcher's control socket, see sandbox.h. */
#include "broker/sandbox.h"
#include "broker/socket.h"
#include "broker/workspace.h"
#include "common/cleanup.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

/* The one word that the launcher owes us; it says nothing unasked. */
enum owed { OWED_NOTHING, OWED_LISTENING, OWED_PUT_DONE, OWED_EXITED };

struct sandbox {
    int engine, launcher, workspace;
    enum owed owed;
    sd_event_source *engine_source, *launcher_source;
    bool ready;
    bool exited;  /* the launcher said so */
    bool is_held; /* the engine's word, until the sandbox is removed */
    struct engine_ended held;
    sandbox_fn fn;
    void *userdata;
};

static void drop_launcher(struct sandbox *sandbox)
{
    sandbox->launcher_source = sd_event_source_disable_unref(sandbox->launcher_source);
    sandbox->launcher = close_fd(sandbox->launcher);
}

static void drop_engine(struct sandbox *sandbox)
{
    sandbox->engine_source = sd_event_source_disable_unref(sandbox->engine_source);
    sandbox->engine = close_fd(sandbox->engine);
}

void sandbox_close(struct sandbox *sandbox)
{
    drop_launcher(sandbox);
    drop_engine(sandbox);
}

int sandbox_take_engine(struct sandbox *sandbox)
{
    sandbox->engine_source = sd_event_source_disable_unref(sandbox->engine_source);
    return TAKE_FD(sandbox->engine);
}

struct sandbox *sandbox_free(struct sandbox *sandbox)
{
    if (!sandbox)
        return NULL;
    sandbox_close(sandbox);
    close_fd(sandbox->workspace);
    free(sandbox);
    return NULL;
}

int sandbox_workspace(const struct sandbox *sandbox)
{
    return sandbox->workspace;
}

/* A word that no launcher of ours says is no word: a program may have forged it. */
static bool is_exit(const struct launch_exited *exited)
{
    switch (exited->kind) {
    case LAUNCH_EXIT_CODE:
        return exited->value >= 0 && exited->value <= UINT8_MAX;
    case LAUNCH_EXIT_SIGNAL:
        return exited->value > 0 && exited->value < NSIG;
    case LAUNCH_EXIT_EXEC:
        return exited->value > 0 && strerrorname_np(exited->value);
    default:
        return false;
    }
}

union launcher_packet {
    struct launch_header header;
    struct launch_listening listening;
    struct launch_put_done put_done;
    struct launch_exited exited;
    char bytes[256];
};

/* What is not exactly the socket that was asked for is given to nobody. */
static bool is_listener(int fd)
{
    struct sockaddr_in address = { 0 };
    socklen_t size = sizeof(address);
    int type = 0, listens = 0;

    return getsockname(fd, (struct sockaddr *)&address, &size) == 0 && size == sizeof(address) &&
           address.sin_family == AF_INET && address.sin_addr.s_addr == htonl(INADDR_LOOPBACK) &&
           address.sin_port == htons(LAUNCH_LISTEN_PORT) &&
           getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &(socklen_t){ sizeof(type) }) == 0 &&
           type == SOCK_STREAM &&
           getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &(socklen_t){ sizeof(listens) }) ==
               0 &&
           listens;
}

static bool is_listening(const struct launch_listening *listening, const int *fds, size_t n_fds)
{
    return listening->error == 0 ? n_fds == 1 && is_listener(fds[0])
                                 : listening->error > 0 && n_fds == 0;
}

/* Everything from the launcher after go is as untrusted as the program: only a whole packet of the
 * kind that is due counts. */
static struct sandbox_event understand(struct sandbox *sandbox, const union launcher_packet *packet,
                                       size_t size, const int *fds, size_t n_fds)
{
    enum owed owed = sandbox->owed;

    sandbox->owed = OWED_NOTHING;
    if (size >= sizeof(packet->header) && packet->header.version == LAUNCH_PROTOCOL_VERSION) {
        if (owed == OWED_LISTENING && packet->header.type == LAUNCH_LISTENING &&
            size == sizeof(packet->listening) && is_listening(&packet->listening, fds, n_fds))
            return (struct sandbox_event){ SANDBOX_LISTENING,
                                           .listening = { packet->listening.error, fds[0] } };
        if (n_fds > 0)
            return (struct sandbox_event){ SANDBOX_LAUNCHER_GONE, .error = -EBADMSG };
        if (owed == OWED_PUT_DONE && packet->header.type == LAUNCH_PUT_DONE &&
            size == sizeof(packet->put_done) && packet->put_done.error >= 0)
            return (struct sandbox_event){ SANDBOX_PUT_DONE, .put_done = &packet->put_done };
        if (owed == OWED_EXITED && packet->header.type == LAUNCH_EXITED &&
            size == sizeof(packet->exited) && is_exit(&packet->exited))
            return (struct sandbox_event){ SANDBOX_EXITED, .exited = &packet->exited };
    }
    return (struct sandbox_event){ SANDBOX_LAUNCHER_GONE, .error = -EBADMSG };
}

static int on_launcher(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
    struct sandbox *sandbox = userdata;
    int fds[PACKET_FDS_MAX];
    size_t n_fds;
    union launcher_packet packet = { 0 };
    struct sandbox_event event = { .type = SANDBOX_LAUNCHER_GONE };
    ssize_t n = packet_recv(fd, &packet, sizeof(packet), fds, &n_fds);

    if (n == -EAGAIN)
        return 0;
    if (n <= 0)
        event.error = (int)n;
    else
        event = understand(sandbox, &packet, (size_t)n, fds, n_fds);
    if (event.type == SANDBOX_LAUNCHER_GONE)
        drop_launcher(sandbox);
    sandbox->exited = sandbox->exited || event.type == SANDBOX_EXITED;
    sandbox->fn(&event, sandbox->userdata);
    packet_close_fds(fds);
    return 0;
}

/* Anything else than a packet socket could make us wait. */
static int check_launcher(int fd)
{
    int domain, type;
    socklen_t size = sizeof(int);

    if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) < 0 ||
        getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) < 0)
        return -errno;
    return domain == AF_UNIX && type == SOCK_SEQPACKET ? 0 : -ESOCKTNOSUPPORT;
}

static int watch_launcher(struct sandbox *sandbox, sd_event *event)
{
    int r = check_launcher(sandbox->launcher);

    if (r < 0)
        return r;
    if (fcntl(sandbox->launcher, F_SETFL, O_NONBLOCK) < 0)
        return -errno;
    r = sd_event_add_io(event, &sandbox->launcher_source, sandbox->launcher, EPOLLIN, on_launcher,
                        sandbox);
    if (r < 0)
        return r;
    /* If both end at once, the launcher's last word on the program comes first. */
    return sd_event_source_set_priority(sandbox->launcher_source, SD_EVENT_PRIORITY_NORMAL - 1);
}

static int adopt_ready(struct sandbox *sandbox, int fds[PACKET_FDS_MAX], size_t n_fds)
{
    int r;

    if (sandbox->ready || n_fds != 2)
        return -EBADMSG;
    sandbox->ready = true;
    sandbox->workspace = TAKE_FD(fds[0]);
    sandbox->launcher = TAKE_FD(fds[1]);
    r = workspace_check(sandbox->workspace);
    return r < 0 ? r : watch_launcher(sandbox, sd_event_source_get_event(sandbox->engine_source));
}

/* Nothing but the launcher lives in a sandbox that stands, says the engine, which takes the last
 * process for it. Where the launcher did not say that the program ended, it may be the program: who
 * killed the launcher is not believed to be dead before all is. Returns whether more is to come. */
static bool hold_ended(struct sandbox *sandbox, const struct engine_ended *ended)
{
    if (sandbox->is_held || !ended->stands || sandbox->exited)
        return false;
    sandbox->is_held = true;
    sandbox->held = *ended;
    sandbox->held.stands = false;
    return true;
}

static int on_engine(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
    struct sandbox *sandbox = userdata;
    struct sandbox_event event = { .type = SANDBOX_ENGINE_GONE, .error = -EBADMSG };
    struct engine_message message;
    int fds[PACKET_FDS_MAX];
    size_t n_fds;
    int r = engine_recv(fd, &message, fds, &n_fds);

    if (r == -EAGAIN)
        return 0;
    if (r > 0 && message.type == ENGINE_ENDED && hold_ended(sandbox, &message.ended)) {
        packet_close_fds(fds);
        return 0;
    }
    if (r <= 0) {
        event.error = r;
    } else {
        switch (message.type) {
        case ENGINE_PROGRESS:
            event = (struct sandbox_event){ SANDBOX_PROGRESS, .progress = &message.progress };
            break;
        case ENGINE_READY:
            r = adopt_ready(sandbox, fds, n_fds);
            if (r < 0)
                event.error = r;
            else
                event = (struct sandbox_event){ SANDBOX_READY, .ready = &message.ready };
            break;
        case ENGINE_ENDED:
            event = (struct sandbox_event){ SANDBOX_ENDED, .ended = &message.ended };
            break;
        case ENGINE_ERROR:
            event = (struct sandbox_event){ SANDBOX_FAILED, .failed = &message.error };
            break;
        case ENGINE_REMOVED: /* is heard by who took the connection */
        case ENGINE_PREPARE:
        case ENGINE_PREPARED:
        case ENGINE_START:
        case ENGINE_KILL:
        default:
            break; /* not for us to hear */
        }
        packet_close_fds(fds);
    }
    if (sandbox->is_held) {
        bool cleaned = r > 0 && message.type == ENGINE_REMOVED && message.removed.cleaned;
        message.ended = sandbox->held;
        message.ended.cleaned = cleaned;
        event = (struct sandbox_event){ SANDBOX_ENDED, .ended = &message.ended };
    }
    /* After its last word there is nothing more to hear; the engine goes on cleaning and sees our
     * end of file when the sandbox is freed. */
    if (event.type == SANDBOX_ENDED || (event.type == SANDBOX_FAILED && !sandbox->ready))
        sandbox->engine_source = sd_event_source_disable_unref(sandbox->engine_source);
    if (event.type == SANDBOX_ENGINE_GONE)
        drop_engine(sandbox);
    sandbox->fn(&event, sandbox->userdata);
    return 0;
}

int sandbox_socket(const char *name, char ret[SANDBOX_SOCKET_MAX + 1])
{
    /* Policy admits no such name; a socket elsewhere could be anybody's. */
    if (name[0] == '.' || strchr(name, '/') ||
        snprintf(ret, SANDBOX_SOCKET_MAX + 1, ENGINE_SOCKET_DIR "/%s", name) > SANDBOX_SOCKET_MAX)
        return -ENOENT;
    return 0;
}

int sandbox_connect(const char *name)
{
    char path[SANDBOX_SOCKET_MAX + 1];
    int r = sandbox_socket(name, path);

    return r < 0 ? r : socket_connect_root(path);
}

int sandbox_new(sd_event *loop, int engine, const struct engine_start *start, sandbox_fn fn,
                void *userdata, struct sandbox **ret)
{
    struct engine_message message = { .type = ENGINE_START, .start = *start };
    struct sandbox *sandbox;
    int r;

    if (engine < 0)
        return engine;
    sandbox = calloc(1, sizeof(*sandbox));
    if (!sandbox) {
        close_fd(engine);
        return -ENOMEM;
    }
    *sandbox = (struct sandbox){
        .engine = engine, .launcher = -1, .workspace = -1, .fn = fn, .userdata = userdata
    };
    r = engine_send(engine, &message, NULL, 0);
    if (r >= 0)
        r = sd_event_add_io(loop, &sandbox->engine_source, engine, EPOLLIN, on_engine, sandbox);
    if (r < 0) {
        sandbox_free(sandbox);
        return r;
    }
    *ret = sandbox;
    return 0;
}

void sandbox_descriptors(const struct sandbox *sandbox, int ret[3])
{
    ret[0] = sandbox->engine;
    ret[1] = sandbox->launcher;
    ret[2] = sandbox->workspace;
}

int sandbox_restore(sd_event *loop, const int descriptors[3], sandbox_fn fn, void *userdata,
                    struct sandbox **ret)
{
    struct sandbox *sandbox = calloc(1, sizeof(*sandbox));
    int r;

    if (!sandbox) {
        for (size_t i = 0; i < 3; i++)
            close_fd(descriptors[i]);
        return -ENOMEM;
    }
    *sandbox = (struct sandbox){ .engine = descriptors[0],
                                 .launcher = descriptors[1],
                                 .workspace = descriptors[2],
                                 .owed = OWED_EXITED,
                                 .ready = true,
                                 .fn = fn,
                                 .userdata = userdata };
    r = workspace_check(sandbox->workspace);
    if (r >= 0 && sandbox->engine >= 0)
        r = sd_event_add_io(loop, &sandbox->engine_source, sandbox->engine, EPOLLIN, on_engine,
                            sandbox);
    if (r >= 0 && sandbox->launcher >= 0)
        r = watch_launcher(sandbox, loop);
    if (r < 0) {
        sandbox_free(sandbox);
        return r;
    }
    *ret = sandbox;
    return 0;
}

void sandbox_adopt(struct sandbox *sandbox, sandbox_fn fn, void *userdata)
{
    sandbox->fn = fn;
    sandbox->userdata = userdata;
}

bool sandbox_has_word(const struct sandbox *sandbox)
{
    struct pollfd fds[] = {
        { .fd = sandbox->engine, .events = POLLIN },
        { .fd = sandbox->launcher, .events = POLLIN },
    };

    return poll(fds, ELEMENTS(fds), 0) != 0;
}

int sandbox_listen(struct sandbox *sandbox)
{
    const struct launch_header listen = { LAUNCH_PROTOCOL_VERSION, LAUNCH_LISTEN };

    sandbox->owed = OWED_LISTENING;
    return packet_send(sandbox->launcher, &listen, sizeof(listen), NULL, 0);
}

int sandbox_put(struct sandbox *sandbox, const char *name, unsigned mode, uint64_t size, int fd)
{
    char packet[sizeof(struct launch_put) + LAUNCH_NAME_MAX];
    struct launch_put put = { { LAUNCH_PROTOCOL_VERSION, LAUNCH_PUT }, mode, 0, size };
    size_t length = strlen(name) + 1;

    if (length > LAUNCH_NAME_MAX)
        return -ENAMETOOLONG;
    memcpy(packet, &put, sizeof(put));
    memcpy(packet + sizeof(put), name, length);
    sandbox->owed = OWED_PUT_DONE;
    return packet_send(sandbox->launcher, packet, sizeof(put) + length, &fd, 1);
}

static int append(char *packet, size_t *size, const char *string)
{
    size_t length = strlen(string) + 1;

    if (length > LAUNCH_PACKET_MAX - *size)
        return -E2BIG;
    memcpy(packet + *size, string, length);
    *size += length;
    return 0;
}

static int send_program(struct sandbox *sandbox, enum launch_type type, char *const *argv,
                        size_t n_argv, char *const *environment, size_t n_environment,
                        const char *directory, const int stdio[3])
{
    _cleanup_free_ char *packet = malloc(LAUNCH_PACKET_MAX);
    struct launch_go go = { { LAUNCH_PROTOCOL_VERSION, type },
                            (uint32_t)n_argv,
                            (uint32_t)n_environment };
    size_t size = sizeof(go);
    int r = 0;

    if (!packet)
        return -ENOMEM;
    memcpy(packet, &go, sizeof(go));
    for (size_t i = 0; r >= 0 && i < n_argv; i++)
        r = append(packet, &size, argv[i]);
    for (size_t i = 0; r >= 0 && i < n_environment; i++)
        r = append(packet, &size, environment[i]);
    if (r >= 0)
        r = append(packet, &size, directory);
    return r < 0 ? r : packet_send(sandbox->launcher, packet, size, stdio, 3);
}

int sandbox_go(struct sandbox *sandbox, char *const *argv, size_t n_argv, char *const *environment,
               size_t n_environment, const char *directory, const int stdio[3])
{
    sandbox->owed = OWED_EXITED;
    return send_program(sandbox, LAUNCH_GO, argv, n_argv, environment, n_environment, directory,
                        stdio);
}

int sandbox_warm(struct sandbox *sandbox, char *const *argv, size_t n_argv,
                 char *const *environment, size_t n_environment, const char *directory,
                 const int stdio[3])
{
    return send_program(sandbox, LAUNCH_WARM, argv, n_argv, environment, n_environment, directory,
                        stdio);
}

int sandbox_release(struct sandbox *sandbox)
{
    const struct launch_header release = { LAUNCH_PROTOCOL_VERSION, LAUNCH_RELEASE };

    sandbox->owed = OWED_EXITED;
    return packet_send(sandbox->launcher, &release, sizeof(release), NULL, 0);
}

static bool is_gone(int error)
{
    return error == -EPIPE || error == -ECONNRESET;
}

int sandbox_kill(struct sandbox *sandbox, uint64_t grace_usec)
{
    struct engine_message message = { .type = ENGINE_KILL, .kill.grace_usec = grace_usec };

    if (sandbox->engine < 0)
        return -ENOTCONN;
    int r = engine_send(sandbox->engine, &message, NULL, 0);
    return is_gone(r) && sandbox->engine_source ? 0 : r;
}
