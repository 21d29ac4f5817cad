/* A file system without privileges, see workspace.h: in a user namespace anybody may make a tmpfs,
 * and a descriptor of it is all that is wanted. So a short-lived child enters one, and this process
 * keeps what rights it had: none. */
#include "workspace.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "common/packet.h"
#include "key.h"

static int write_file(const char *path, const char *text)
{
    _cleanup_close_ int fd = open(path, O_WRONLY | O_CLOEXEC);

    return fd < 0 ? -errno : write_all(fd, text, strlen(text));
}

/* As oneself, and nobody else. */
static int enter_namespace(void)
{
    unsigned uid = getuid(), gid = getgid();
    char map[64];

    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
        return -errno;
    int r = write_file("/proc/self/setgroups", "deny");
    snprintf(map, sizeof(map), "%u %u 1\n", uid, uid);
    r = r < 0 ? r : write_file("/proc/self/uid_map", map);
    snprintf(map, sizeof(map), "%u %u 1\n", gid, gid);
    return r < 0 ? r : write_file("/proc/self/gid_map", map);
}

static int configure(int fs, const char *key, uint64_t value)
{
    char text[32];

    snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
    return fsconfig(fs, FSCONFIG_SET_STRING, key, text, 0) < 0 ? -errno : 0;
}

/* The root directory takes one of the inodes. */
static int make_tmpfs(uint64_t bytes, uint32_t inodes)
{
    _cleanup_close_ int fs = fsopen("tmpfs", FSOPEN_CLOEXEC);

    if (fs < 0)
        return -errno;
    int r = configure(fs, "size", bytes);
    r = r < 0 ? r : configure(fs, "nr_inodes", (uint64_t)inodes + 1);
    if (r >= 0 && fsconfig(fs, FSCONFIG_SET_STRING, "mode", "0755", 0) < 0)
        r = -errno;
    if (r >= 0 && fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
        r = -errno;
    if (r < 0)
        return r;
    int mount =
        fsmount(fs, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
    return mount < 0 ? -errno : mount;
}

/* In the child: sends the descriptor, or a positive errno. */
static _Noreturn void make_and_send(int sock, uint64_t bytes, uint32_t inodes)
{
    /* The maps of a process that cannot be dumped are root's. */
    key_forget();
    prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
    int mount = -1, r = enter_namespace();
    r = r < 0 ? r : (mount = make_tmpfs(bytes, inodes));
    int error = r < 0 ? -r : 0;
    /* A descriptor of the mount itself keeps only the mount; one that was opened in it, files. */
    int root = mount < 0 ? -1 : openat(mount, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    packet_send(sock, &error, sizeof(error), &root, root >= 0);
    _exit(0);
}

static int receive(int sock)
{
    int fds[PACKET_FDS_MAX], error = EIO;
    size_t n_fds = 0;

    ssize_t n = packet_recv(sock, &error, sizeof(error), fds, &n_fds);
    if (n == sizeof(error) && error == 0 && n_fds == 1)
        return fds[0];
    if (n > 0)
        packet_close_fds(fds);
    return error > 0 ? -error : -EIO;
}

int workspace_make(uint64_t bytes, uint32_t inodes)
{
    int socks[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, socks) < 0)
        return -errno;
    pid_t pid = fork();
    if (pid == 0)
        make_and_send(socks[1], bytes, inodes);
    int r = pid < 0 ? -errno : 0;
    close(socks[1]);
    /* How it ends is nothing to wait for: taking its namespaces apart takes the kernel longer than
     * all the rest of it, and this process, which ends with its sandbox, has no other child. */
    if (r >= 0)
        r = receive(socks[0]);
    close(socks[0]);
    return r;
}
