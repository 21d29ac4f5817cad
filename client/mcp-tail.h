/* One output stream of a run under way: reads the pipe, so that the program is not held up, and
 * keeps the end of it for whoever asks how the run stands. The helper keeps the rest. */
#pragma once

#include <json-c/json.h>
#include <stdint.h>
#include <systemd/sd-event.h>

#define MCP_TAIL_MAX (16 * 1024)

struct mcp_tail {
    int fd; /* -1: not begun, or at its end */
    sd_event_source *source;
    uint64_t bytes; /* of all that came */
    size_t size;
    char data[MCP_TAIL_MAX];
};

/* Takes @fd over in any case. Returns 0 or a negative errno. */
int mcp_tail_start(struct mcp_tail *tail, sd_event *event, int fd);
void mcp_tail_end(struct mcp_tail *tail);

/* As type Stream of io.sbxctl.Sandbox: a new object, or NULL out of memory. */
json_object *mcp_tail_object(const struct mcp_tail *tail);
