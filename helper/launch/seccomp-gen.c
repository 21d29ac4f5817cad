/* Writes the two seccomp programs that sbxctl-launch embeds, as C array elements: seccomp-gen
 * FILTER OUTPUT, with FILTER one of "calls" (which system calls there are) and "arguments" (what
 * may be asked of them). Runs at build time, so that libseccomp costs no sandbox a millisecond. The
 * kernel runs both and takes the stricter answer.
 *
 * The spirit is systemd's @system-service without the groups that reach the kernel's less trodden
 * paths. A call that is known and refused answers EPERM, one that nobody here has heard of ENOSYS,
 * which is what a program expects from an older kernel and has a fallback for. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <linux/filter.h>

#include "common/cleanup.h"

/* An argument that the kernel takes as an int: it drops the upper half of the register, so the
 * filter must not look at it (SCMP_A1_32 and its like do). */
#define INT_IS(argument, value) \
    SCMP_CMP64(argument, SCMP_CMP_MASKED_EQ, 0xffffffffU, (uint32_t)(value))

static const char *const allowed[] = {
    /* Files */
    "access chdir chmod chown close close_range copy_file_range creat dup dup2 dup3 faccessat "
    "faccessat2 fadvise64 fallocate fchdir fchmod fchmodat fchown fchownat fcntl fdatasync "
    "fgetxattr flistxattr flock fremovexattr fsetxattr fstat fstatfs fsync ftruncate "
    "futimesat getcwd getdents getdents64 getxattr inotify_add_watch inotify_init "
    "inotify_init1 inotify_rm_watch ioctl lchown lgetxattr link linkat listxattr llistxattr "
    "lremovexattr lseek lsetxattr lstat mkdir mkdirat mknod mknodat newfstatat open openat "
    "openat2 pread64 preadv preadv2 pwrite64 pwritev pwritev2 read readahead readlink "
    "readlinkat readv removexattr rename renameat renameat2 rmdir sendfile setxattr splice "
    "stat statfs statx symlink symlinkat sync_file_range syncfs tee truncate umask unlink "
    "unlinkat utime utimensat utimes vmsplice write writev",
    /* Memory */
    "brk get_mempolicy madvise mbind membarrier memfd_create mincore mlock mlock2 mlockall "
    "mmap mprotect mremap mseal msync munlock munlockall munmap pkey_alloc pkey_free "
    "pkey_mprotect remap_file_pages set_mempolicy set_mempolicy_home_node",
    /* Processes and threads */
    "arch_prctl capget clone execve execveat exit exit_group fork futex futex_requeue "
    "futex_wait futex_waitv futex_wake get_robust_list getpgid getpgrp getpid getppid "
    "getpriority getrlimit getrusage getsid gettid ioprio_get ioprio_set kill pidfd_open "
    "pidfd_send_signal prctl prlimit64 restart_syscall rseq rt_sigqueueinfo rt_tgsigqueueinfo "
    "sched_get_priority_max sched_get_priority_min sched_getaffinity sched_getattr "
    "sched_getparam sched_getscheduler sched_rr_get_interval sched_setaffinity sched_setattr "
    "sched_setparam sched_setscheduler sched_yield set_robust_list set_thread_area "
    "set_tid_address setpgid setpriority setrlimit setsid tgkill times tkill vfork wait4 "
    "waitid",
    /* Who am I, and becoming what one is already */
    "getegid geteuid getgid getgroups getresgid getresuid getuid setfsgid setfsuid setgid "
    "setgroups setregid setresgid setresuid setreuid setuid",
    /* Signals */
    "pause rt_sigaction rt_sigpending rt_sigprocmask rt_sigreturn rt_sigsuspend "
    "rt_sigtimedwait sigaltstack signalfd signalfd4",
    /* Time */
    "alarm clock_getres clock_gettime clock_nanosleep getitimer gettimeofday nanosleep "
    "setitimer time timer_create timer_delete timer_getoverrun timer_gettime timer_settime "
    "timerfd_create timerfd_gettime timerfd_settime",
    /* Waiting for events, and the older asynchronous IO */
    "epoll_create epoll_create1 epoll_ctl epoll_pwait epoll_pwait2 epoll_wait eventfd "
    "eventfd2 io_cancel io_destroy io_getevents io_pgetevents io_setup io_submit pipe pipe2 "
    "poll ppoll pselect6 select",
    /* Sockets and System V IPC */
    "accept accept4 bind connect getpeername getsockname getsockopt listen recvfrom recvmmsg "
    "recvmsg sendmmsg sendmsg sendto setsockopt shutdown socket socketpair msgctl msgget "
    "msgrcv msgsnd semctl semget semop semtimedop shmat shmctl shmdt shmget",
    /* The machine */
    "getcpu getrandom sysinfo uname",
    /* Programs that restrict themselves further */
    "landlock_add_rule landlock_create_ruleset landlock_restrict_self seccomp",
};

static const char *const refused[] = {
    /* Other processes' memory, descriptors and state */
    "kcmp pidfd_getfd process_madvise process_mrelease process_vm_readv process_vm_writev "
    "ptrace migrate_pages move_pages",
    /* Large kernel interfaces with a history */
    "bpf io_uring_enter io_uring_register io_uring_setup perf_event_open userfaultfd "
    "memfd_secret mq_getsetattr mq_notify mq_open mq_timedreceive mq_timedsend mq_unlink",
    /* Key rings, which are not fully namespaced */
    "add_key keyctl request_key",
    /* Namespaces, mounts, roots */
    "chroot fsconfig fsmount fsopen fspick listmount mount mount_setattr move_mount open_tree "
    "pivot_root setns statmount umount umount2 unshare",
    /* Files by handle, which leave every mount behind */
    "name_to_handle_at open_by_handle_at lookup_dcookie fanotify_init fanotify_mark",
    /* The machine as a whole */
    "_sysctl acct adjtimex clock_adjtime clock_settime create_module delete_module "
    "finit_module get_kernel_syms init_module ioperm iopl kexec_file_load kexec_load "
    "modify_ldt nfsservctl query_module quotactl quotactl_fd reboot setdomainname sethostname "
    "settimeofday stime swapoff swapon syslog sysfs uselib ustat vhangup vm86 vm86old capset",
};

static void check(int r, const char *what)
{
    if (r >= 0)
        return;
    fprintf(stderr, "seccomp-gen: %s: %s\n", what, strerror(-r));
    exit(EXIT_FAILURE);
}

static void add_name(scmp_filter_ctx ctx, uint32_t action, const char *name)
{
    int number = seccomp_syscall_resolve_name(name);

    /* Newer than this libseccomp: then it is also unknown to the filter, and answers ENOSYS. */
    if (number != __NR_SCMP_ERROR)
        check(seccomp_rule_add(ctx, action, number, 0), name);
}

static void add_groups(scmp_filter_ctx ctx, uint32_t action, const char *const *groups, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char *names = strdup(groups[i]), *saved;
        check(names ? 0 : -ENOMEM, "strdup");
        for (char *name = strtok_r(names, " ", &saved); name; name = strtok_r(NULL, " ", &saved))
            add_name(ctx, action, name);
        free(names);
    }
}

static void add_calls(scmp_filter_ctx ctx)
{
    add_groups(ctx, SCMP_ACT_ALLOW, allowed, ELEMENTS(allowed));
    add_groups(ctx, SCMP_ACT_ERRNO(EPERM), refused, ELEMENTS(refused));
    /* Flushing every file system of the machine is nothing to wait for in here: success, and
     * nothing done. */
    check(seccomp_rule_add(ctx, SCMP_ACT_ERRNO(0), SCMP_SYS(sync), 0), "sync");
    /* Asking for the personality, and setting the one that everybody has. */
    check(seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(personality), 1, INT_IS(0, 0)),
          "personality");
    check(seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(personality), 1, INT_IS(0, 0xffffffff)),
          "personality");
}

static void refuse_namespaces(scmp_filter_ctx ctx)
{
    static const uint32_t flags[] = {
        CLONE_NEWCGROUP, CLONE_NEWIPC,  CLONE_NEWNET, CLONE_NEWNS,
        CLONE_NEWPID,    CLONE_NEWUSER, CLONE_NEWUTS,
    };
    for (size_t i = 0; i < ELEMENTS(flags); i++)
        check(seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(clone), 1,
                               SCMP_A0_32(SCMP_CMP_MASKED_EQ, flags[i], flags[i])),
              "clone");
}

/* Typing on someone's terminal, pasting into it, and loading a line discipline. */
static void refuse_terminal_tricks(scmp_filter_ctx ctx)
{
    static const uint32_t requests[] = { TIOCSTI, TIOCLINUX, TIOCSETD };

    for (size_t i = 0; i < ELEMENTS(requests); i++)
        check(seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(ioctl), 1,
                               INT_IS(1, requests[i])),
              "ioctl");
}

/* Huge pages are the machine's own reserve: they do not count as the run's memory (they have a
 * controller of their own, hugetlb). Who wants them falls back to ordinary ones. */
static void refuse_huge_pages(scmp_filter_ctx ctx)
{
    check(seccomp_rule_add(ctx, SCMP_ACT_ERRNO(ENOMEM), SCMP_SYS(mmap), 1,
                           SCMP_A3(SCMP_CMP_MASKED_EQ, MAP_HUGETLB, MAP_HUGETLB)),
          "mmap");
    check(seccomp_rule_add(ctx, SCMP_ACT_ERRNO(ENOMEM), SCMP_SYS(memfd_create), 1,
                           SCMP_A1(SCMP_CMP_MASKED_EQ, MFD_HUGETLB, MFD_HUGETLB)),
          "memfd_create");
    check(seccomp_rule_add(ctx, SCMP_ACT_ERRNO(ENOMEM), SCMP_SYS(shmget), 1,
                           SCMP_A2(SCMP_CMP_MASKED_EQ, SHM_HUGETLB, SHM_HUGETLB)),
          "shmget");
}

/* Unix and IP sockets, and the netlink protocol by which the C library lists interfaces. Any other
 * family or protocol would make the kernel load a module; a pair of sockets does so, too, before
 * it turns out that only Unix has pairs. */
static void refuse_rare_sockets(scmp_filter_ctx ctx)
{
    static const uint32_t protocols[] = { 33 /* DCCP */,      115 /* L2TP */, 132 /* SCTP */,
                                          136 /* UDP-Lite */, 256 /* SMC */,  262 /* MPTCP */ };

    for (uint32_t family = 0; family < AF_MAX; family++)
        if (family != AF_UNIX && family != AF_INET && family != AF_INET6 && family != AF_NETLINK)
            check(seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EAFNOSUPPORT), SCMP_SYS(socket), 1,
                                   INT_IS(0, family)),
                  "socket family");
    check(seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EAFNOSUPPORT), SCMP_SYS(socket), 1,
                           SCMP_A0(SCMP_CMP_GE, AF_MAX)),
          "socket family");
    check(seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EAFNOSUPPORT), SCMP_SYS(socketpair), 1,
                           SCMP_A0(SCMP_CMP_NE, AF_UNIX)),
          "socketpair family");
    check(seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EPROTONOSUPPORT), SCMP_SYS(socket), 2,
                           INT_IS(0, AF_NETLINK), SCMP_A2(SCMP_CMP_NE, 0)),
          "netlink");
    for (size_t i = 0; i < ELEMENTS(protocols); i++) {
        static const uint32_t families[] = { AF_INET, AF_INET6 };
        for (size_t j = 0; j < ELEMENTS(families); j++)
            check(seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EPROTONOSUPPORT), SCMP_SYS(socket), 2,
                                   INT_IS(0, families[j]), INT_IS(2, protocols[i])),
                  "socket protocol");
    }
}

/* They would have no effect in here; outside, an output must not carry them either. */
static void refuse_setuid_bits(scmp_filter_ctx ctx)
{
    static const uint32_t bits[] = { S_ISUID, S_ISGID };

    for (size_t i = 0; i < ELEMENTS(bits); i++) {
        const struct scmp_arg_cmp second = SCMP_A1_32(SCMP_CMP_MASKED_EQ, bits[i], bits[i]);
        const struct scmp_arg_cmp third = SCMP_A2_32(SCMP_CMP_MASKED_EQ, bits[i], bits[i]);
        check(seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(chmod), 1, second), "chmod");
        check(seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(fchmod), 1, second), "fchmod");
        check(seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(fchmodat), 1, third),
              "fchmodat");
        check(seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(creat), 1, second), "creat");
        /* The mode means nothing to them unless they make a file. */
        check(seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(open), 2,
                               SCMP_A1_32(SCMP_CMP_MASKED_EQ, O_CREAT, O_CREAT), third),
              "open");
        check(seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(openat), 2,
                               SCMP_A2_32(SCMP_CMP_MASKED_EQ, O_CREAT, O_CREAT),
                               SCMP_A3_32(SCMP_CMP_MASKED_EQ, bits[i], bits[i])),
              "openat");
    }
}

static scmp_filter_ctx make_calls(void)
{
    scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ERRNO(ENOSYS));
    check(ctx ? 0 : -ENOMEM, "seccomp_init");
    add_calls(ctx);
    return ctx;
}

static scmp_filter_ctx make_arguments(void)
{
    scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ALLOW);
    check(ctx ? 0 : -ENOMEM, "seccomp_init");
    refuse_namespaces(ctx);
    refuse_terminal_tricks(ctx);
    refuse_huge_pages(ctx);
    refuse_rare_sockets(ctx);
    refuse_setuid_bits(ctx);
    return ctx;
}

static void export(scmp_filter_ctx ctx, FILE *output)
{
    struct sock_filter instruction;
    FILE *bpf = tmpfile();

    check(bpf ? 0 : -errno, "tmpfile");
    /* Calls of another architecture, or of x32, have other numbers: whoever makes one is up to
     * something. */
    check(seccomp_attr_set(ctx, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS),
          "bad architecture");
    /* A binary tree instead of a list of 350 comparisons. */
    check(seccomp_attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2), "optimize");
    check(seccomp_export_bpf(ctx, fileno(bpf)), "export");
    check(lseek(fileno(bpf), 0, SEEK_SET) < 0 ? -errno : 0, "lseek");
    while (fread(&instruction, sizeof(instruction), 1, bpf) == 1)
        fprintf(output, "{ 0x%04x, %u, %u, 0x%08x },\n", instruction.code, instruction.jt,
                instruction.jf, instruction.k);
    fclose(bpf);
}

int main(int argc, char *argv[])
{
    if (argc != 3) {
        fprintf(stderr, "usage: seccomp-gen calls|arguments OUTPUT\n");
        return 64;
    }
    scmp_filter_ctx ctx = strcmp(argv[1], "calls") == 0 ? make_calls() : make_arguments();
    FILE *output = fopen(argv[2], "we");
    check(output ? 0 : -errno, argv[2]);
    export(ctx, output);
    check(fclose(output) == 0 ? 0 : -errno, argv[2]);
    seccomp_release(ctx);
    return EXIT_SUCCESS;
}
