/* HTTP over a unix socket, as far as the Engine API needs it: a request with an optional JSON body,
 * and a JSON reply, both limited in size and time. Called by api.c; knows no path and no meaning.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <curl/curl.h>

#include "common/json.h"

/* Bytes of a reply, or of one line of a stream, at most. */
#define HTTP_REPLY_MAX (4 * 1024 * 1024)

struct http {
    const char *socket;
    CURLM *multi; /* keeps the connection between requests */
    CURL *curl;   /* of the last request, for its reply's headers */
};

struct http_request {
    const char *method, *path; /* the path begins with a slash; query and all, encoded */
    json_object *body;         /* borrowed, and never sent twice; NULL: none */
    uint64_t timeout_usec;
    int until; /* a descriptor: when it can be read, the reply does not matter any more; 0: none */
};

struct http_reply {
    unsigned status;
    json_object *body; /* an array is the member "items" of an object; NULL: empty, or no JSON */
};

/* Gets the JSON object that stands in one line of a stream, borrowed. Returns 0 to go on; anything
 * else ends the request with that value. */
typedef int (*http_line_fn)(json_object *line, void *userdata);
/* Asked at least once a second whether to stop. */
typedef bool (*http_stop_fn)(void *userdata);

struct http_stream {
    http_line_fn line;
    http_stop_fn stop;
    void *userdata;
};

/* Returns 0 or -ENOMEM. @socket is the daemon's, an absolute path, which stays. */
int http_open(const char *socket, struct http *ret);
void http_close(struct http *http);

/* Returns 0 with the reply, whatever its status, to be released; or a negative errno: -ENOENT,
 * -EACCES and -ECONNREFUSED of the socket; -ETIMEDOUT; -ECONNRESET for a connection that ended
 * early; -EMSGSIZE; -EBADMSG for what is no HTTP; -ENOMEM; -EALREADY if .until came first. A reply
 * of status 200 comes in lines, as things go on, if there is a @stream; then what a line's function
 * returned is returned, too, or -ECANCELED. */
int http_call(struct http *http, const struct http_request *request,
              const struct http_stream *stream, struct http_reply *ret);
void http_reply_release(struct http_reply *reply);
/* A header of the last reply, borrowed until the next call; NULL if it had none of that name. */
const char *http_header(struct http *http, const char *name);
