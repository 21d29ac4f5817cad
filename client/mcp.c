/* sbxctl mcp: a server of the Model Context Protocol on standard input and output, for assistants;
 * and sbxctl mcp install, which tells an assistant of it. Must never write anything but messages to
 * standard output while it serves, nor wait for who reads standard error. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <sys/resource.h>

#include "client/exit-status.h"
#include "client/mcp-install.h"
#include "client/mcp-server.h"
#include "client/say.h"
#include "client/verb.h"
#include "common/cleanup.h"

static void server_freep(struct mcp_server **server)
{
    mcp_server_free(*server);
}

static void event_unrefp(sd_event **event)
{
    sd_event_unref(*event);
}

/* A run takes four descriptors and one for each input. */
static void allow_many_files(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return;
    limit.rlim_cur = limit.rlim_max < 65536 ? limit.rlim_max : 65536;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
}

static int serve(void)
{
    _cleanup_(event_unrefp) sd_event *event = NULL;
    _cleanup_(server_freep) struct mcp_server *server = NULL;

    int r = sd_event_new(&event);
    if (r >= 0)
        r = mcp_server_new(event, &server);
    if (r < 0)
        return say_failure_errno(r, "cannot serve");
    allow_many_files();
    say_keep();
    r = sd_event_loop(event);
    return r < 0 ? EXIT_OURS : 0;
}

struct mcp_options {
    bool print;
    const char *client;
};

/* Options may come before and after "install". Returns true to go on. */
static bool take_options(const struct verb *verb, int argc, char **argv,
                         struct mcp_options *options, int *ret_status)
{
    const char *argument;
    int option;

    while ((option = verb_next_option(verb, argc, argv, &argument)) != VERB_OPTIONS_END)
        switch (option) {
        case OPTION_CLIENT:
            options->client = argument;
            break;
        case OPTION_PRINT:
            options->print = true;
            break;
        case OPTION_HELP:
            verb_print_help(verb);
            *ret_status = print_end();
            return false;
        default:
            *ret_status = EXIT_USAGE;
            return false;
        }
    return true;
}

static int install(const struct verb *verb, const struct mcp_options *options)
{
    if (!options->client)
        return verb_usage_error(verb, "install: --client is missing; it is one of: %s",
                                mcp_install_clients);
    if (!mcp_install_knows(options->client)) {
        _cleanup_free_ char *shown = displayed(options->client);
        return verb_usage_error(verb, "install: there is no client '%s'; it is one of: %s", shown,
                                mcp_install_clients);
    }
    return mcp_install(options->client, options->print);
}

int verb_mcp(const struct verb *verb, int argc, char **argv)
{
    struct mcp_options options = {};
    char *name = argv[0];
    int r;

    if (!take_options(verb, argc, argv, &options, &r))
        return r;
    if (optind == argc && !options.client && !options.print) {
        if (isatty(STDIN_FILENO))
            say("this is for assistants, which start it by themselves; 'sbxctl mcp install "
                "--client CLIENT' tells one of it");
        return serve();
    }
    if (optind == argc)
        return verb_usage_error(verb, "--client and --print are for install");
    if (strcmp(argv[optind], "install") != 0)
        return verb_usage_error(verb, "the only argument is install");
    argc -= optind;
    argv += optind;
    argv[0] = name; /* for getopt's own words */
    optind = 0;
    if (!take_options(verb, argc, argv, &options, &r))
        return r;
    return optind == argc ? install(verb, &options)
                          : verb_usage_error(verb, "install takes no arguments");
}
