/* Installs the two seccomp programs that seccomp-gen.c made at build time, see launch.h. */
#include "launch.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>

static const struct sock_filter calls[] = {
#include "seccomp-calls.h"
};
static const struct sock_filter arguments[] = {
#include "seccomp-arguments.h"
};

static int install(const struct sock_filter *filter, size_t n)
{
    struct sock_fprog program = {
        .len = (unsigned short)n,
        .filter = (struct sock_filter *)filter,
    };
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) < 0 ? -errno : 0;
}

int seccomp_install(void)
{
    int r = install(arguments, ELEMENTS(arguments));
    return r < 0 ? r : install(calls, ELEMENTS(calls));
}
