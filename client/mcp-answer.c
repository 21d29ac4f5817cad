/* Answers, see mcp-answer.h. */
#include "client/mcp-answer.h"

#include <stdlib.h>

#include "client/mcp-methods.h"
#include "config-paths.h"

struct mcp_batch *mcp_batch_new(void)
{
    struct mcp_batch *batch = calloc(1, sizeof(*batch));

    if (batch)
        *batch = (struct mcp_batch){ .open = 1, .answers = json_object_new_array() };
    return batch;
}

void mcp_send(struct mcp_server *server, json_object *message)
{
    if (message)
        (void)mcp_stream_send(server->stream, message);
}

void mcp_batch_unref(struct mcp_server *server, struct mcp_batch *batch)
{
    if (!batch || --batch->open > 0)
        return;
    if (json_object_array_length(batch->answers) > 0)
        mcp_send(server, json_object_get(batch->answers));
    json_object_put(batch->answers);
    free(batch);
}

/* @answer is consumed. */
static void send_answer(struct mcp_server *server, struct mcp_batch *batch, json_object *answer)
{
    if (batch)
        (void)json_append(batch->answers, answer);
    else
        mcp_send(server, answer);
}

json_object *mcp_message_new(json_object *id)
{
    json_object *answer = json_object_new_object();

    if (json_add_string(answer, "jsonrpc", "2.0") < 0 ||
        (id && json_add(answer, "id", json_object_get(id)) < 0)) {
        json_object_put(answer);
        return NULL;
    }
    return answer;
}

void mcp_answer_error(struct mcp_server *server, struct mcp_batch *batch, json_object *id,
                      enum mcp_error error, const char *reason, json_object *data)
{
    json_object *answer = mcp_message_new(id), *object = json_object_new_object();

    (void)json_add(object, "code", json_object_new_int(error));
    (void)json_add_string(object, "message", reason);
    if (data)
        (void)json_add(object, "data", data);
    (void)json_add(answer, "error", object);
    send_answer(server, batch, answer);
}

json_object *mcp_implementation(void)
{
    json_object *object = json_object_new_object();

    (void)json_add_string(object, "name", "sbxctl");
    (void)json_add_string(object, "title", "sbxctl: sandboxed runs");
    (void)json_add_string(object, "version", SBXCTL_VERSION);
    return object;
}

void mcp_answer_result(struct mcp_server *server, struct mcp_batch *batch, json_object *id,
                       bool modern, json_object *result)
{
    json_object *answer, *meta;

    if (!result) {
        mcp_answer_error(server, batch, id, MCP_ERROR_INTERNAL, "Out of memory.", NULL);
        return;
    }
    if (modern) {
        meta = json_object_new_object();
        (void)json_add(meta, MCP_META "serverInfo", mcp_implementation());
        (void)json_add(result, "_meta", meta);
        (void)json_add_string(result, "resultType", "complete");
    }
    answer = mcp_message_new(id);
    (void)json_add(answer, "result", result);
    send_answer(server, batch, answer);
}
