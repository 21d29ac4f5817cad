/* envd, the server in every sandbox: programs started, fed and heard, files sent. Called by
 * sandbox.c and transfer.c. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "control-plane.h"
#include "process-event.h"

#define ENVD_PORT 49983

struct envd {
    struct cloud *cloud; /* borrowed, whose .error gets our sentences, too */
    char url[512];
    /* Headers of every request. */
    char id[CLOUD_ID_MAX + 32], token[CLOUD_TOKEN_MAX + 32], user[384];
    char username[300]; /* whose files they are, as a query; may be empty */
};

/* Where a port of the sandbox is reached. */
void envd_url(const struct config *config, const struct cloud_sandbox *sandbox, unsigned port,
              char ret[512]);
void envd_open(struct cloud *cloud, const struct cloud_sandbox *sandbox, struct envd *ret);
void envd_close(struct envd *envd);

/* Gets what a program wrote. Returns 0 or a negative errno, which ends the stream. */
typedef int (*envd_output_fn)(bool is_stderr, const char *data, size_t size, void *userdata);
/* Asked before more is taken: true to be left alone until http_resume(). */
typedef bool (*envd_full_fn)(void *userdata);
typedef void (*envd_started_fn)(uint32_t pid, void *userdata);

struct envd_program {
    json_object *arguments;   /* borrowed; of /bin/sh */
    json_object *environment; /* borrowed; an object, or NULL */
    bool takes_input;
    uint64_t silence_usec; /* after which the connection is given up */
    envd_output_fn output;
    envd_full_fn full;       /* may be NULL */
    envd_started_fn started; /* may be NULL */
    void *userdata;
    struct http_transfer **running;
};

/* How it went, whatever envd_run() returned. */
struct envd_result {
    bool may_have_started, ended;
    int exit_code, signal; /* as in struct process_event */
};

/* Runs a program to its end. Returns 0 only if envd told of it, to its last word; else a negative
 * errno with a sentence. Never does it twice. */
int envd_run(struct envd *envd, const struct envd_program *program, struct envd_result *ret);

/* Give up after a while; what was started may have ended meanwhile, that is no error. */
int envd_send_input(struct envd *envd, uint32_t pid, const char *data, size_t size);
int envd_close_input(struct envd *envd, uint32_t pid);

/* Makes the file @path of the first @size bytes of @file. Done again if a connection broke. */
int envd_upload(struct envd *envd, const char *path, int file, uint64_t size);
/* The same for many files, as parts called "file" of a form, whose file names are their paths. */
int envd_upload_form(struct envd *envd, http_form_fn form, void *userdata);
