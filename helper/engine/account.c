/* Small files for a sandbox, see account.h. */
#include "engine/account.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>

#include "common/cleanup.h"

static int write_file(const char *path, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static int write_file(const char *path, const char *format, ...)
{
    _cleanup_close_ int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
    va_list args;

    if (fd < 0)
        return -errno;
    va_start(args, format);
    int r = vdprintf(fd, format, args);
    va_end(args);
    return r < 0 ? -errno : 0;
}

static int write_cpu_list(const char *path, uint32_t cpu_percent)
{
    uint32_t last = (cpu_percent - 1) / 100;

    /* As many as the machine has, or more: then the file that is there tells the truth. */
    if (last + 1 >= (uint32_t)sysconf(_SC_NPROCESSORS_ONLN))
        return 0;
    return last == 0 ? write_file(path, "0\n") : write_file(path, "0-%u\n", last);
}

/* A program that asks for the address of its own host gets one. */
static int write_hosts(const char *directory, const char *name)
{
    char path[ACCOUNT_PATH_MAX + 8];

    snprintf(path, sizeof(path), "%s/hosts", directory);
    return write_file(path, "127.0.0.1\tlocalhost %s\n::1\tlocalhost\n", name);
}

static struct account account_of(const char *runtime, uint64_t connection)
{
    struct account account;

    snprintf(account.directory, sizeof(account.directory), "%s/run-%" PRIu64, runtime, connection);
    snprintf(account.cpu_list, sizeof(account.cpu_list), "%s/run-%" PRIu64 "/cpus", runtime,
             connection);
    return account;
}

int account_create(const char *runtime, uint64_t connection, const char *hostname,
                   uint32_t cpu_percent, struct account *ret)
{
    struct account account = account_of(runtime, connection);

    if (mkdir(account.directory, 0755) < 0)
        return -errno;
    int r = write_hosts(account.directory, hostname);
    r = r < 0 ? r : write_cpu_list(account.cpu_list, cpu_percent);
    if (r < 0)
        return r;
    *ret = account;
    return 0;
}

int account_fill(const struct account *account, uid_t uid, gid_t gid)
{
    char path[ACCOUNT_PATH_MAX + 8];

    snprintf(path, sizeof(path), "%s/passwd", account->directory);
    int r = write_file(path,
                       "root:x:0:0:root:/:/usr/sbin/nologin\n"
                       "sandbox:x:%u:%u:sandbox:/workspace:/bin/sh\n"
                       "nobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n",
                       uid, gid);
    if (r < 0)
        return r;
    snprintf(path, sizeof(path), "%s/group", account->directory);
    return write_file(path,
                      "root:x:0:\n"
                      "sandbox:x:%u:\n"
                      "nogroup:x:65534:\n",
                      gid);
}

void account_remove(const char *runtime, uint64_t connection)
{
    static const char *const names[] = { "passwd", "group", "hosts", "cpus" };
    struct account account = account_of(runtime, connection);
    char path[ACCOUNT_PATH_MAX + 8];

    for (size_t i = 0; i < ELEMENTS(names); i++) {
        snprintf(path, sizeof(path), "%s/%s", account.directory, names[i]);
        unlink(path);
    }
    rmdir(account.directory);
}
