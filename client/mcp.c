/* sbxctl mcp: a server of the Model Context Protocol on standard input and output, for assistants.
 * Must never write anything but messages to
 * standard output while it serves, nor wait for who reads standard error. */
#include <sys/resource.h>

#include "client/exit-status.h"
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

int verb_mcp(const struct verb *verb, int argc, char **argv)
{
    struct verb_arguments arguments;
    int r;

    return verb_read_arguments(verb, argc, argv, 0, 0, &arguments, &r) ? serve() : r;
}
