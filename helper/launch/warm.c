/* A program that waits for its script: started before there is one, it finds a FIFO in its place,
 * and opening that blocks until the script is written into it. By then the path leads to the
 * script's file, as it would for a program that is started the usual way. So an interpreter has all
 * of its start behind it, with the very command line and environment that it would have had. Called
 * by launch.c. */
#include "launch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/file.h"

static struct {
    union {
        char bytes[LAUNCH_PACKET_MAX];
        struct launch_go go;
    } packet;
    struct launch_program program;
    const char *script; /* its name in the workspace; NULL: nothing waits */
    int fifo;           /* O_PATH, until the file takes its place */
    int writer;         /* of the FIFO from then on; -1: the program had not come to it */
    int stdio[3];
    pid_t pid; /* 0: it ended by itself */
} warm = { .fifo = -1, .writer = -1, .stdio = { -1, -1, -1 } };

/* pidfd of one that was killed; until this process ends. */
static int dying = -1;

static void forget(void)
{
    warm.fifo = close_fd(warm.fifo);
    warm.writer = close_fd(warm.writer);
    for (size_t i = 0; i < 3; i++)
        warm.stdio[i] = close_fd(warm.stdio[i]);
    warm.script = NULL;
    warm.pid = 0;
}

/* The kernel takes as long to take an interpreter down as another program takes to get ready. */
static void kill_waiting(void)
{
    if (warm.pid == 0)
        return;
    dying = (int)syscall(SYS_pidfd_open, warm.pid, 0);
    kill(-warm.pid, SIGKILL);
    if (dying < 0)
        waitpid(warm.pid, NULL, 0);
    warm.pid = 0;
}

void warm_await_end(void)
{
    struct pollfd ended = { .fd = dying, .events = POLLIN };

    while (dying >= 0 && poll(&ended, 1, -1) < 0 && errno == EINTR)
        ;
}

/* The last argument, if it is a file right in the program's directory. */
static const char *find_script(const struct launch_program *program, uint32_t n_argv)
{
    const char *path = program->argv[n_argv - 1];
    size_t length = strlen(program->directory);

    if (n_argv < 2 || strncmp(path, program->directory, length) != 0 || path[length] != '/')
        return NULL;
    path += length + 1;
    return *path != '\0' && !strchr(path, '/') ? path : NULL;
}

static int make_fifo(int workspace)
{
    if (mkfifoat(workspace, warm.script, 0600) < 0)
        return -errno;
    warm.fifo = openat(workspace, warm.script, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    return warm.fifo < 0 ? -errno : 0;
}

int warm_begin(int workspace, const char *packet, size_t size, int fds[3])
{
    int error = 0;

    if (warm.script)
        return -EBADMSG;
    memcpy(warm.packet.bytes, packet, size);
    if (launch_parse_go(warm.packet.bytes, size, &warm.program) < 0)
        return -EBADMSG;
    warm.script = find_script(&warm.program, warm.packet.go.n_argv);
    if (!warm.script)
        return -EBADMSG;
    for (size_t i = 0; i < 3; i++)
        warm.stdio[i] = TAKE_FD(fds[i]);
    int r = make_fifo(workspace);
    if (r < 0)
        return r;
    warm.pid = launch_start(&warm.program, warm.stdio, &error);
    return warm.pid > 0 ? 0 : warm.pid < 0 ? (int)warm.pid : -error;
}

void warm_end(int workspace)
{
    if (!warm.script)
        return;
    kill_waiting();
    if (warm.fifo >= 0)
        unlinkat(workspace, warm.script, 0);
    forget();
}

void warm_reaped(pid_t pid)
{
    if (pid == warm.pid)
        warm.pid = 0;
}

/* Lets the program go on, as far as the first byte, if it has come to the FIFO; else it would see
 * the file while that is being made. */
static void open_writer(void)
{
    char path[32];

    snprintf(path, sizeof(path), "/proc/self/fd/%d", warm.fifo);
    warm.writer = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    if (warm.writer < 0)
        kill_waiting();
    warm.fifo = close_fd(warm.fifo);
}

void warm_make_room(int workspace, const char *name)
{
    size_t length = warm.script ? strlen(warm.script) : 0;

    if (warm.fifo < 0 || strncmp(name, warm.script, length) != 0)
        return;
    if (name[length] == '/') {
        warm_end(workspace);
    } else if (name[length] == '\0') {
        unlinkat(workspace, warm.script, 0);
        open_writer();
    }
}

/* The FIFO takes all of it, or the program gets nothing. */
static int hand_over(int workspace)
{
    char buffer[4096];
    struct stat st;

    if (warm.pid == 0 || warm.writer < 0)
        return -ESRCH;
    _cleanup_close_ int file = openat(workspace, warm.script, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (file < 0 || fstat(file, &st) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode) || st.st_size > fcntl(warm.writer, F_GETPIPE_SZ))
        return -EFBIG;
    for (off_t done = 0; done < st.st_size;) {
        ssize_t n = pread_full(file, buffer, sizeof(buffer), done);
        if (n <= 0)
            return n < 0 ? (int)n : -EIO;
        int r = write_all(warm.writer, buffer, (size_t)n);
        if (r < 0)
            return r;
        done += n;
    }
    return 0;
}

pid_t warm_release(int workspace, int *ret_error)
{
    if (!warm.script)
        return -EBADMSG;
    pid_t pid = warm.pid;
    if (hand_over(workspace) < 0) {
        kill_waiting();
        pid = launch_start(&warm.program, warm.stdio, ret_error);
    }
    forget();
    return pid;
}
