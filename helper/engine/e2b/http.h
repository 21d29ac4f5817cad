/* HTTPS by libcurl: one request at a time, while other descriptors are watched and may have
 * requests of their own made meanwhile. TLS is always verified, no redirect is followed, nothing is
 * taken from the environment. Called by control-plane.c, cloud-call.c, envd.c and interpreter.c;
 * knows no path and no meaning. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <curl/curl.h>

#include "config.h"

/* Bytes of a reply that is not handed on piece by piece, at most. */
#define HTTP_REPLY_MAX (4 * 1024 * 1024)
#define HTTP_HEADERS_MAX 8
#define HTTP_WATCHES_MAX 6

/* What else is looked at while a request runs. Returns 0 to go on; a negative errno ends all
 * requests with it. May make requests, during which it is not asked again. */
typedef int (*http_ready_fn)(void *userdata);

struct http_watch {
    int fd; /* -1: nothing */
    short events;
    http_ready_fn ready;
    void *userdata;
    bool busy;
};

struct http {
    const struct config *config;
    CURLM *multi; /* keeps connections between requests */
    struct http_watch watches[HTTP_WATCHES_MAX];
    size_t n_watches;
    uint64_t deadline_usec; /* of CLOCK_MONOTONIC, for everything: -ETIME; UINT64_MAX: none */
};

/* Gets the body of a 200 as it comes. Returns 0; HTTP_PAUSE to get these bytes again after
 * http_resume(); or a negative errno, which ends the request. */
#define HTTP_PAUSE 1
typedef int (*http_data_fn)(const char *data, size_t size, void *userdata);
/* Makes the parts of a form, see curl_mime_init(3). Returns NULL out of memory. */
typedef curl_mime *(*http_form_fn)(CURL *curl, void *userdata);

struct http_transfer;

struct http_request {
    const char *method, *url;
    const char *headers[HTTP_HEADERS_MAX + 1]; /* NULL-terminated; wiped copies are made */
    bool with_key;
    const char *body; /* of .body_size bytes; NULL: none */
    size_t body_size;
    int file; /* body instead, from its start, if .file_size is not 0 or .is_file */
    uint64_t file_size;
    bool is_file;
    http_form_fn form; /* body instead */
    void *form_userdata;
    uint64_t timeout_usec; /* for all of it; 0: none */
    uint64_t silence_usec; /* without a byte from the server; 0: none */
    http_data_fn data;     /* NULL: the body is kept in the reply */
    const char *data_type; /* only a body of this content type is handed on; NULL: any */
    void *data_userdata;
    struct http_transfer **running; /* set as long as it runs, for http_resume(); or NULL */
};

struct http_reply {
    unsigned status;
    char *text; /* NUL-terminated, or NULL if it was empty or handed on */
    size_t size;
    int64_t retry_after;  /* seconds, -1: not told */
    char next_token[512]; /* of a list; empty: none */
};

int http_open(const struct config *config, struct http *ret);
void http_close(struct http *http);
/* Adds a watch, which may be changed in place until http_close(). */
struct http_watch *http_watch(struct http *http, int fd, short events, http_ready_fn ready,
                              void *userdata);

/* Returns 0 with the reply, whatever its status, to be released; or a negative errno. These came
 * before anything was sent: -EHOSTUNREACH (no such name), -ECONNREFUSED, -EKEYREJECTED (not whom
 * its certificate should name, or signed by nobody known), -EPROTO (no TLS). After these the server
 * may have acted: -ETIMEDOUT, -ECONNRESET, -EBADMSG, -EMSGSIZE, and what a function returned. */
int http_perform(struct http *http, const struct http_request *request, struct http_reply *ret);
void http_reply_release(struct http_reply *reply);
/* Whether the server cannot have seen the request that failed with @error. */
bool http_was_not_sent(int error);

/* Waits so long, with the watches. Returns 0, or what one of them returned. */
int http_wait(struct http *http, uint64_t usec);

/* Has a paused transfer's data handed out again. */
void http_resume(struct http_transfer *transfer);

/* Percent-encodes all but unreserved characters. Returns NULL out of memory. */
char *http_escape(const char *text, const char *keep);
