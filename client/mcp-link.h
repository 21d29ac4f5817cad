/* A call to the helper over a connection of its own, which the event loop waits for. Called by
 * mcp-run.c and mcp-runs.c. There are never more connections than the helper lets a user have; what
 * is more waits here. */
#pragma once

#include <stdbool.h>
#include <systemd/sd-event.h>

#include "client/request.h"
#include "common/varlink.h"

#define MCP_LINKS_MAX 32

struct mcp_links {
    sd_event *event; /* borrowed */
    unsigned open;
    struct mcp_link *first_waiting, *last_waiting;
};

struct mcp_link_handlers {
    /* Each answer; the last one has "continues" false. Descriptors may be taken out. After the
     * last one the link is not used any more, and may be freed here. */
    void (*answer)(struct varlink_answer *answer, void *userdata);
    /* There is no connection (any more): what say_failure() and the like told is kept (say.h). May
     * free the link. */
    void (*lost)(void *userdata);
    void *userdata;
};

/* Makes the call as soon as there may be another connection. @request is emptied: its parameters
 * and descriptors. A call without @more is given up when it was not answered in time. Handlers are
 * called from the event loop only. Returns 0 or a negative errno. */
int mcp_link_new(struct mcp_links *links, const char *method, bool more, struct request *request,
                 const struct mcp_link_handlers *handlers, struct mcp_link **ret);
/* Ends the connection, and with it a run that was called for. */
struct mcp_link *mcp_link_free(struct mcp_link *link);
