/* A double of the file system for the broker and its store, preloaded (LD_PRELOAD) into the
 * service: it lets calls that write fail, or wait, as the file PLAN says. file_faults.py writes
 * that and builds this. Does only what the store's seccomp list lets it do.
 *
 * PLAN is one line: GENERATION PID PROCESS CALLS NAME N MODE ERRNO. Of the calls in the list CALLS
 * in PROCESS (broker or store) of the broker PID (0 for any) about a file whose name has NAME in it
 * (* for any, and for those without a name), the N-th since the plan came fails ("once"), that and
 * all after it ("from"), or it waits until there is another plan ("wait"). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PLAN "/etc/sbxctl/double"

struct plan {
    unsigned generation, n;
    int pid;
    char process[8], calls[80], name[40], mode[8];
    int error;
};

static pid_t broker;
static unsigned generation, seen;

__attribute__((constructor)) static void begin(void)
{
    broker = getpid();
}

static bool read_plan(struct plan *plan)
{
    char text[256];
    long fd = syscall(SYS_openat, AT_FDCWD, PLAN, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return false;
    ssize_t size = read((int)fd, text, sizeof(text) - 1);
    close((int)fd);
    if (size <= 0)
        return false;
    text[size] = '\0';
    return sscanf(text, "%u %d %7s %79s %39s %u %7s %d", &plan->generation, &plan->pid,
                  plan->process, plan->calls, plan->name, &plan->n, plan->mode, &plan->error) == 8;
}

static bool has_word(const char *list, const char *word)
{
    size_t length = strlen(word);

    for (const char *p = list; (p = strstr(p, word)); p += length)
        if ((p == list || p[-1] == ',') && (p[length] == ',' || p[length] == '\0'))
            return true;
    return false;
}

/* As others see it in /proc/PID/comm. Only the broker may call this. */
static void wait_for_another(unsigned held)
{
    struct plan plan = { 0 };

    prctl(PR_SET_NAME, "held");
    do
        poll(NULL, 0, 10);
    while (read_plan(&plan) && plan.generation == held);
    prctl(PR_SET_NAME, "sbxctl-helper");
}

/* Whether this call fails; errno is set then. @name may be NULL. */
static bool fails(const char *call, const char *name)
{
    int before = errno;
    struct plan plan;

    if (!read_plan(&plan) || strcmp(plan.process, getpid() == broker ? "broker" : "store") != 0 ||
        (plan.pid != 0 && plan.pid != broker) || !has_word(plan.calls, call) ||
        (plan.name[0] != '*' && (!name || !strstr(name, plan.name)))) {
        errno = before;
        return false;
    }
    if (plan.generation != generation)
        seen = 0;
    generation = plan.generation;
    unsigned n = seen++;
    bool is_hit = n == plan.n || (n > plan.n && strcmp(plan.mode, "from") == 0);
    if (is_hit && strcmp(plan.mode, "wait") == 0)
        wait_for_another(plan.generation);
    else if (is_hit) {
        errno = plan.error;
        return true;
    }
    errno = before;
    return false;
}

/* A memfd has no name. */
static bool is_file(int fd)
{
    struct stat st;
    return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_nlink > 0;
}

#define REAL(name) ((typeof(&name))dlsym(RTLD_NEXT, #name))

ssize_t write(int fd, const void *data, size_t size)
{
    return is_file(fd) && fails("write", NULL) ? -1 : REAL(write)(fd, data, size);
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t offset)
{
    return is_file(fd) && fails("write", NULL) ? -1 : REAL(pwrite)(fd, data, size, offset);
}

ssize_t pwrite64(int fd, const void *data, size_t size, off64_t offset)
{
    return is_file(fd) && fails("write", NULL) ? -1 : REAL(pwrite64)(fd, data, size, offset);
}

ssize_t sendfile64(int to, int from, off64_t *offset, size_t size)
{
    return is_file(to) && fails("write", NULL) ? -1 : REAL(sendfile64)(to, from, offset, size);
}

int ftruncate64(int fd, off64_t size)
{
    return is_file(fd) && fails("write", NULL) ? -1 : REAL(ftruncate64)(fd, size);
}

int fsync(int fd)
{
    return fails("fsync", NULL) ? -1 : REAL(fsync)(fd);
}

int fdatasync(int fd)
{
    return fails("fsync", NULL) ? -1 : REAL(fdatasync)(fd);
}

/* Only those that make a file, or open one for writing over it. */
static const char *kind(int flags)
{
    if (flags & O_CREAT)
        return "create";
    return (flags & O_ACCMODE) == O_WRONLY ? "overwrite" : NULL;
}

int openat64(int dir, const char *name, int flags, ...)
{
    va_list ap;

    va_start(ap, flags);
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(ap, mode_t) : 0;
    va_end(ap);
    return kind(flags) && fails(kind(flags), name) ? -1 : REAL(openat64)(dir, name, flags, mode);
}

int openat(int dir, const char *name, int flags, ...)
{
    va_list ap;

    va_start(ap, flags);
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(ap, mode_t) : 0;
    va_end(ap);
    return kind(flags) && fails(kind(flags), name) ? -1 : REAL(openat)(dir, name, flags, mode);
}

/* What the C library's checks (_FORTIFY_SOURCE) make of it, where the flags are not constant. */
int __openat64_2(int dir, const char *name, int flags)
{
    return openat64(dir, name, flags);
}

int __openat_2(int dir, const char *name, int flags)
{
    return openat(dir, name, flags);
}

int mkdirat(int dir, const char *name, mode_t mode)
{
    return fails("create", name) ? -1 : REAL(mkdirat)(dir, name, mode);
}

int renameat(int from, const char *name, int to, const char *new_name)
{
    return fails("rename", new_name) ? -1 : REAL(renameat)(from, name, to, new_name);
}

int renameat2(int from, const char *name, int to, const char *new_name, unsigned flags)
{
    return fails("rename", new_name) ? -1 : REAL(renameat2)(from, name, to, new_name, flags);
}
