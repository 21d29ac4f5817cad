/* The way of the launcher out of its container, see control.h. */
#include "control.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include "common/cleanup.h"
#include "common/clock.h"

static void make_path(const char *runtime, uint64_t connection, char ret[CONTROL_PATH_MAX])
{
    snprintf(ret, CONTROL_PATH_MAX, "%s/run-%" PRIu64 "/control", runtime, connection);
}

int control_listen(struct control *control, const char *runtime, uint64_t connection)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };

    make_path(runtime, connection, address.sun_path);
    control->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (control->listener < 0 ||
        bind(control->listener, (struct sockaddr *)&address, sizeof(address)) < 0)
        return -errno;
    strcpy(control->path, address.sun_path);
    /* For the sandbox's user, whose number is another one outside if users are remapped. The
     * directory above lets nobody in. */
    if (chmod(control->path, 0666) < 0 || listen(control->listener, 4) < 0)
        return -errno;
    return 0;
}

void control_stop_listening(struct control *control)
{
    if (control->path[0] != '\0')
        unlink(control->path);
    control->path[0] = '\0';
    control->listener = close_fd(control->listener);
}

void control_turn_away(struct control *control)
{
    control->sock = close_fd(control->sock);
    control->launcher = close_fd(control->launcher);
}

static int take(struct control *control, int sock)
{
    struct ucred peer;
    socklen_t size = sizeof(peer);

    control->sock = sock;
    if (getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0)
        return -errno;
    control->pid = peer.pid;
    control->launcher = (int)syscall(SYS_pidfd_open, peer.pid, 0);
    return control->launcher < 0 ? -errno : 0;
}

int control_accept(struct control *control, int broker, uint64_t deadline_usec)
{
    for (;;) {
        struct pollfd fds[] = {
            { .fd = broker, .events = POLLIN },
            { .fd = control->listener, .events = POLLIN },
        };
        int r = poll_until(fds, ELEMENTS(fds), deadline_usec);
        if (r < 0)
            return r;
        if (r == 0)
            return -ETIMEDOUT;
        if (fds[0].revents)
            return -ECANCELED;
        int sock = accept4(control->listener, NULL, NULL, SOCK_CLOEXEC);
        if (sock >= 0 && take(control, sock) >= 0)
            return 0;
        control_turn_away(control);
    }
}

int control_network(int sock, uint64_t *ret)
{
    socklen_t size = sizeof(*ret);

    return getsockopt(sock, SOL_SOCKET, SO_NETNS_COOKIE, ret, &size) < 0 ? -errno : 0;
}

bool control_hang_up(struct control *control, uint64_t timeout_usec)
{
    struct pollfd fd = { .fd = control->launcher, .events = POLLIN };

    if (control->launcher < 0 || shutdown(control->sock, SHUT_RDWR) < 0)
        return false;
    return poll_until(&fd, 1, clock_now() + timeout_usec) > 0;
}

void control_close(struct control *control)
{
    control_stop_listening(control);
    control_turn_away(control);
}

void control_remove(const char *runtime, uint64_t connection)
{
    char path[CONTROL_PATH_MAX];

    make_path(runtime, connection, path);
    unlink(path);
}

/* ---- control group */

/* "0::/path" of version 2, or "4:memory:/path" of version 1, which counts if it is there. */
static const char *find_path(char *text)
{
    const char *found = NULL;
    char *rest = text;

    for (char *line; (line = strsep(&rest, "\n")) && *line;) {
        char *controllers = strchr(line, ':');
        char *path = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!path)
            continue;
        *path++ = '\0';
        if (strcmp(controllers + 1, "memory") == 0)
            return path;
        if (controllers[1] == '\0')
            found = path;
    }
    return found;
}

void control_cgroup(pid_t pid, char ret[CONTROL_CGROUP_MAX])
{
    char path[64], buffer[4096];

    ret[0] = '\0';
    snprintf(path, sizeof(path), "/proc/%d/cgroup", pid);
    _cleanup_close_ int fd = pid > 0 ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0)
        return;
    /* What does not fit is one more line of a controller that does not matter. */
    ssize_t n = read(fd, buffer, sizeof(buffer) - 1);
    if (n <= 0)
        return;
    buffer[n] = '\0';
    const char *found = find_path(buffer);
    if (found && strlen(found) < CONTROL_CGROUP_MAX)
        strcpy(ret, found);
}
