/* The accept loop of the engine services, see service.h. */
#include "service.h"

#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <systemd/sd-daemon.h>

#include "common/cleanup.h"
#include "common/peer.h"

static int find_peer(uid_t *ret)
{
    errno = 0;
    const struct passwd *entry = getpwnam(ENGINE_SERVICE_PEER);
    if (!entry) {
        fprintf(stderr, SD_ERR "There is no user '%s'.\n", ENGINE_SERVICE_PEER);
        return errno > 0 ? -errno : -ENOENT;
    }
    *ret = entry->pw_uid;
    return 0;
}

static int take_listener(void)
{
    int n = sd_listen_fds(1);

    if (n != 1 || sd_is_socket_unix(SD_LISTEN_FDS_START, SOCK_SEQPACKET, 1, NULL, 0) <= 0) {
        fprintf(stderr,
                SD_ERR "To be started by its socket unit, with one SOCK_SEQPACKET socket.\n");
        return n < 0 ? n : -ENOTCONN;
    }
    return SD_LISTEN_FDS_START;
}

static int take_signals(void)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
        return -errno;
    int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return fd < 0 ? -errno : fd;
}

int engine_service_open(struct engine_service *service)
{
    *service = (struct engine_service){ .listener = -1, .signals = -1 };

    int r = find_peer(&service->peer);
    if (r < 0)
        return r;
    service->listener = take_listener();
    if (service->listener < 0)
        return service->listener;
    service->signals = take_signals();
    return service->signals < 0 ? service->signals : 0;
}

/* ---- processes */

/* As fork(). The child has the default signals, not a descriptor of the service, and dies with it.
 */
static pid_t spawn(struct engine_service *service, uint64_t connection)
{
    pid_t parent = getpid();
    sigset_t none;

    pid_t pid = fork();
    if (pid < 0)
        return -errno;
    if (pid > 0) {
        service->children[service->n_children++] =
            (struct engine_service_child){ .pid = pid, .connection = connection };
        return pid;
    }
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent)
        _exit(EXIT_FAILURE);
    service->listener = close_fd(service->listener);
    service->signals = close_fd(service->signals);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    return 0;
}

/* Forgets an ended child. Returns its connection if it ended otherwise than it should, else 0. */
static uint64_t forget(struct engine_service *service, pid_t pid, int status)
{
    for (size_t i = 0; i < service->n_children; i++) {
        if (service->children[i].pid != pid)
            continue;
        uint64_t connection = service->children[i].connection;
        service->children[i] = service->children[--service->n_children];
        return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : connection;
    }
    return 0;
}

/* Reaps one child. Returns 1 in a new process with @ret if something is to be cleaned up, 0 if
 * there is nothing more to reap, 2 if there may be, or a negative errno. */
static int reap(struct engine_service *service, struct engine_service_event *ret)
{
    int status;

    pid_t pid = waitpid(-1, &status, WNOHANG);
    if (pid <= 0)
        return 0;
    uint64_t connection = forget(service, pid, status);
    if (connection == 0)
        return 2;
    fprintf(stderr, SD_WARNING "Connection %llu died (wait status %d), cleaning up.\n",
            (unsigned long long)connection, status);
    pid = spawn(service, 0);
    if (pid != 0)
        return pid < 0 ? (int)pid : 2;
    *ret = (struct engine_service_event){ ENGINE_SERVICE_LOST, -1, connection };
    return 1;
}

/* Returns 1 with @ret for the caller, 0 to go on waiting, or a negative errno. */
static int handle_signals(struct engine_service *service, struct engine_service_event *ret)
{
    struct signalfd_siginfo info;
    int r;

    while (read(service->signals, &info, sizeof(info)) > 0)
        if (info.ssi_signo != SIGCHLD) {
            *ret = (struct engine_service_event){ ENGINE_SERVICE_DONE, -1, 0 };
            return 1;
        }
    do
        r = reap(service, ret);
    while (r == 2);
    return r;
}

/* ---- connections */

static bool peer_is_allowed(const struct engine_service *service, int sock)
{
    _cleanup_(peer_release) struct peer peer = PEER_NULL;

    int r = peer_acquire(sock, &peer);
    if (r >= 0 && peer.uid == service->peer)
        return true;
    fprintf(stderr, SD_WARNING "Refused a connection of uid %u: only '%s' may ask for sandboxes.\n",
            peer.uid, ENGINE_SERVICE_PEER);
    return false;
}

/* Returns 1 in a new process with @ret, 0 to go on waiting, or a negative errno. */
static int handle_connection(struct engine_service *service, struct engine_service_event *ret)
{
    _cleanup_close_ int sock = accept4(service->listener, NULL, NULL, SOCK_CLOEXEC);

    /* Whoever was there hung up meanwhile, or descriptors are short: the next one may have more
     * luck. */
    if (sock < 0)
        return errno == EBADF || errno == EINVAL ? -errno : 0;
    if (!peer_is_allowed(service, sock))
        return 0;
    uint64_t connection = ++service->last_connection;
    pid_t pid = spawn(service, connection);
    if (pid < 0)
        fprintf(stderr, SD_ERR "Cannot fork for a connection: %s\n", strerror(-pid));
    if (pid != 0)
        return 0;
    *ret = (struct engine_service_event){ ENGINE_SERVICE_CONNECTION, TAKE_FD(sock), connection };
    return 1;
}

int engine_service_wait(struct engine_service *service, struct engine_service_event *ret)
{
    for (;;) {
        /* One place stays free for cleaning up. */
        bool full = service->n_children >= ENGINE_SERVICE_CONNECTIONS_MAX - 1;
        int timeout = service->n_children == 0 ? (int)(ENGINE_SERVICE_IDLE_USEC / 1000) : -1;
        struct pollfd fds[] = {
            { .fd = service->signals, .events = POLLIN },
            { .fd = full ? -1 : service->listener, .events = POLLIN },
        };

        int r = poll(fds, ELEMENTS(fds), timeout);
        if (r < 0)
            return -errno;
        if (r == 0) {
            /* A connection that comes now stays in the queue, and systemd starts the service again
             * for it. */
            *ret = (struct engine_service_event){ ENGINE_SERVICE_DONE, -1, 0 };
            return 0;
        }
        r = fds[0].revents ? handle_signals(service, ret) : 0;
        if (r == 0 && fds[1].revents)
            r = handle_connection(service, ret);
        if (r != 0)
            return r < 0 ? r : 0;
    }
}
