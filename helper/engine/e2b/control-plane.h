/* E2B's control plane: sandboxes made, looked at and removed, and what its errors mean to a user.
 * Called by sandbox.c and sweep.c; with cloud-call.c and cloud-create.c the only place that makes
 * sentences of errors of the cloud. */
#pragma once

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/json.h"
#include "engine/protocol.h"
#include "http.h"

#define CLOUD_ID_MAX 64
#define CLOUD_TOKEN_MAX 256
/* A call, all tries together; the server's own limit for one is 70 s. */
#define CLOUD_TIMEOUT_USEC (75 * UINT64_C(1000000))

struct cloud {
    struct http http;
    const struct config *config;
    bool is_v1; /* there is no /v2 */
    char error[ENGINE_TEXT_MAX + 1];
    bool unusable;    /* the error is one of the whole cloud: another engine may do */
    bool may_be_left; /* a create may still have made a sandbox, or may yet */
    bool was_busy;    /* the last call was done again after an answer that said so */
};

/* What we say about a sandbox of ours: never who the user is. */
struct cloud_labels {
    char machine[33]; /* this machine, but not its machine id */
    char service[33]; /* a process of the service */
    char connection[24];
    char run[ENGINE_RUN_ID_MAX + 1];
    char user[33]; /* one of this machine's, nobody can tell which */
};

struct cloud_request {
    const char *template_id;
    const struct cloud_labels *labels;
    uint64_t seconds; /* that it lives at most */
    bool network;
    const char *hosts; /* it may lead to, with spaces between; empty: anywhere */
};

struct cloud_sandbox {
    char id[CLOUD_ID_MAX];
    char token[CLOUD_TOKEN_MAX]; /* for envd: a secret */
    char domain[256];            /* empty: the configured one */
    char version[32];            /* of envd */
};

int cloud_open(const struct config *config, struct cloud *ret);
void cloud_close(struct cloud *cloud);

/* Makes a sandbox. Returns 0, or a negative errno with a sentence; nothing of it is left then, as
 * far as that could be found out. */
int cloud_create(struct cloud *cloud, const struct cloud_request *request,
                 struct cloud_sandbox *ret);
/* Sees to it that the sandbox ends by itself when it should, by its own clock. */
int cloud_check_life(struct cloud *cloud, const char *id, uint64_t seconds);
/* Has its clock begin anew, when it lived at least @least and at most @most seconds. */
int cloud_renew_life(struct cloud *cloud, const char *id, uint64_t seconds, uint64_t least,
                     uint64_t most);
/* Returns 1 if there is such a sandbox, 0 if there is none, or a negative errno. */
int cloud_exists(struct cloud *cloud, const char *id);
/* Asks for the sandbox's end; it may have come already. @timeout_usec is for all tries. */
int cloud_delete(struct cloud *cloud, const char *id, uint64_t timeout_usec);
/* The same, and sees to it that it is gone, asking again as long as it is not, for @timeout_usec.
 */
int cloud_delete_surely(struct cloud *cloud, const char *id, uint64_t timeout_usec);

/* Gets a listed sandbox's id and labels (an object, or NULL). Returns 0 or a negative errno. */
typedef int (*cloud_listed_fn)(const char *id, json_object *labels, void *userdata);
/* Lists the sandboxes whose label @key is @value. Returns how many there are. */
int cloud_list(struct cloud *cloud, const char *key, const char *value, cloud_listed_fn fn,
               void *userdata);

#define CLOUD_LABEL_MACHINE "sbxctl-machine"
#define CLOUD_LABEL_SERVICE "sbxctl-service"
#define CLOUD_LABEL_CONNECTION "sbxctl-connection"
#define CLOUD_LABEL_RUN "sbxctl-run"
#define CLOUD_LABEL_USER "sbxctl-user"

/* Notes a sentence, and returns @error. */
int cloud_fail(struct cloud *cloud, int error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The sentence for a request to @where that had no reply. */
int cloud_fail_transport(struct cloud *cloud, int error, const char *where);
/* What a reply with an error says, cleaned: no markup, no control characters, no secrets. */
#define CLOUD_WORDS_MAX 200
void cloud_words(const struct http_reply *reply, char ret[CLOUD_WORDS_MAX]);
/* Whether an id or a token of the cloud's has only letters, digits and "-_.". */
bool cloud_token_is_plain(const char *text);
/* The reply of a create; 0, or -EBADMSG. Pure, for the fuzzer. */
int cloud_parse_created(const char *text, size_t size, struct cloud_sandbox *ret);
/* The seconds from start to end in a sandbox's details, -EBADMSG if they cannot be told. Pure. */
int64_t cloud_parse_life(const char *text, size_t size);
/* Calls @fn for what a list has. Returns their number, or -EBADMSG, or what @fn returned. Pure. */
int cloud_parse_list(const char *text, size_t size, cloud_listed_fn fn, void *userdata);
