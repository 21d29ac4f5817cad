/* The MCP server: what a client asks, of either era of the protocol, and the calls that are not
 * answered yet. mcp.c runs it; the tools (mcp-run.c, mcp-runs.c) answer calls by it.
 *
 * Legacy: revisions up to 2025-11-25, which begin with "initialize". Modern: 2026-07-28, where each
 * request tells its revision in "_meta"; both may come over the same streams
 * (modelcontextprotocol.io/specification/2026-07-28/basic/versioning). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "client/mcp-link.h"
#include "client/mcp-message.h"
#include "client/mcp-stream.h"

struct mcp_run;
struct mcp_batch;

struct mcp_server {
    sd_event *event;
    struct mcp_stream *stream;
    struct mcp_links links;
    const char *legacy; /* the revision that "initialize" has agreed on; NULL before */
    json_object *tools; /* the list of them; NULL until somebody asks */
    struct mcp_call *calls;
    struct mcp_run *runs;
};

/* A call of a tool. */
struct mcp_call {
    struct mcp_server *server;
    struct mcp_call *next;
    json_object *id;
    struct mcp_batch *batch; /* its answer goes out with those of others */
    bool modern;
    bool knows_links;   /* content of type resource_link, since 2025-06-18 */
    json_object *token; /* of progress, or NULL */
    uint64_t progress;  /* what was told last, and when */
    uint64_t told_usec;
    json_object *arguments; /* an object, or NULL */

    /* What it waits for: a run of this server, or an answer of the helper. */
    struct mcp_run *run;
    uint64_t begun_usec, wait_usec; /* CLOCK_MONOTONIC; how long it may wait */
    sd_event_source *timer;
    struct mcp_link *link;
    bool is_late;      /* it has waited, and is answered as soon as there is something to say */
    bool ends_run;     /* who gives the call up ends the run */
    bool asks_for_end; /* that the run was cancelled is no failure of this call */
    void (*on_answer)(struct mcp_call *call, json_object *parameters); /* see mcp-query.h */

    uint64_t offset, length; /* arguments of read_output */
};

int mcp_server_new(sd_event *event, struct mcp_server **ret);
struct mcp_server *mcp_server_free(struct mcp_server *server);

/* NULL if none of that id is unanswered. */
struct mcp_call *mcp_call_find(struct mcp_server *server, json_object *id);

/* All of these end the call, and free it. */

void mcp_call_free(struct mcp_call *call); /* without an answer */

/* With a result of tools/call, which is consumed; NULL stands for out of memory. */
void mcp_call_reply(struct mcp_call *call, json_object *result);
/* With an error of the protocol. */
void mcp_call_refuse(struct mcp_call *call, enum mcp_error error, const char *reason);

/* Tells how a call goes on, if its client wants to know. */
void mcp_call_progress(struct mcp_call *call, const char *text);
