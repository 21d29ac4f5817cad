/* Lines of JSON on standard input and output, for mcp-server.c. Nobody is waited for: what the
 * client does not read is kept, up to a limit above which nothing more is read from it. Writes
 * nothing to standard output but whole messages. */
#pragma once

#include <json-c/json.h>
#include <stddef.h>
#include <systemd/sd-event.h>

struct mcp_stream;

struct mcp_stream_handlers {
    void (*line)(const char *line, size_t size, void *userdata);
    /* A line of more than MCP_MESSAGE_MAX has ended; @id is the one it seems to have, or NULL. */
    void (*too_long)(json_object *id, void *userdata);
    /* Standard input has ended, or nobody reads standard output any more. */
    void (*end)(void *userdata);
    void *userdata;
};

/* Returns 0 or a negative errno. */
int mcp_stream_new(sd_event *event, const struct mcp_stream_handlers *handlers,
                   struct mcp_stream **ret);
struct mcp_stream *mcp_stream_free(struct mcp_stream *stream);

/* Queues @message, which is consumed. Returns 0 or -ENOMEM. */
int mcp_stream_send(struct mcp_stream *stream, json_object *message);

/* Writes what is queued, for as long as it is read and at most a few seconds. */
void mcp_stream_flush(struct mcp_stream *stream);
