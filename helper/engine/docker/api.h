/* The Engine API of Docker, and of podman: which version, which errors, and what they mean to a
 * user. Called by the files of this folder; the only place that makes sentences of errors of the
 * daemon. */
#pragma once

#include <stdarg.h>

#include "engine/protocol.h"
#include "http.h"

/* Milliseconds are usual for all but a pull. */
#define API_TIMEOUT_USEC (20 * 1000000ULL)
#define API_PATH_MAX 1024

/* What was agreed on with a daemon, for as long as it is the same one. */
struct api_version {
    char daemon[16]; /* its newest version; empty: nothing was agreed on yet */
    char prefix[16]; /* "/v1.41" */
};

struct api {
    struct http http;
    const char *socket; /* borrowed */
    struct api_version version;
    bool is_podman;
    char error[ENGINE_TEXT_MAX + 1];
    bool unusable; /* the error is one of the whole daemon: another engine may do */
};

/* Connects and agrees on a version, or finds @known to be good. Returns 0, or a negative errno with
 * a sentence in .error. To be closed in either case. */
int api_open(const char *socket, const struct api_version *known, struct api *ret);
void api_close(struct api *api);

/* Calls with the path that @format makes, without the version. Returns 0 with the reply, whatever
 * its status, or a negative errno with a sentence in .error. */
int api_call(struct api *api, const char *method, json_object *body, uint64_t timeout_usec,
             struct http_reply *ret, const char *format, ...) __attribute__((format(printf, 6, 7)));
/* The same until @fd can be read, if that is before the reply: -EALREADY then, with nothing in
 * .error. */
int api_call_until(struct api *api, const char *method, int fd, uint64_t timeout_usec,
                   struct http_reply *ret, const char *format, ...)
    __attribute__((format(printf, 6, 7)));
/* The same for a reply in lines; returns also what they returned (see http_stream()), with nothing
 * in .error then. */
int api_stream(struct api *api, const char *method, uint64_t timeout_usec,
               const struct http_stream *stream, struct http_reply *ret, const char *format, ...)
    __attribute__((format(printf, 6, 7)));

/* Notes a sentence, and returns @error. */
int api_fail(struct api *api, int error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Notes that the daemon refused @what, in its own words. Returns -EREMOTEIO, or -ENOSPC if its disk
 * is full. */
int api_fail_refused(struct api *api, const char *what, const char *words);
/* The daemon's words in a reply with an error, borrowed from it. */
const char *api_words(const struct http_reply *reply);
