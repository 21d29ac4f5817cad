/* sbxctl-launch as an ordinary process, with a temporary folder as its workspace. What only holds
 * in a real sandbox (a PID namespace, no privileges) is tested in tests/functional/test_engine.py.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "common/packet.h"
#include "launch/launch.h"

struct bench {
    char workspace[32];
    pid_t launcher;
    int control, workspace_fd;
    struct launch_ready ready;
};

/* ---- the broker's side */

static void receive(struct bench *b, void *data, size_t size, uint32_t type,
                    int fds[PACKET_FDS_MAX])
{
    const struct launch_header *header = data;
    size_t n;

    assert_int_equal(packet_recv(b->control, data, size, fds, &n), size);
    assert_int_equal(header->version, LAUNCH_PROTOCOL_VERSION);
    assert_int_equal(header->type, type);
}

/* Runs launch_main() in a process of its own, which ends with it. */
static pid_t launch(const char *workspace, int control, int argc, char *argv[])
{
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        /* What a program must not inherit. */
        umask(0);
        signal(SIGPIPE, SIG_IGN);
        signal(SIGUSR1, SIG_IGN);
        if (chdir(workspace) < 0 || dup2(control, STDIN_FILENO) < 0)
            _exit(99);
        _exit(launch_main(".", argc, argv));
    }
    return pid;
}

static void get_ready(struct bench *b)
{
    int fds[PACKET_FDS_MAX];

    receive(b, &b->ready, sizeof(b->ready), LAUNCH_READY, fds);
    b->workspace_fd = fds[0];
}

static int start_launcher(void **state)
{
    static struct bench b;
    char *argv[] = { (char *)"sbxctl-launch", NULL };
    int pair[2];

    b = (struct bench){ .workspace = "/tmp/test-launch-XXXXXX" };
    if (!mkdtemp(b.workspace) || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return -1;
    b.control = pair[0];
    b.launcher = launch(b.workspace, pair[1], 1, argv);
    close(pair[1]);
    get_ready(&b);
    *state = &b;
    return 0;
}

static int wait_status(pid_t pid)
{
    int status;

    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int stop_launcher(void **state)
{
    struct bench *b = *state;
    char command[64];

    b->control = close_fd(b->control);
    b->workspace_fd = close_fd(b->workspace_fd);
    if (b->launcher > 0)
        wait_status(b->launcher);
    snprintf(command, sizeof(command), "rm -rf %s", b->workspace);
    return system(command);
}

static int memory_file(const char *content, size_t size)
{
    int fd = memfd_create("source", MFD_CLOEXEC);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, content, size), size);
    return fd;
}

static struct launch_put_done put_fd(struct bench *b, const char *name, uint32_t mode,
                                     uint64_t size, int source)
{
    struct {
        struct launch_put put;
        char name[LAUNCH_NAME_MAX + 100];
    } packet = {
        .put = { .header = { LAUNCH_PROTOCOL_VERSION, LAUNCH_PUT }, .mode = mode, .size = size }
    };
    struct launch_put_done done;
    int fds[PACKET_FDS_MAX];

    strcpy(packet.name, name);
    assert_int_equal(
        packet_send(b->control, &packet, sizeof(packet.put) + strlen(name) + 1, &source, 1), 0);
    receive(b, &done, sizeof(done), LAUNCH_PUT_DONE, fds);
    return done;
}

static struct launch_put_done put(struct bench *b, const char *name, const char *content)
{
    int source = memory_file(content, strlen(content));
    struct launch_put_done done = put_fd(b, name, 0644, strlen(content), source);

    close(source);
    return done;
}

/* Sends GO with the strings @words, of which the first @n_argv and the next @n_env are what they
 * are called; the last one is the directory. Returns the end of the program's stdout (and stderr).
 */
static int send_words(struct bench *b, enum launch_type type, uint32_t n_argv, uint32_t n_env,
                      const char *const words[])
{
    char packet[LAUNCH_PACKET_MAX];
    struct launch_go go = { { LAUNCH_PROTOCOL_VERSION, type }, n_argv, n_env };
    int out[2], null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    size_t size = sizeof(go);

    memcpy(packet, &go, sizeof(go));
    for (size_t i = 0; i < n_argv + n_env + 1; i++) {
        strcpy(packet + size, words[i]);
        size += strlen(words[i]) + 1;
    }
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    assert_int_equal(
        packet_send(b->control, packet, size, (const int[]){ null, out[1], out[1] }, 3), 0);
    close(null);
    close(out[1]);
    return out[0];
}

static int go_words(struct bench *b, uint32_t n_argv, uint32_t n_env, const char *const words[])
{
    return send_words(b, LAUNCH_GO, n_argv, n_env, words);
}

static int go_shell(struct bench *b, const char *script)
{
    return go_words(b, 3, 1,
                    (const char *const[]){ "sh", "-c", script, "PATH=/usr/bin:/bin", "." });
}

static struct launch_exited await_exited(struct bench *b)
{
    struct launch_exited exited;
    int fds[PACKET_FDS_MAX];

    receive(b, &exited, sizeof(exited), LAUNCH_EXITED, fds);
    return exited;
}

/* Reads a pipe to its end, and closes it. */
static void assert_output(int fd, const char *expected)
{
    char text[4096];
    size_t used = 0;
    ssize_t n;

    while ((n = read(fd, text + used, sizeof(text) - 1 - used)) > 0)
        used += (size_t)n;
    text[used] = '\0';
    close(fd);
    assert_string_equal(text, expected);
}

static void assert_shell(struct bench *b, const char *script, const char *expected)
{
    int out = go_shell(b, script);
    struct launch_exited exited = await_exited(b);

    assert_output(out, expected);
    assert_int_equal(exited.kind, LAUNCH_EXIT_CODE);
    assert_int_equal(exited.value, 0);
}

/* ---- ready and go */

static void ready_tells_who_it_is_and_brings_the_workspace(void **state)
{
    struct bench *b = *state;
    struct stat here, there;

    assert_int_equal(b->ready.uid, getuid());
    assert_int_equal(b->ready.gid, getgid());
    assert_int_equal(b->ready.pid_namespace, 0);
    assert_int_equal(fstat(b->workspace_fd, &there), 0);
    assert_int_equal(stat(b->workspace, &here), 0);
    assert_int_equal(here.st_ino, there.st_ino);
}

static void program_writes_to_the_streams_it_was_given(void **state)
{
    assert_shell(*state, "cat; echo out; echo err >&2", "out\nerr\n");
}

static void program_has_exactly_the_environment_it_was_given(void **state)
{
    struct bench *b = *state;
    int out = go_words(b, 1, 2, (const char *const[]){ "/usr/bin/env", "A=1", "EMPTY=", "/" });

    assert_output(out, "A=1\nEMPTY=\n");
    assert_int_equal(await_exited(b).value, 0);
}

static void program_is_looked_up_in_its_own_path(void **state)
{
    struct bench *b = *state;
    int out = go_words(b, 1, 1, (const char *const[]){ "env", "PATH=/nowhere", "/" });
    struct launch_exited exited = await_exited(b);

    assert_output(out, "");
    assert_int_equal(exited.kind, LAUNCH_EXIT_EXEC);
    assert_int_equal(exited.value, ENOENT);
}

static void program_starts_in_its_directory(void **state)
{
    struct bench *b = *state;
    int out = go_words(b, 1, 1, (const char *const[]){ "pwd", "PATH=/usr/bin:/bin", "/usr" });

    assert_output(out, "/usr\n");
    assert_int_equal(await_exited(b).kind, LAUNCH_EXIT_CODE);

    close(go_words(b, 1, 1, (const char *const[]){ "pwd", "PATH=/usr/bin:/bin", "/nowhere" }));
    struct launch_exited exited = await_exited(b);
    assert_int_equal(exited.kind, LAUNCH_EXIT_EXEC);
    assert_int_equal(exited.value, ENOENT);
}

static void program_inherits_three_descriptors(void **state)
{
    /* The fourth one is the directory that ls reads. */
    assert_shell(*state, "exec ls /proc/self/fd", "0\n1\n2\n3\n");
}

static void program_is_confined(void **state)
{
    assert_shell(*state,
                 "grep -E '^(NoNewPrivs|Seccomp|SigBlk|SigIgn):' /proc/self/status | tr '\\t' ' ';"
                 "ulimit -c; umask; cat /proc/self/oom_score_adj",
                 "SigBlk: 0000000000000000\nSigIgn: 0000000000000000\nNoNewPrivs: 1\nSeccomp: 2\n"
                 "0\n0022\n1000\n");
}

static void end_of_the_program_is_told(void **state)
{
    struct bench *b = *state;
    struct launch_exited exited;

    close(go_shell(b, "exit 42"));
    exited = await_exited(b);
    assert_int_equal(exited.kind, LAUNCH_EXIT_CODE);
    assert_int_equal(exited.value, 42);

    close(go_shell(b, "kill -SEGV $$"));
    exited = await_exited(b);
    assert_int_equal(exited.kind, LAUNCH_EXIT_SIGNAL);
    assert_int_equal(exited.value, SIGSEGV);
}

static void cpu_time_is_counted(void **state)
{
    struct bench *b = *state;

    close(go_shell(b, "i=0; while [ $i -lt 200000 ]; do i=$((i + 1)); done"));
    assert_in_range(await_exited(b).cpu_usec, 10000, 10000000);
}

static void go_may_come_again(void **state)
{
    assert_shell(*state, "echo kept >state", "");
    assert_int_equal(put(*state, "later", "!").error, 0);
    assert_shell(*state, "cat state later", "kept\n!");
}

/* ---- put */

static void put_makes_file_and_folders(void **state)
{
    struct bench *b = *state;
    int source = memory_file("a,b\n", 4);
    struct launch_put_done done = put_fd(b, "data/deep/in.csv", 0751, 4, source);
    struct stat st;

    close(source);
    assert_int_equal(done.error, 0);
    assert_int_equal(fstatat(b->workspace_fd, "data/deep", &st, 0), 0);
    assert_int_equal(st.st_mode, S_IFDIR | 0755);
    assert_int_equal(fstatat(b->workspace_fd, "data/deep/in.csv", &st, 0), 0);
    assert_int_equal(st.st_mode, S_IFREG | 0751);
    assert_int_equal(st.st_ino, done.inode);
    assert_int_equal(st.st_size, done.size);
    assert_int_equal(st.st_ctim.tv_sec, done.ctime_sec);
    assert_int_equal(st.st_ctim.tv_nsec, done.ctime_nsec);
    assert_int_equal(st.st_mtim.tv_sec, done.mtime_sec);
    assert_int_equal(st.st_mtim.tv_nsec, done.mtime_nsec);
    assert_true(done.mtime_sec < done.ctime_sec);
    assert_shell(b, "cat data/deep/in.csv", "a,b\n");
}

static void put_copies_from_the_beginning_whatever_was_read(void **state)
{
    struct bench *b = *state;
    int source = memory_file("0123456789", 10);

    assert_int_equal(lseek(source, 7, SEEK_SET), 7);
    assert_int_equal(put_fd(b, "all", 0644, 10, source).error, 0);
    assert_int_equal(put_fd(b, "some", 0644, 4, source).error, 0);
    assert_int_equal(lseek(source, 0, SEEK_CUR), 7);
    close(source);
    assert_shell(b, "cat all; echo; cat some", "0123456789\n0123");
}

static void put_reads_pipes(void **state)
{
    struct bench *b = *state;
    int ends[2];

    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    assert_int_equal(write(ends[1], "through a pipe", 14), 14);
    assert_int_equal(put_fd(b, "piped", 0644, 14, ends[0]).error, 0);
    close(ends[1]);
    assert_int_equal(put_fd(b, "more", 0644, 1, ends[0]).error, EIO);
    close(ends[0]);
    assert_shell(b, "cat *", "through a pipe");
}

static void put_of_a_source_that_is_too_short_leaves_no_file(void **state)
{
    struct bench *b = *state;
    int source = memory_file("abc", 3);

    assert_int_equal(put_fd(b, "short", 0644, 4, source).error, EIO);
    close(source);
    assert_int_equal(faccessat(b->workspace_fd, "short", F_OK, 0), -1);
}

static void put_copies_large_files(void **state)
{
    struct bench *b = *state;
    int source = memfd_create("source", MFD_CLOEXEC);

    assert_int_equal(ftruncate(source, 3000000), 0);
    assert_int_equal(pwrite(source, "end", 3, 2999997), 3);
    assert_int_equal(put_fd(b, "large", 0644, 3000000, source).error, 0);
    close(source);
    assert_shell(b, "wc -c <large; tail -c 3 large", "3000000\nend");
}

static void put_refuses_names_that_lead_elsewhere(void **state)
{
    static const char *const bad[] = { "/etc/x", "..",   "../x", "a/../b", "./a",
                                       "a/.",    "a//b", "a/",   ".",      "" };
    char name[LAUNCH_NAME_MAX + 2];
    struct bench *b = *state;

    for (size_t i = 0; i < ELEMENTS(bad); i++)
        if (put(b, bad[i], "x").error != EINVAL)
            fail_msg("not refused: '%s'", bad[i]);
    memset(name, 'x', sizeof(name));
    name[sizeof(name) - 1] = '\0';
    assert_int_equal(put(b, name, "x").error, EINVAL);
    assert_shell(b, "ls -A", "");
}

static void put_overwrites_nothing_and_follows_no_link(void **state)
{
    struct bench *b = *state;

    assert_shell(
        b, "mkdir real; ln -s real folder; ln -s real/planted link; ln -s / root; echo old >file",
        "");
    assert_int_equal(put(b, "file", "new").error, EEXIST);
    assert_int_equal(put(b, "link", "new").error, EEXIST);
    assert_int_equal(put(b, "folder/x", "new").error, ENOTDIR);
    assert_int_equal(put(b, "root/tmp/x", "new").error, ENOTDIR);
    assert_int_equal(put(b, "file/x", "new").error, ENOTDIR);
    assert_shell(b, "cat file; ls real", "old\n");
}

/* ---- the end */

static void end_of_file_ends_launcher_and_program(void **state)
{
    struct bench *b = *state;
    int out = go_shell(b, "trap '' TERM HUP; echo up; sleep 1000");
    char text[3];

    assert_int_equal(read(out, text, 3), 3);
    b->control = close_fd(b->control);
    assert_int_equal(wait_status(b->launcher), 0);
    b->launcher = 0;
    /* The pipe ends when the last process that has it is dead. */
    assert_output(out, "");
}

static void bye_ends_it_too(void **state)
{
    struct bench *b = *state;
    struct launch_header bye = { LAUNCH_PROTOCOL_VERSION, LAUNCH_BYE };
    int out = go_shell(b, "sleep 1000");

    assert_int_equal(packet_send(b->control, &bye, sizeof(bye), NULL, 0), 0);
    assert_int_equal(wait_status(b->launcher), 0);
    b->launcher = 0;
    assert_output(out, "");
}

static void signals_for_the_program_do_not_end_the_launcher(void **state)
{
    struct bench *b = *state;

    kill(b->launcher, SIGTERM);
    kill(b->launcher, SIGINT);
    kill(b->launcher, SIGHUP);
    assert_shell(b, "echo still here", "still here\n");
}

/* ---- listen */

/* A network of this process's own, as a sandbox has it. */
static int start_launcher_without_network(void **state)
{
    struct ifreq loopback = { .ifr_name = "lo", .ifr_flags = IFF_UP };
    int sock;

    if (unshare(CLONE_NEWNET) < 0 || (sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)) < 0)
        return -1;
    int r = ioctl(sock, SIOCSIFFLAGS, &loopback);
    close(sock);
    return r < 0 ? -1 : start_launcher(state);
}

static const struct launch_header listen_header = { LAUNCH_PROTOCOL_VERSION, LAUNCH_LISTEN };

static struct launch_listening ask_to_listen(struct bench *b, int *ret_sock)
{
    struct launch_listening listening;
    int fds[PACKET_FDS_MAX];

    assert_int_equal(packet_send(b->control, &listen_header, sizeof(listen_header), NULL, 0), 0);
    receive(b, &listening, sizeof(listening), LAUNCH_LISTENING, fds);
    *ret_sock = fds[0];
    assert_int_equal(fds[1], -1);
    return listening;
}

static void listen_brings_a_socket_that_programs_can_reach(void **state)
{
    struct sockaddr_in address;
    socklen_t size = sizeof(address);
    struct bench *b = *state;
    char text[16] = "";
    int sock, listens;

    assert_int_equal(ask_to_listen(b, &sock).error, 0);
    assert_int_equal(getsockname(sock, (struct sockaddr *)&address, &size), 0);
    assert_int_equal(address.sin_addr.s_addr, htonl(INADDR_LOOPBACK));
    assert_int_equal(address.sin_port, htons(LAUNCH_LISTEN_PORT));
    size = sizeof(listens);
    assert_int_equal(getsockopt(sock, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size), 0);
    assert_true(listens);

    int out = go_shell(b, "exec bash -c 'echo hello >/dev/tcp/127.0.0.1/3128'");
    int client = accept4(sock, NULL, NULL, SOCK_CLOEXEC);
    assert_int_equal(recv(client, text, sizeof(text), MSG_WAITALL), 6);
    assert_string_equal(text, "hello\n");
    assert_output(out, "");
    close(client);
    close(sock);
}

static void launcher_keeps_no_listening_socket(void **state)
{
    struct bench *b = *state;
    int sock, second;

    assert_int_equal(ask_to_listen(b, &sock).error, 0);
    assert_int_equal(ask_to_listen(b, &second).error, EADDRINUSE);
    assert_int_equal(second, -1);
    close(sock);
    assert_shell(b,
                 "bash -c 'echo hello >/dev/tcp/127.0.0.1/3128' 2>/dev/null || echo 'nobody there'",
                 "nobody there\n");
}

static void listen_after_a_go_is_fatal(void **state)
{
    struct bench *b = *state;

    assert_shell(b, "echo done", "done\n");
    assert_int_equal(packet_send(b->control, &listen_header, sizeof(listen_header), NULL, 0), 0);
    assert_int_not_equal(wait_status(b->launcher), 0);
    b->launcher = 0;
}

/* ---- packets that are none */

static void assert_fatal(const void *packet, size_t size, size_t n_fds)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC), fds[] = { null, null, null, null };
    void *state;

    assert_int_equal(start_launcher(&state), 0);
    struct bench *b = state;
    assert_int_equal(packet_send(b->control, packet, size, fds, n_fds), 0);
    assert_int_not_equal(wait_status(b->launcher), 0);
    b->launcher = 0;
    close(null);
    assert_int_equal(stop_launcher(&state), 0);
}

/* The packets of the next two tests, which differ from these in one point each. */
static const struct {
    struct launch_go go;
    char strings[7];
} good_go = { { { LAUNCH_PROTOCOL_VERSION, LAUNCH_GO }, 1, 0 }, "true\0/" };
#define GOOD_GO_SIZE (sizeof(struct launch_go) + 7)

union put_packet {
    struct launch_put put;
    char bytes[sizeof(struct launch_put) + 4];
};
#define PUT_PACKET_SIZE (sizeof(struct launch_put) + 4)

static union put_packet good_put(void)
{
    union put_packet packet = { .put = { { LAUNCH_PROTOCOL_VERSION, LAUNCH_PUT }, 0644, 0, 0 } };

    memcpy(packet.bytes + sizeof(packet.put), "abc", 4);
    return packet;
}

static void well_formed_packets_are_not_fatal(void **state)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC), fds[PACKET_FDS_MAX];
    const union put_packet packet = good_put();
    struct bench *b = *state;
    struct launch_put_done done;

    assert_int_equal(packet_send(b->control, &packet, PUT_PACKET_SIZE, &null, 1), 0);
    receive(b, &done, sizeof(done), LAUNCH_PUT_DONE, fds);
    assert_int_equal(
        packet_send(b->control, &good_go, GOOD_GO_SIZE, (const int[]){ null, null, null }, 3), 0);
    assert_int_equal(await_exited(b).kind, LAUNCH_EXIT_CODE);
    close(null);
}

static void malformed_packets_are_fatal(void **state)
{
    const struct launch_header unknown = { LAUNCH_PROTOCOL_VERSION, 99 };
    const struct launch_header newer = { LAUNCH_PROTOCOL_VERSION + 1, LAUNCH_BYE };
    const struct launch_listening long_listen = { .header = listen_header };
    union put_packet packet = good_put();

    assert_fatal("x", 1, 0);
    assert_fatal(&unknown, sizeof(unknown), 0);
    assert_fatal(&newer, sizeof(newer), 0);
    assert_fatal(&good_go, sizeof(struct launch_header), 3);
    /* descriptors: too few, too many */
    assert_fatal(&good_go, GOOD_GO_SIZE, 2);
    assert_fatal(&good_go, GOOD_GO_SIZE, 4);
    assert_fatal(&packet, PUT_PACKET_SIZE, 0);
    assert_fatal(&packet, PUT_PACKET_SIZE, 2);
    /* a name that is not terminated, or has a NUL inside; more than permission bits */
    assert_fatal(&packet, PUT_PACKET_SIZE - 1, 1);
    packet.bytes[sizeof(packet.put) + 1] = '\0';
    assert_fatal(&packet, PUT_PACKET_SIZE, 1);
    packet = good_put();
    packet.put.mode = 04755;
    assert_fatal(&packet, PUT_PACKET_SIZE, 1);
    /* a listen with something more */
    assert_fatal(&long_listen, sizeof(long_listen), 0);
    assert_fatal(&long_listen.header, sizeof(long_listen.header), 1);
}

static void second_go_while_the_program_runs_is_fatal(void **state)
{
    struct bench *b = *state;
    int out = go_shell(b, "sleep 1000");

    close(go_shell(b, "true"));
    assert_int_not_equal(wait_status(b->launcher), 0);
    b->launcher = 0;
    assert_output(out, "");
}

static void control_socket_may_be_a_path(void **state)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    struct bench *b = *state;
    char *argv[] = { (char *)"sbxctl-launch", (char *)"--socket", address.sun_path, NULL };
    int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    snprintf(address.sun_path, sizeof(address.sun_path), "%s/control", b->workspace);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(listener, 1), 0);

    struct bench second = { .launcher =
                                launch(b->workspace, open("/dev/null", O_RDONLY), 3, argv) };
    second.control = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    get_ready(&second);
    assert_shell(&second, "echo hello", "hello\n");
    close(second.control);
    close(second.workspace_fd);
    assert_int_equal(wait_status(second.launcher), 0);
    close(listener);
}

/* ---- a program that waits */

#define PATH_ENTRY "PATH=/usr/bin:/bin"

static int warm_shell(struct bench *b)
{
    return send_words(b, LAUNCH_WARM, 2, 1,
                      (const char *const[]){ "sh", "./script", PATH_ENTRY, "." });
}

static void release(struct bench *b)
{
    const struct launch_header header = { LAUNCH_PROTOCOL_VERSION, LAUNCH_RELEASE };

    assert_int_equal(packet_send(b->control, &header, sizeof(header), NULL, 0), 0);
}

/* The launcher's one child; 0 if there is none. */
static pid_t child_of(const struct bench *b)
{
    char path[64];
    int pid = 0;

    snprintf(path, sizeof(path), "/proc/%d/task/%d/children", b->launcher, b->launcher);
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    if (fscanf(file, "%d", &pid) != 1)
        pid = 0;
    fclose(file);
    return pid;
}

/* Waits until the child has opened the FIFO, as far as that goes. */
static pid_t await_waiting(const struct bench *b)
{
    char path[64], where[64];

    for (unsigned i = 0; i < 5000; i++) {
        pid_t pid = child_of(b);
        snprintf(path, sizeof(path), "/proc/%d/wchan", pid);
        int fd = pid > 0 ? open(path, O_RDONLY | O_CLOEXEC) : -1;
        ssize_t n = fd < 0 ? 0 : read(fd, where, sizeof(where) - 1);
        close_fd(fd);
        where[n > 0 ? n : 0] = '\0';
        if (strcmp(where, "wait_for_partner") == 0)
            return pid;
        usleep(1000);
    }
    fail_msg("the program does not wait");
    return -1;
}

/* Releases it and expects what it prints. */
static void assert_released(struct bench *b, int out, const char *expected)
{
    release(b);
    struct launch_exited exited = await_exited(b);
    assert_int_equal(exited.kind, LAUNCH_EXIT_CODE);
    assert_int_equal(exited.value, 0);
    assert_output(out, expected);
}

static void program_that_waits_gets_its_script(void **state)
{
    struct bench *b = *state;
    int out = warm_shell(b);
    char expected[64];

    snprintf(expected, sizeof(expected), "%d ./script regular file\n", await_waiting(b));
    assert_int_equal(put(b, "script", "echo $$ $0 $(stat -c %F script)\n").error, 0);
    assert_released(b, out, expected);
}

/* Of empty lines, but for the last one. */
static void assert_script_of_size_runs(struct bench *b, size_t size)
{
    _cleanup_free_ char *script = calloc(1, size + 1);
    int out = warm_shell(b);

    assert_non_null(script);
    await_waiting(b);
    memset(script, '\n', size);
    memcpy(script + size - 8, "echo end", 8);
    assert_int_equal(put(b, "script", script).error, 0);
    assert_released(b, out, "end\n");
}

static void script_may_fill_the_pipe(void **state)
{
    assert_script_of_size_runs(*state, 65536);
}

static void script_that_no_pipe_holds_is_read_from_its_file(void **state)
{
    assert_script_of_size_runs(*state, 65536 + 9);
}

/* The first never comes to its script, the other has ended before that is there. */
static void program_that_does_not_wait_is_started_anew(void **state)
{
    static const char *const programs[] = { "test -f $0 && echo again || sleep 1000",
                                            "test -f $0 && echo again" };
    struct bench *b = *state;

    for (size_t i = 0; i < ELEMENTS(programs); i++) {
        int out = send_words(
            b, LAUNCH_WARM, 4, 1,
            (const char *const[]){ "sh", "-c", programs[i], "./script", PATH_ENTRY, "." });
        assert_int_equal(put(b, "script", "").error, 0);
        assert_released(b, out, "again\n");
        assert_int_equal(unlinkat(b->workspace_fd, "script", 0), 0);
        if (i == 0)
            stop_launcher(state), start_launcher(state), b = *state;
    }
}

static void go_ends_what_waits_and_its_fifo(void **state)
{
    struct bench *b = *state;
    int out = warm_shell(b);

    await_waiting(b);
    assert_shell(b, "ls", "");
    assert_output(out, "");
}

static void script_of_another_program_is_a_file_like_any_other(void **state)
{
    struct bench *b = *state;
    int out = warm_shell(b);

    await_waiting(b);
    assert_int_equal(put(b, "script", "echo secret").error, 0);
    assert_shell(b, "cat script", "echo secret");
    assert_output(out, "");
}

static void folder_takes_the_place_of_the_script(void **state)
{
    struct bench *b = *state;
    int out = warm_shell(b);

    await_waiting(b);
    assert_int_equal(put(b, "script2", "").error, 0);
    assert_int_equal(put(b, "script/file", "").error, 0);
    assert_output(out, "");
    assert_shell(b, "ls -d *", "script\nscript2\n");
}

static void end_of_file_ends_what_waits(void **state)
{
    struct bench *b = *state;
    int out = warm_shell(b);

    await_waiting(b);
    b->control = close_fd(b->control);
    assert_int_equal(wait_status(b->launcher), 0);
    b->launcher = 0;
    assert_output(out, "");
}

static void assert_launcher_ends(struct bench *b, void (*send)(struct bench *b))
{
    send(b);
    assert_int_not_equal(wait_status(b->launcher), 0);
    b->launcher = 0;
}

static void warm_twice(struct bench *b)
{
    close(warm_shell(b));
    close(warm_shell(b));
}

static void warm_without_script(struct bench *b)
{
    close(send_words(b, LAUNCH_WARM, 2, 1,
                     (const char *const[]){ "sh", "/script", PATH_ENTRY, "." }));
}

static void warm_of_a_script_in_a_folder(struct bench *b)
{
    close(send_words(b, LAUNCH_WARM, 2, 1,
                     (const char *const[]){ "sh", "./a/script", PATH_ENTRY, "." }));
}

static void warm_after_go(struct bench *b)
{
    assert_shell(b, "true", "");
    close(warm_shell(b));
}

static void warm_where_it_has_no_place_is_fatal(void **state)
{
    static void (*const sends[])(struct bench *) = { release, warm_twice, warm_without_script,
                                                     warm_of_a_script_in_a_folder, warm_after_go };

    for (size_t i = 0; i < ELEMENTS(sends); i++) {
        assert_launcher_ends(*state, sends[i]);
        stop_launcher(state);
        start_launcher(state);
    }
}

/* ---- parsing */

static int parse_go(uint32_t n_argv, uint32_t n_env, const char *strings, size_t size)
{
    static struct launch_program program;
    union {
        struct launch_go go;
        char bytes[256];
    } packet = { .go = { .n_argv = n_argv, .n_env = n_env } };

    memcpy(packet.bytes + sizeof(packet.go), strings, size);
    return launch_parse_go(packet.bytes, sizeof(packet.go) + size, &program);
}

static void go_must_be_what_it_says(void **state)
{
    assert_int_equal(parse_go(1, 1, "true\0A=1\0/", 11), 0);
    assert_int_equal(parse_go(1, 0, "true\0", 6),
                     0); /* the empty directory is execve's and chdir's affair */
    assert_int_equal(parse_go(0, 0, "/", 2), -EBADMSG);
    assert_int_equal(parse_go(1, 0, "true", 5), -EBADMSG);
    assert_int_equal(parse_go(1, 0, "true\0/", 6), -EBADMSG);
    assert_int_equal(parse_go(1, 0, "true\0/\0more", 12), -EBADMSG);
    assert_int_equal(parse_go(2, 0, "true\0/", 7), -EBADMSG);
    assert_int_equal(parse_go(1, 1, "true\0A\0/", 9), -EBADMSG);
    assert_int_equal(parse_go(1, 1, "true\0=A\0/", 10), -EBADMSG);
    assert_int_equal(parse_go(UINT32_MAX, 1, "true\0/", 7), -EBADMSG);
    assert_int_equal(parse_go(1, UINT32_MAX, "true\0/", 7), -EBADMSG);
    assert_int_equal(parse_go(LAUNCH_ARGV_MAX, LAUNCH_ENV_MAX, "true\0/", 7), -EBADMSG);
}

#define WITH_LAUNCHER(test) cmocka_unit_test_setup_teardown(test, start_launcher, stop_launcher)
#define WITHOUT_NETWORK(test) \
    cmocka_unit_test_setup_teardown(test, start_launcher_without_network, stop_launcher)

static void device_nodes_are_found_wherever_they_lie(void **state)
{
    char root[] = "/tmp/test-launch-nodes.XXXXXX", path[256], deep[1024];
    int used;

    assert_non_null(mkdtemp(root));
    used = snprintf(deep, sizeof(deep), "%s", root);
    for (unsigned i = 0; i < 64; i++) {
        used += snprintf(deep + used, sizeof(deep) - (size_t)used, "/d");
        assert_int_equal(mkdir(deep, 0755), 0);
    }
    snprintf(path, sizeof(path), "%s/fifo", root);
    assert_int_equal(mkfifo(path, 0600), 0);
    snprintf(path, sizeof(path), "%s/removed", root);
    assert_int_equal(mknod(path, S_IFCHR, makedev(0, 0)), 0); /* as overlayfs has them */
    snprintf(path, sizeof(path), "%s/link", root);
    assert_int_equal(symlink("/dev/null", path), 0);
    assert_int_equal(nodes_search(root), 0);

    snprintf(path, sizeof(path), "%s/d/d/node", root);
    assert_int_equal(mknod(path, S_IFCHR | 0600, makedev(1, 3)), 0);
    assert_int_equal(nodes_search(root), -ENXIO);
    unlink(path);
    assert_int_equal(mknod(path, S_IFBLK | 0600, makedev(7, 200)), 0);
    assert_int_equal(nodes_search(root), -ENXIO);
    unlink(path);
    assert_int_equal(nodes_search(root), 0);

    snprintf(deep + used, sizeof(deep) - (size_t)used, "/d");
    assert_int_equal(mkdir(deep, 0755), 0);
    assert_int_equal(nodes_search(root), -ELOOP);
    snprintf(path, sizeof(path), "rm -rf %s", root);
    assert_int_equal(system(path), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_LAUNCHER(ready_tells_who_it_is_and_brings_the_workspace),
        WITH_LAUNCHER(program_writes_to_the_streams_it_was_given),
        WITH_LAUNCHER(program_has_exactly_the_environment_it_was_given),
        WITH_LAUNCHER(program_is_looked_up_in_its_own_path),
        WITH_LAUNCHER(program_starts_in_its_directory),
        WITH_LAUNCHER(program_inherits_three_descriptors),
        WITH_LAUNCHER(program_is_confined),
        WITH_LAUNCHER(end_of_the_program_is_told),
        WITH_LAUNCHER(cpu_time_is_counted),
        WITH_LAUNCHER(go_may_come_again),
        WITH_LAUNCHER(put_makes_file_and_folders),
        WITH_LAUNCHER(put_copies_from_the_beginning_whatever_was_read),
        WITH_LAUNCHER(put_reads_pipes),
        WITH_LAUNCHER(put_of_a_source_that_is_too_short_leaves_no_file),
        WITH_LAUNCHER(put_copies_large_files),
        WITH_LAUNCHER(put_refuses_names_that_lead_elsewhere),
        WITH_LAUNCHER(put_overwrites_nothing_and_follows_no_link),
        WITH_LAUNCHER(end_of_file_ends_launcher_and_program),
        WITH_LAUNCHER(bye_ends_it_too),
        WITH_LAUNCHER(signals_for_the_program_do_not_end_the_launcher),
        WITH_LAUNCHER(listen_after_a_go_is_fatal),
        WITH_LAUNCHER(second_go_while_the_program_runs_is_fatal),
        WITH_LAUNCHER(control_socket_may_be_a_path),
        WITH_LAUNCHER(well_formed_packets_are_not_fatal),
        WITH_LAUNCHER(program_that_waits_gets_its_script),
        WITH_LAUNCHER(script_may_fill_the_pipe),
        WITH_LAUNCHER(script_that_no_pipe_holds_is_read_from_its_file),
        WITH_LAUNCHER(program_that_does_not_wait_is_started_anew),
        WITH_LAUNCHER(go_ends_what_waits_and_its_fifo),
        WITH_LAUNCHER(script_of_another_program_is_a_file_like_any_other),
        WITH_LAUNCHER(folder_takes_the_place_of_the_script),
        WITH_LAUNCHER(end_of_file_ends_what_waits),
        WITH_LAUNCHER(warm_where_it_has_no_place_is_fatal),
        cmocka_unit_test(device_nodes_are_found_wherever_they_lie),
        cmocka_unit_test(malformed_packets_are_fatal),
        cmocka_unit_test(go_must_be_what_it_says),
        /* The last ones: they leave this process without a network. */
        WITHOUT_NETWORK(listen_brings_a_socket_that_programs_can_reach),
        WITHOUT_NETWORK(launcher_keeps_no_listening_socket),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
