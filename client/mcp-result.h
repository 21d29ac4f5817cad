/* What a model is told of a run: results of tools/call (type CallToolResult of MCP). Output of
 * programs stands apart, and is said to be data. Called by all tools. */
#pragma once

#include <json-c/json.h>
#include <stdbool.h>

struct said;

struct mcp_result_form {
    bool knows_links;  /* content of type resource_link */
    bool asks_for_end; /* that the run was cancelled is no failure */
    const char *note;  /* what was said before, or NULL */
};

/* Of @result, type Result of io.sbxctl.Sandbox, which becomes the structured content. All of these
 * return a new object, or NULL out of memory. */
json_object *mcp_result_of_run(json_object *result, const struct mcp_result_form *form);
/* Of what failed without a result. @before is a sentence's beginning, or "". @said stays the
 * caller's. */
json_object *mcp_result_of_failure(const struct said *said, const char *before);
/* With a text of ours and an object. Both are consumed. */
json_object *mcp_result_new(json_object *structured, const char *text);

/* Adds to the content of a result. Return 0 or -ENOMEM. */
int mcp_result_add_text(json_object *result, const char *text);
/* What a program wrote, in marks that it cannot know. @what names it, and is ours. */
int mcp_result_add_untrusted(json_object *result, const char *what, const char *text);
/* An output file, by type OutputFile: an image as such, if it may be that large and @left, the
 * bytes that all may have, lasts; else as a link to it, if @links. */
int mcp_result_add_file(json_object *result, json_object *file, bool links, size_t *left);

/* Of all images of one result. */
#define MCP_IMAGES_MAX (4 * 1024 * 1024)
