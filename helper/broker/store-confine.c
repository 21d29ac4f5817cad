/* Capabilities, system calls and descriptors of the store process, see store-confine.h.
 *
 * Why each capability: CHOWN gives a finished run to its caller; DAC_OVERRIDE reads what programs
 * made 0600 and 0000, and works below users/<uid>, which are 0700 and the caller's; FOWNER sets
 * modes and times of files that are given away. */
#include "broker/store-confine.h"
#include "common/cleanup.h"

#include <linux/capability.h>
#include <linux/sched.h>
#include <seccomp.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#define CAPABILITIES ((1U << CAP_CHOWN) | (1U << CAP_DAC_OVERRIDE) | (1U << CAP_FOWNER))

static int compare_fds(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

int confine_fds(const int *keep, size_t n_keep)
{
    int sorted[8];
    unsigned from = STDERR_FILENO + 1;

    if (n_keep > ELEMENTS(sorted))
        return -EINVAL;
    for (size_t i = 0; i < n_keep; i++)
        sorted[i] = keep[i];
    qsort(sorted, n_keep, sizeof(sorted[0]), compare_fds);
    for (size_t i = 0; i < n_keep; i++) {
        if (sorted[i] < (int)from)
            continue;
        if (sorted[i] > (int)from && close_range(from, (unsigned)sorted[i] - 1, 0) < 0)
            return -errno;
        from = (unsigned)sorted[i] + 1;
    }
    return close_range(from, ~0U, 0) < 0 ? -errno : 0;
}

int confine_to_parent(pid_t parent)
{
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
        return -errno;
    return getppid() == parent ? 0 : -ESRCH;
}

static int confine_capabilities(void)
{
    struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];

    if (syscall(SYS_capget, &header, data) < 0)
        return -errno;
    uint32_t kept = data[0].permitted & CAPABILITIES;
    data[0] = (struct __user_cap_data_struct){ .effective = kept, .permitted = kept };
    data[1] = (struct __user_cap_data_struct){ 0 };
    if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0 ||
        syscall(SYS_capset, &header, data) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return -errno;
    /* No core files with callers' data in them. */
    return prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 ? -errno : 0;
}

static const int allowed[] = {
    /* files */
    SCMP_SYS(openat),
    SCMP_SYS(openat2),
    SCMP_SYS(close),
    SCMP_SYS(close_range),
    SCMP_SYS(fstat),
    SCMP_SYS(newfstatat),
    SCMP_SYS(fstatfs),
    SCMP_SYS(lseek),
    SCMP_SYS(read),
    SCMP_SYS(write),
    SCMP_SYS(writev),
    SCMP_SYS(pread64),
    SCMP_SYS(pwrite64),
    SCMP_SYS(ftruncate),
    SCMP_SYS(getdents64),
    SCMP_SYS(mkdirat),
    SCMP_SYS(unlinkat),
    SCMP_SYS(renameat2),
    SCMP_SYS(fchown),
    SCMP_SYS(fchmod),
    SCMP_SYS(utimensat),
    SCMP_SYS(fsync),
    SCMP_SYS(syncfs),
    SCMP_SYS(fcntl),
    SCMP_SYS(memfd_create),
    /* the sockets that are there: none can be made */
    SCMP_SYS(recvmsg),
    SCMP_SYS(recvfrom),
    SCMP_SYS(sendmsg),
    SCMP_SYS(poll),
    SCMP_SYS(ppoll),
    /* children */
    SCMP_SYS(wait4),
    SCMP_SYS(getpid),
    SCMP_SYS(getppid),
    SCMP_SYS(gettid),
    SCMP_SYS(exit),
    SCMP_SYS(exit_group),
    SCMP_SYS(set_robust_list),
    SCMP_SYS(rseq),
    SCMP_SYS(set_tid_address),
    SCMP_SYS(alarm),
    SCMP_SYS(setitimer),
    SCMP_SYS(signalfd4),
    SCMP_SYS(rt_sigprocmask),
    SCMP_SYS(rt_sigaction),
    SCMP_SYS(rt_sigreturn),
    SCMP_SYS(sigaltstack),
    SCMP_SYS(tgkill),
    SCMP_SYS(geteuid),
    SCMP_SYS(getuid),
    SCMP_SYS(restart_syscall),
    /* memory and the C library */
    SCMP_SYS(munmap),
    SCMP_SYS(mremap),
    SCMP_SYS(madvise),
    SCMP_SYS(brk),
    SCMP_SYS(futex),
    SCMP_SYS(getrandom),
    SCMP_SYS(clock_gettime),
    SCMP_SYS(sched_yield),
};

static int add_rules(scmp_filter_ctx filter)
{
    const uint64_t namespaces = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC |
                                CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET;
    int r = 0;

    for (size_t i = 0; i < ELEMENTS(allowed) && r == 0; i++)
        r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, allowed[i], 0);
    if (r == 0)
        r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(clone), 1,
                             SCMP_A0(SCMP_CMP_MASKED_EQ, namespaces, 0));
    if (r == 0)
        r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(mmap), 1,
                             SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
    if (r == 0)
        r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(mprotect), 1,
                             SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
    if (r == 0)
        r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(prctl), 1,
                             SCMP_A0(SCMP_CMP_EQ, PR_SET_PDEATHSIG));
    if (r == 0)
        r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(prctl), 1,
                             SCMP_A0(SCMP_CMP_EQ, PR_SET_NAME));
    return r;
}

/* Everything else is ENOSYS, so that a newer C library finds its way back to an older call (clone3
 * to clone). */
static int confine_system_calls(void)
{
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(ENOSYS));

    if (!filter)
        return -ENOMEM;
    int r = add_rules(filter);
    if (r == 0)
        r = seccomp_load(filter);
    seccomp_release(filter);
    return r;
}

int confine_self(void)
{
    int r = confine_capabilities();

    return r < 0 ? r : confine_system_calls();
}
