/* Calls to the helper from an event loop, see mcp-link.h. Connecting and sending wait for a helper
 * that hangs, as in every other verb; a call is small, so the socket's buffer takes it. */
#include "client/mcp-link.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>

#include "client/exit-status.h"
#include "client/helper.h"
#include "client/say.h"
#include "common/clock.h"

#define ANSWER_USEC (30 * USEC_PER_SEC)

struct mcp_link {
    struct mcp_links *links;
    struct mcp_link *next; /* waiting */
    bool is_waiting, is_open, more, is_answered;
    const char *method;
    struct request request;
    struct mcp_link_handlers handlers;
    struct varlink_client *client;
    sd_event_source *source, *timer, *starter;
};

static void start_next(struct mcp_links *links);

static void close_link(struct mcp_link *link)
{
    link->source = sd_event_source_disable_unref(link->source);
    link->timer = sd_event_source_disable_unref(link->timer);
    link->client = varlink_client_free(link->client);
    if (link->is_open) {
        link->is_open = false;
        link->links->open--;
        start_next(link->links);
    }
}

static void lose(struct mcp_link *link)
{
    close_link(link);
    link->handlers.lost(link->handlers.userdata);
}

static int on_answer(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
    struct mcp_link *link = userdata;

    for (;;) {
        _cleanup_answer_ struct varlink_answer answer = {};
        int r = varlink_client_receive(link->client, 0, &answer);

        if (r == 0)
            return 0;
        if (r < 0) {
            (void)helper_fail_connection(r, link->is_answered);
            lose(link);
            return 0;
        }
        link->is_answered = true;
        bool is_last = answer.error || !answer.continues;
        if (is_last)
            close_link(link);
        link->handlers.answer(&answer, link->handlers.userdata);
        if (is_last)
            return 0;
    }
}

static int on_no_answer(sd_event_source *source, uint64_t usec, void *userdata)
{
    (void)say_failure(EXIT_UNREACHABLE, "Unreachable",
                      "as root, try: systemctl restart sbxctl-helper.service",
                      "the helper does not answer");
    lose(userdata);
    return 0;
}

/* Returns 0, or not if it failed, which was told. */
static int start(struct mcp_link *link)
{
    sd_event *event = link->links->event;

    int r = helper_connect(&link->client);
    if (r == 0)
        r = helper_send(link->client, link->method, TAKE_PTR(link->request.parameters),
                        link->more ? VARLINK_CALL_MORE : 0, link->request.fds, link->request.n_fds);
    request_release(&link->request);
    if (r != 0)
        return r;
    r = sd_event_add_io(event, &link->source, varlink_client_fd(link->client), EPOLLIN, on_answer,
                        link);
    if (r >= 0 && !link->more)
        r = sd_event_add_time_relative(event, &link->timer, CLOCK_MONOTONIC, ANSWER_USEC, 0,
                                       on_no_answer, link);
    return r < 0 ? say_failure_errno(r, "cannot talk to the helper") : 0;
}

static int on_start(sd_event_source *source, void *userdata)
{
    struct mcp_link *link = userdata;

    link->starter = sd_event_source_disable_unref(link->starter);
    if (start(link) != 0)
        lose(link);
    return 0;
}

/* From the event loop, so that no handler is called from within the call that made the link. */
static int begin(struct mcp_link *link)
{
    link->is_open = true;
    link->links->open++;
    return sd_event_add_defer(link->links->event, &link->starter, on_start, link);
}

static void start_next(struct mcp_links *links)
{
    struct mcp_link *link = links->first_waiting;

    if (!link || links->open >= MCP_LINKS_MAX)
        return;
    links->first_waiting = link->next;
    if (!links->first_waiting)
        links->last_waiting = NULL;
    link->is_waiting = false;
    if (begin(link) < 0)
        lose(link);
}

int mcp_link_new(struct mcp_links *links, const char *method, bool more, struct request *request,
                 const struct mcp_link_handlers *handlers, struct mcp_link **ret)
{
    struct mcp_link *link = calloc(1, sizeof(*link));
    int r = 0;

    if (!link)
        return -ENOMEM;
    *link = (struct mcp_link){
        .links = links, .method = method, .more = more, .request = *request, .handlers = *handlers
    };
    *request = (struct request){};
    if (links->open < MCP_LINKS_MAX) {
        r = begin(link);
    } else {
        link->is_waiting = true;
        if (links->last_waiting)
            links->last_waiting->next = link;
        else
            links->first_waiting = link;
        links->last_waiting = link;
    }
    if (r < 0) {
        mcp_link_free(link);
        return r;
    }
    *ret = link;
    return 0;
}

static void leave_queue(struct mcp_link *link)
{
    struct mcp_links *links = link->links;
    struct mcp_link **at = &links->first_waiting, *before = NULL;

    while (*at != link) {
        before = *at;
        at = &before->next;
    }
    *at = link->next;
    if (links->last_waiting == link)
        links->last_waiting = before;
}

struct mcp_link *mcp_link_free(struct mcp_link *link)
{
    if (!link)
        return NULL;
    if (link->is_waiting)
        leave_queue(link);
    link->starter = sd_event_source_disable_unref(link->starter);
    close_link(link);
    request_release(&link->request);
    free(link);
    return NULL;
}
