/* See mcp-query.h. */
#include "client/mcp-query.h"

#include <errno.h>

#include "client/helper.h"
#include "client/mcp-result.h"
#include "client/say.h"

void mcp_query_fail(struct mcp_call *call)
{
    _cleanup_(said_release) struct said said = {};

    said_take(&said);
    mcp_call_reply(call, mcp_result_of_failure(&said, ""));
}

static void on_answer(struct varlink_answer *answer, void *userdata)
{
    struct mcp_call *call = userdata;

    call->link = mcp_link_free(call->link);
    if (answer->error) {
        (void)helper_fail(answer);
        mcp_query_fail(call);
    } else {
        call->on_answer(call, answer->parameters);
    }
}

static void on_lost(void *userdata)
{
    mcp_query_fail(userdata);
}

void mcp_query(struct mcp_call *call, const char *method, json_object *parameters, mcp_query_fn fn)
{
    const struct mcp_link_handlers handlers = { on_answer, on_lost, call };
    _cleanup_(request_release) struct request request = { .parameters = parameters };

    call->on_answer = fn;
    if (mcp_link_new(&call->server->links, method, false, &request, &handlers, &call->link) < 0) {
        (void)say_failure_errno(-ENOMEM, "cannot ask the helper");
        mcp_query_fail(call);
    }
}
