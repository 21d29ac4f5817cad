/* sbxctl-helper: forks the store, gives its capabilities away, and serves. Started by
 * sbxctl-helper.socket; by people with --check-configuration, which needs no privilege. */
#include "broker/manager.h"
#include "config-paths.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sysexits.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#define STATE_DIRECTORY "/var/lib/sbxctl"

/* From here on the process can do what any process of its user can, and its descendants no more. */
static int drop_capabilities(void)
{
    struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
    struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = { 0 };

    if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0 ||
        syscall(SYS_capset, &header, none) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return -errno;
    /* Nobody of the same user shall look into it. */
    return prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 ? -errno : 0;
}

/* A journal that stands still must not stop us: what it does not take at once is lost. Only where
 * stderr is ours alone, as the service manager makes it. */
static void make_messages_nonblocking(void)
{
    int flags = fcntl(STDERR_FILENO, F_GETFL);
    struct stat st;

    if (flags >= 0 && fstat(STDERR_FILENO, &st) == 0 && S_ISSOCK(st.st_mode))
        (void)fcntl(STDERR_FILENO, F_SETFL, flags | O_NONBLOCK);
}

/* Says what the helper would say if it started now. */
static int check_configuration(void)
{
    _cleanup_free_ char *error = NULL;
    struct config config;

    int r = config_load(SBXCTL_CONFIG_DIR, SBXCTL_VENDOR_CONFIG_DIR, &config, &error);
    if (r < 0) {
        fprintf(stderr, "%s\n", error ? error : strerror(-r));
        return EXIT_FAILURE;
    }
    config_release(&config);
    return EXIT_SUCCESS;
}

int main(int argc, char *argv[])
{
    struct manager manager;
    struct store *store;
    int r;

    if (argc == 2 && strcmp(argv[1], "--check-configuration") == 0)
        return check_configuration();
    if (argc > 1) {
        fprintf(stderr, "sbxctl-helper takes no argument but --check-configuration; see "
                        "sbxctl-helper(8).\n");
        return EXIT_FAILURE;
    }
    (void)signal(SIGPIPE, SIG_IGN);
    make_messages_nonblocking();
    /* Before anything else: the store takes the capabilities with it. */
    r = store_fork(STATE_DIRECTORY, &store);
    if (r >= 0)
        r = drop_capabilities();
    if (r < 0) {
        fprintf(stderr, SD_ERR "start: %s\n", strerror(-r));
        return EXIT_FAILURE;
    }
    r = manager_init(&manager, store, STATE_DIRECTORY);
    if (r >= 0)
        r = manager_serve(&manager);
    else
        manager_turn_away(&manager);
    bool misconfigured = manager.misconfigured;
    manager_release(&manager);
    return misconfigured ? EX_CONFIG : r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
