/* sbxctl-launch: the first process in a sandbox. It waits on the control socket, makes the input
 * files, starts the user's program with the descriptors it is given, and reports how that ended
 * (protocol.h). Started by an engine as the sandbox's user, without capabilities; must never act on
 * anything that the program says, and treats every malformed packet, like the end of the socket, as
 * the end of the run.
 *
 * No heap, one thread, no libraries: static storage is bounded by the protocol's limits. */
#include "launch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/packet.h"
#include "protocol.h"

/* Everything else is closed before the first packet, so the number is free. */
#define CONTROL_FD 3

/* The packet that is being handled. */
static union {
    char bytes[LAUNCH_PACKET_MAX];
    struct launch_header header;
    struct launch_put put;
    struct launch_go go;
} packet;

static bool is_init;
/* Something untrusted ran, or tried to. */
static bool went;
/* A container's engine reaches only PID 1 with a signal, systemd reaches every process. */
static bool forwards;

/* As PID 1 of the sandbox's own namespace this reaches everything in it. Elsewhere -1 would reach
 * strangers (all of a machine, if the uid is root's): there only the program's process group goes,
 * and the engine ends the rest by the cgroup. */
static void kill_everything(pid_t program)
{
    if (is_init)
        kill(-1, SIGKILL);
    else if (program > 0)
        kill(-program, SIGKILL);
}

static _Noreturn void end(int status, pid_t program)
{
    kill_everything(program);
    _exit(status);
}

/* ---- setting up */

static int connect_to(const char *path)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };

    if (strlen(path) >= sizeof(address.sun_path))
        return -ENAMETOOLONG;
    strcpy(address.sun_path, path);

    int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (sock < 0)
        return -errno;
    if (connect(sock, (struct sockaddr *)&address, sizeof(address)) < 0)
        return -errno;
    return sock;
}

/* Leaves the control socket as CONTROL_FD, /dev/null as 0 to 2, and nothing else open. */
static int settle_descriptors(int control)
{
    int type = 0;
    socklen_t size = sizeof(type);

    if (getsockopt(control, SOL_SOCKET, SO_TYPE, &type, &size) < 0)
        return -errno;
    if (type != SOCK_SEQPACKET)
        return -ESOCKTNOSUPPORT;
    if (control == CONTROL_FD ? fcntl(control, F_SETFD, FD_CLOEXEC) < 0
                              : dup3(control, CONTROL_FD, O_CLOEXEC) < 0)
        return -errno;
    if (close_range(CONTROL_FD + 1, ~0U, 0) < 0)
        return -errno;

    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0)
        return -errno;
    for (int fd = 0; fd < CONTROL_FD; fd++)
        if (dup2(null, fd) < 0)
            return -errno;
    close(null);
    return 0;
}

static int set_limits(void)
{
    /* POSIX message queues would be storage that no size limit counts. */
    static const int zero[] = { RLIMIT_CORE, RLIMIT_MSGQUEUE, RLIMIT_RTPRIO, RLIMIT_NICE };

    for (size_t i = 0; i < ELEMENTS(zero); i++)
        if (setrlimit(zero[i], &(struct rlimit){ 0, 0 }) < 0)
            return -errno;
    return 0;
}

/* Gives up what can be given up, and closes the doors by which a program of the same user could get
 * at this process: it is not dumpable, hence not to be traced and its /proc files are root's. */
static int harden(void)
{
    sigset_t all;

    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return -errno;
    umask(022);
    /* SIGTERM is for the programs: this process ends with its socket, or by SIGKILL. */
    sigfillset(&all);
    if (sigprocmask(SIG_SETMASK, &all, NULL) < 0)
        return -errno;
    return set_limits();
}

/* SIGCHLD; and SIGTERM, if it comes to this process alone and is to be handed on. */
static int watch_signals(void)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    if (forwards)
        sigaddset(&set, SIGTERM);
    int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return fd < 0 ? -errno : fd;
}

static int send_ready(int workspace)
{
    struct launch_ready ready = {
        .header = { LAUNCH_PROTOCOL_VERSION, LAUNCH_READY },
        .uid = getuid(),
        .gid = getgid(),
        .pid_namespace = is_init,
    };
    return packet_send(CONTROL_FD, &ready, sizeof(ready), &workspace, 1);
}

/* ---- put */

static int handle_put(int workspace, size_t size, int fds[PACKET_FDS_MAX], size_t n_fds)
{
    struct launch_put_done done = { .header = { LAUNCH_PROTOCOL_VERSION, LAUNCH_PUT_DONE } };
    const char *name;

    if (n_fds != 1 || launch_parse_put(packet.bytes, size, &name) < 0)
        return -EBADMSG;
    warm_make_room(workspace, name);
    int r = put_file(workspace, name, packet.put.mode, fds[0], packet.put.size, &done);
    done.error = -r;
    return packet_send(CONTROL_FD, &done, sizeof(done), NULL, 0);
}

/* ---- listen */

static int handle_listen(size_t size, size_t n_fds)
{
    struct launch_listening listening = { .header = { LAUNCH_PROTOCOL_VERSION, LAUNCH_LISTENING } };

    if (size != sizeof(packet.header) || n_fds != 0 || went)
        return -EBADMSG;
    _cleanup_close_ int sock = listen_on_loopback();
    if (sock < 0)
        listening.error = -sock;
    return packet_send(CONTROL_FD, &listening, sizeof(listening), &sock, sock < 0 ? 0 : 1);
}

/* ---- go */

/* Makes the kernel take the program and not the launcher when memory runs out. The file belongs to
 * root as long as a process is not dumpable; the exec that follows would make it dumpable anyway.
 */
static void offer_to_oom_killer(void)
{
    prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    if (write(fd, "1000", 4) < 0) {
        /* Only a preference, and where it stands at 1000 already it may be refused. */
    }
    close(fd);
}

/* In the child: becomes the program, or returns why not. */
static int become(const struct launch_program *program, const int stdio[3])
{
    sigset_t none;

    close(CONTROL_FD);
    if (setsid() < 0)
        return -errno;
    for (int fd = 0; fd < 3; fd++)
        if (dup2(stdio[fd], fd) < 0)
            return -errno;
    /* systemd ignores SIGPIPE for us; a program expects the defaults. */
    for (int sig = 1; sig < NSIG; sig++)
        signal(sig, SIG_DFL);
    sigemptyset(&none);
    if (sigprocmask(SIG_SETMASK, &none, NULL) < 0)
        return -errno;
    offer_to_oom_killer();
    if (chdir(program->directory) < 0)
        return -errno;
    int r = seccomp_install();
    if (r < 0)
        return r;
    warm_await_end();
    /* execvp() looks in the PATH of this environment, which is the program's own by now. */
    environ = (char **)program->env;
    execvp(program->argv[0], program->argv);
    return -errno;
}

pid_t launch_start(const struct launch_program *program, const int stdio[3], int *ret_error)
{
    int report[2], error = 0;

    if (pipe2(report, O_CLOEXEC) < 0)
        return -errno;
    pid_t pid = fork();
    if (pid < 0) {
        *ret_error = errno;
        close(report[0]);
        close(report[1]);
        return 0;
    }
    if (pid == 0) {
        error = -become(program, stdio);
        if (write(report[1], &error, sizeof(error)) < 0)
            _exit(126);
        _exit(127);
    }

    close(report[1]);
    ssize_t n = read(report[0], &error, sizeof(error));
    close(report[0]);
    if (n == 0)
        return pid;
    waitpid(pid, NULL, 0);
    *ret_error = n == sizeof(error) ? error : EIO;
    return 0;
}

/* @workspace is -1 if nothing ran. */
static int send_exited(enum launch_exit_kind kind, int value, const struct rusage *usage,
                       uint32_t leftovers, int workspace)
{
    struct launch_exited exited = {
        .header = { LAUNCH_PROTOCOL_VERSION, LAUNCH_EXITED },
        .kind = kind,
        .value = value,
        .leftovers = leftovers,
        .alone = is_init,
    };
    if (usage)
        exited.cpu_usec = (uint64_t)(usage->ru_utime.tv_sec + usage->ru_stime.tv_sec) * 1000000 +
                          (uint64_t)(usage->ru_utime.tv_usec + usage->ru_stime.tv_usec);
    if (workspace >= 0)
        space_measure(workspace, &exited);
    return packet_send(CONTROL_FD, &exited, sizeof(exited), NULL, 0);
}

static int started(pid_t pid, int error, pid_t *ret_program)
{
    if (pid < 0)
        return pid;
    *ret_program = pid;
    return pid > 0 ? 0 : send_exited(LAUNCH_EXIT_EXEC, error, NULL, 0, -1);
}

static int handle_go(int workspace, size_t size, int fds[PACKET_FDS_MAX], size_t n_fds,
                     pid_t *ret_program)
{
    static struct launch_program program;
    int error = 0;

    if (n_fds != 3 || launch_parse_go(packet.bytes, size, &program) < 0)
        return -EBADMSG;
    went = true;
    warm_end(workspace);
    pid_t pid = launch_start(&program, fds, &error);
    return started(pid, error, ret_program);
}

static int handle_warm(int workspace, size_t size, int fds[PACKET_FDS_MAX], size_t n_fds)
{
    return n_fds == 3 && !went ? warm_begin(workspace, packet.bytes, size, fds) : -EBADMSG;
}

static int handle_release(int workspace, size_t size, size_t n_fds, pid_t *ret_program)
{
    int error = 0;

    if (size != sizeof(packet.header) || n_fds != 0)
        return -EBADMSG;
    went = true;
    pid_t pid = warm_release(workspace, &error);
    return started(pid, error, ret_program);
}

/* ---- the end of a program */

/* Kills what the program left behind and returns how many processes that were. Those that ended by
 * themselves and only waited to be reaped do not count. */
static uint32_t end_leftovers(void)
{
    uint32_t n = 0;

    if (!is_init)
        return 0;
    while (waitpid(-1, NULL, WNOHANG) > 0)
        ;
    /* The kernel does not let a fork slip through between the signals (fork(2) restarts when one is
     * pending). */
    if (kill(-1, SIGKILL) < 0)
        return 0;
    while (waitpid(-1, NULL, 0) > 0)
        n++;
    return n;
}

/* Reaps whatever ended. Returns 0, or a negative errno if the report could not be sent. */
static int handle_signals(int workspace, int signals, pid_t *program)
{
    struct signalfd_siginfo info;
    struct rusage usage;
    int status;
    pid_t pid;

    while (read(signals, &info, sizeof(info)) > 0)
        if (info.ssi_signo == SIGTERM)
            kill(-1, SIGTERM);
    while ((pid = wait4(-1, &status, WNOHANG, &usage)) > 0) {
        warm_reaped(pid);
        if (pid != *program)
            continue;
        *program = 0;
        uint32_t leftovers = end_leftovers();
        if (WIFSIGNALED(status))
            return send_exited(LAUNCH_EXIT_SIGNAL, WTERMSIG(status), &usage, leftovers, workspace);
        return send_exited(LAUNCH_EXIT_CODE, WEXITSTATUS(status), &usage, leftovers, workspace);
    }
    return 0;
}

/* ---- the loop */

/* Handles one packet. Returns 1 to go on, 0 at a regular end, or a negative errno: all of them end
 * the run. */
static int handle_packet(int workspace, pid_t *program)
{
    int fds[PACKET_FDS_MAX], r = -EBADMSG;
    size_t n_fds;

    ssize_t size = packet_recv(CONTROL_FD, packet.bytes, sizeof(packet.bytes), fds, &n_fds);
    if (size <= 0)
        return (int)size;
    if ((size_t)size < sizeof(packet.header) || packet.header.version != LAUNCH_PROTOCOL_VERSION)
        return -EBADMSG;

    if (packet.header.type == LAUNCH_BYE)
        return 0;
    if (packet.header.type == LAUNCH_PUT && *program == 0)
        r = handle_put(workspace, (size_t)size, fds, n_fds);
    else if (packet.header.type == LAUNCH_LISTEN)
        r = handle_listen((size_t)size, n_fds);
    else if (packet.header.type == LAUNCH_GO && *program == 0)
        r = handle_go(workspace, (size_t)size, fds, n_fds, program);
    else if (packet.header.type == LAUNCH_WARM && *program == 0)
        r = handle_warm(workspace, (size_t)size, fds, n_fds);
    else if (packet.header.type == LAUNCH_RELEASE && *program == 0)
        r = handle_release(workspace, (size_t)size, n_fds, program);
    packet_close_fds(fds);
    return r < 0 ? r : 1;
}

static int serve(int workspace, int signals, pid_t *program)
{
    struct pollfd poll_fds[] = {
        { .fd = CONTROL_FD, .events = POLLIN },
        { .fd = signals, .events = POLLIN },
    };

    for (;;) {
        if (poll(poll_fds, ELEMENTS(poll_fds), -1) < 0)
            return -errno;
        if (poll_fds[1].revents) {
            int r = handle_signals(workspace, signals, program);
            if (r < 0)
                return r;
        }
        if (poll_fds[0].revents) {
            int r = handle_packet(workspace, program);
            if (r <= 0)
                return r;
        }
    }
}

int launch_main(const char *workspace_path, int argc, char *argv[])
{
    pid_t program = 0;
    int control = STDIN_FILENO;

    is_init = getpid() == 1;
    bool searched = argc == 3 && strcmp(argv[1], "--socket-in-searched") == 0;
    if (searched || (argc == 3 && strcmp(argv[1], "--socket") == 0)) {
        forwards = is_init;
        /* The root of a unit is ours; that of a container came from somebody. */
        if (is_init && !searched && nodes_search("/") < 0)
            return LAUNCH_STATUS_NODES;
        control = connect_to(argv[2]);
    } else if (argc != 1) {
        return 64;
    }

    if (control < 0 || settle_descriptors(control) < 0 || harden() < 0)
        return EXIT_FAILURE;
    int workspace = open(workspace_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int signals = watch_signals();
    if (workspace < 0 || signals < 0 || send_ready(workspace) < 0)
        return EXIT_FAILURE;

    int r = serve(workspace, signals, &program);
    warm_end(workspace);
    end(r < 0 ? EXIT_FAILURE : EXIT_SUCCESS, program);
}
