/* Calls under way, from the request to its answer, see mcp-server.h. */
#include "client/mcp-answer.h"
#include "client/mcp-run.h"
#include "common/clock.h"

#include <stdlib.h>

/* Between two words on how a call goes on. */
#define PROGRESS_GAP_USEC (USEC_PER_SEC / 2)

void mcp_call_free(struct mcp_call *call)
{
    struct mcp_call **at = &call->server->calls;

    while (*at != call)
        at = &(*at)->next;
    *at = call->next;
    sd_event_source_disable_unref(call->timer);
    mcp_link_free(call->link);
    json_object_put(call->id);
    json_object_put(call->token);
    json_object_put(call->arguments);
    mcp_batch_unref(call->server, call->batch);
    free(call);
}

void mcp_call_reply(struct mcp_call *call, json_object *result)
{
    mcp_answer_result(call->server, call->batch, call->id, call->modern, result);
    mcp_call_free(call);
}

void mcp_call_refuse(struct mcp_call *call, enum mcp_error error, const char *reason)
{
    mcp_answer_error(call->server, call->batch, call->id, error, reason, NULL);
    mcp_call_free(call);
}

void mcp_call_progress(struct mcp_call *call, const char *text)
{
    uint64_t now = clock_now();
    json_object *message, *params;

    /* A download tells of every piece. */
    if (!call->token || now < call->told_usec + PROGRESS_GAP_USEC)
        return;
    call->told_usec = now;
    message = mcp_message_new(NULL);
    params = json_object_new_object();
    (void)json_add_string(message, "method", "notifications/progress");
    (void)json_add(params, "progressToken", json_object_get(call->token));
    (void)json_add_uint64(params, "progress", ++call->progress);
    (void)json_add_string(params, "message", text);
    (void)json_add(message, "params", params);
    mcp_send(call->server, message);
}

struct mcp_call *mcp_call_find(struct mcp_server *server, json_object *id)
{
    for (struct mcp_call *call = server->calls; call; call = call->next)
        if (json_object_equal(call->id, id))
            return call;
    return NULL;
}
