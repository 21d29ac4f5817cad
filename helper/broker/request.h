/* A run as it was asked for: parsed once from the call's parameters into one struct, which is then
 * checked, authorised, executed and audited. After request_parse() nothing reads the parameters
 * again. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/host-pattern.h"
#include "common/json.h"
#include "common/varlink.h"

#define REQUEST_NAME_MAX 255
#define TEMPLATE_NAME_MAX 128
#define REQUEST_SHA256_TEXT 65
#define REQUEST_HOSTS_MAX 16
/* Bytes of all names together, with a space between two: they are shown whole, or not taken. */
#define REQUEST_HOSTS_TEXT_MAX 512

enum streams { STREAMS_NONE, STREAMS_MESSAGES, STREAMS_DESCRIPTORS };

struct request_input {
    char *name; /* relative path in the workspace */
    int fd; /* ours; a regular file of the caller's or a memfd of ours: read by the launcher only */
    uint64_t size; /* bytes */
};

/* "Unset" is UINT64_MAX for numbers and NULL for texts. */
struct request {
    char *script_name; /* one path component */
    int script;        /* sealed memfd, ours */
    uint64_t script_bytes;
    char script_sha256[REQUEST_SHA256_TEXT]; /* by digest.h, like the next */
    char sha256[REQUEST_SHA256_TEXT];        /* of all that will be done */
    char *language;
    char *engine;
    char *image;
    char *template;   /* of a cloud's sandbox */
    char **arguments; /* NULL-terminated */
    size_t n_arguments;
    char **environment; /* NAME=VALUE, NULL-terminated */
    size_t n_environment;
    struct request_input *inputs;
    size_t n_inputs;
    int stdin_memfd; /* -1: none given */
    bool network;
    struct host_list hosts; /* that are asked for; none: any that are allowed */
    char **packages;        /* that are asked for, as they came; NULL-terminated */
    size_t n_packages;
    bool require_hashes;
    bool allow_secrets; /* run it although it seems to hold credentials */
    uint64_t memory_bytes, cpu_percent, timeout_usec;
    enum streams streams;
    bool detach; /* it lives on without its caller */
    bool dry_run, interactive;
};

/* Why a request was not taken. @field is a parameter's name, escaped; @reason is
 * for people. */
struct request_error {
    char field[64];
    char reason[256];
};

/* Parses the parameters of @call and takes its descriptors. Returns 0 with a request to be
 * released, -EINVAL with
 * @error filled (its reason empty if the parameter is just not of the declared form), or another
 * negative errno for a failure of ours. */
int request_parse(struct varlink_call *call, struct request *ret, struct request_error *error);
void request_release(struct request *request);
#define REQUEST_NULL                    \
    {                                   \
        .script = -1, .stdin_memfd = -1 \
    }
