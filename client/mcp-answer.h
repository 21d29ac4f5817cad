/* Answers to requests, one by one or in batches. Called by mcp-server.c, mcp-methods.c and
 * mcp-call.c. */
#pragma once

#include "client/mcp-server.h"

/* The answers to a batch (revision 2025-03-26), which go out together. */
struct mcp_batch {
    unsigned open; /* without an answer yet, and one while it is read */
    json_object *answers;
};

/* NULL out of memory. */
struct mcp_batch *mcp_batch_new(void);
/* The last one sends what there is. NULL is fine. */
void mcp_batch_unref(struct mcp_server *server, struct mcp_batch *batch);

/* An object with @id, which may be NULL; or NULL out of memory. */
json_object *mcp_message_new(json_object *id);
/* @message is consumed and may be NULL. */
void mcp_send(struct mcp_server *server, json_object *message);

/* Both answer in @batch, or by themselves if it is NULL. @data is consumed and may be NULL. */
void mcp_answer_error(struct mcp_server *server, struct mcp_batch *batch, json_object *id,
                      enum mcp_error error, const char *reason, json_object *data);
/* @result is consumed; NULL stands for out of memory. */
void mcp_answer_result(struct mcp_server *server, struct mcp_batch *batch, json_object *id,
                       bool modern, json_object *result);

/* Who we are. */
json_object *mcp_implementation(void);
