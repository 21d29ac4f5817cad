/* What the broker and its store process say to each other: a small fixed struct per packet
 * (SOCK_SEQPACKET), with JSON beside it in a sealed memfd where there is more to say. Called by
 * both ends.
 *
 *   main socket:  broker → request    fds: the job's own socket, payload, [workspace]
 *   job's socket: store  → answer     fds: [payload], [an opened file]
 *                 broker → request    (PUBLISH after COLLECT; no fds)
 *
 * End of file on a job's socket: the broker lost interest in the job. On the main socket: the
 * broker is gone. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/json.h"

#define STORE_PAYLOAD_MAX (4 * 1024 * 1024)

enum store_operation {
    STORE_COLLECT = 1,    /* runId, uid, gid, filesMax, bytesMax, inputs; workspace fd */
    STORE_PUBLISH,        /* what this job collected */
    STORE_REMOVE,         /* runId, uid */
    STORE_OPEN,           /* runId, uid, name */
    STORE_DISCARD,        /* runId */
    STORE_SURVEY,         /* uid */
    STORE_PUBLISH_STAGED, /* runId, uid, gid: what an earlier job collected */
    STORE_LAYER_INSTALL,  /* uid, key, folder, filesMax, bytesMax, facts; workspace fd */
    STORE_LAYER_REMOVE,   /* uid, key */
    STORE_LAYER_LIST,     /* uid */
    STORE_LAYER_LOAD,     /* nothing */
};

struct store_request {
    uint32_t operation; /* enum store_operation */
    uint32_t uid;       /* whose turn it is when jobs wait for each other */
    uint32_t has_workspace;
};

struct store_answer {
    int32_t error;       /* 0 or a negative errno */
    uint32_t has_result; /* on an error too: "reason" is a sentence, "name" what it is about */
    uint32_t has_file;
};

/* Puts @object into a sealed memfd. Returns the fd or a negative errno. */
int store_payload_new(json_object *object);
/* Parses what store_payload_new() made. Returns 0 with a reference, -EBADMSG if @fd is no such
 * thing, or what json_parse_guarded() says. */
int store_payload_read(int fd, json_object **ret);

/* Sends an answer; @result may be NULL and @file -1; both stay the caller's. Returns 0 or a
 * negative errno. */
int store_answer_send(int job, int error, json_object *result, int file);

/* Whether the other end of a job's socket was closed. Does not block and consumes nothing. */
bool store_peer_gone(int job);
