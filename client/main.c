/* sbxctl: runs code that is not fully trusted in a sandbox. This file only finds the verb. Whatever
 * the command line says, it is the caller's own; no privilege is at stake here. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "client/complete.h"
#include "client/exit-status.h"
#include "client/say.h"
#include "client/verb.h"
#include "common/cleanup.h"
#include "config-paths.h"

/* A stream that was closed by who started us must not be taken by a file that is opened later. */
static int ensure_standard_streams(void)
{
    int fd;

    do {
        fd = open("/dev/null", O_RDWR);
        if (fd < 0)
            return -errno;
    } while (fd <= STDERR_FILENO);
    close(fd);
    return 0;
}

static int dispatch(const struct verb *verb, int argc, char **argv)
{
    switch (verb->id) {
    case VERB_RUN:
        return verb_run(verb, argc, argv);
    case VERB_PS:
        return verb_ps(verb, argc, argv);
    case VERB_SHOW:
        return verb_show(verb, argc, argv);
    case VERB_GET:
        return verb_get(verb, argc, argv);
    case VERB_RM:
        return verb_rm(verb, argc, argv);
    case VERB_LOGS:
        return verb_logs(verb, argc, argv);
    case VERB_WAIT:
        return verb_wait(verb, argc, argv);
    case VERB_STOP:
        return verb_stop(verb, argc, argv);
    case VERB_MARK:
        return verb_mark(verb, argc, argv);
    case VERB_AUDIT:
        return verb_audit(verb, argc, argv);
    case VERB_DOCTOR:
        return verb_doctor(verb, argc, argv);
    case VERB_ENGINES:
        return verb_engines(verb, argc, argv);
    case VERB_PULL:
        return verb_pull(verb, argc, argv);
    case VERB_PACKAGES:
        return verb_packages(verb, argc, argv);
    case VERB_POLICY:
        return verb_policy(verb, argc, argv);
    case VERB_MCP:
        return verb_mcp(verb, argc, argv);
    }
    return EXIT_USAGE;
}

static int usage_error(const char *name)
{
    _cleanup_free_ char *shown = name ? displayed(name) : NULL;

    if (shown)
        fprintf(stderr, "sbxctl: there is no verb '%s'\n", shown);
    else
        fprintf(stderr, "sbxctl: the verb is missing\n");
    fprintf(stderr, "Try 'sbxctl --help'.\n");
    return EXIT_USAGE;
}

int main(int argc, char **argv)
{
    if (ensure_standard_streams() < 0)
        return EXIT_OURS;
    /* A reader that went away is an error of write(), which everything here looks at. */
    signal(SIGPIPE, SIG_IGN);

    if (argc < 2)
        return usage_error(NULL);
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        verb_print_overview();
        return print_end();
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("sbxctl %s\n", SBXCTL_VERSION);
        return print_end();
    }

    if (strcmp(argv[1], "--complete") == 0 && argc == 3)
        return complete(argv[2]);

    const struct verb *verb = verb_find(argv[1]);
    if (!verb)
        return usage_error(argv[1]);
    /* What getopt says begins with its argv[0]. */
    _cleanup_free_ char *name = NULL;
    if (asprintf(&name, "sbxctl %s", verb->name) < 0) {
        name = NULL;
        return EXIT_OURS;
    }
    argv[1] = name;
    return dispatch(verb, argc - 1, argv + 1);
}
