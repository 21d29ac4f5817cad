/* sbxctl-egress: the way out of sandboxes into the network, by the rules that the broker sends. A
 * process per run, forked by this socket-activated service, which runs as a dynamic user and has
 * no configuration of its own. Must never connect to what verdict.c has not judged. */
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>

#include "engine/service.h"
#include "session.h"

static int serve(struct engine_service *service)
{
    struct engine_service_event event;

    for (;;) {
        int r = engine_service_wait(service, &event);
        if (r < 0)
            return r;
        switch (event.type) {
        case ENGINE_SERVICE_CONNECTION:
            /* splice(2) knows no MSG_NOSIGNAL. */
            signal(SIGPIPE, SIG_IGN);
            _exit(session_serve(event.sock) < 0);
        case ENGINE_SERVICE_LOST:
            /* Its sockets went with it. */
            _exit(EXIT_SUCCESS);
        case ENGINE_SERVICE_DONE:
        default:
            return 0;
        }
    }
}

int main(void)
{
    struct engine_service service;

    /* All runs' processes are one user: one of them that is taken over must not get at the others.
     */
    prctl(PR_SET_DUMPABLE, 0);
    int r = engine_service_open(&service);
    if (r >= 0)
        r = serve(&service);
    return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
