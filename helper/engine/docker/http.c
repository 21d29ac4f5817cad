/* Requests by libcurl, see http.h. */
#include "http.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/cleanup.h"
#include "engine/curl.h"

#define HOST "http://localhost"

/* What arrives. */
struct transfer {
    struct http *http;
    const struct http_stream *stream; /* NULL: one reply */
    char *data;
    size_t size;
    int error; /* the first one that is ours, not libcurl's */
};

int http_open(const char *socket, struct http *ret)
{
    *ret = (struct http){ .socket = socket, .multi = curl_multi_init() };
    return ret->multi ? 0 : -ENOMEM;
}

void http_close(struct http *http)
{
    if (http->curl)
        curl_easy_cleanup(http->curl);
    if (http->multi)
        curl_multi_cleanup(http->multi);
    *http = (struct http){ 0 };
}

/* For one request. Before version 8.1 libcurl takes a line that begins with a space, as the first
 * of a reply's head, for more of the last header of the handle's reply before, which it has freed
 * (https://github.com/curl/curl/issues/11101). */
static CURL *open_handle(struct http *http)
{
    CURL *curl = curl_easy_init();
    CURLcode code = CURLE_OK;

    if (http->curl)
        curl_easy_cleanup(http->curl);
    http->curl = curl;
    if (!curl)
        return NULL;
    CURL_SET(UNIX_SOCKET_PATH, http->socket);
    CURL_SET(NOSIGNAL, 1L);
    CURL_SET(PROXY, "");
    CURL_SET(PATH_AS_IS, 1L);
    CURL_SET(PROTOCOLS_STR, "http");
    CURL_SET(HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    return code == CURLE_OK ? curl : NULL;
}

void http_reply_release(struct http_reply *reply)
{
    json_object_put(reply->body);
    *reply = (struct http_reply){ 0 };
}

const char *http_header(struct http *http, const char *name)
{
    struct curl_header *header;

    return http->curl &&
                   curl_easy_header(http->curl, name, 0, CURLH_HEADER, -1, &header) == CURLHE_OK
               ? header->value
               : NULL;
}

/* ---- receiving */

static json_object *parse(const char *data, size_t size)
{
    json_object *object = NULL;

    return json_parse_items(data, size, &object) < 0 ? NULL : object;
}

static int handle_line(struct transfer *t, const char *line, size_t size)
{
    _cleanup_json_ json_object *object = parse(line, size);

    return object ? t->stream->line(object, t->stream->userdata) : 0;
}

static int handle_lines(struct transfer *t)
{
    size_t at = 0;
    int r = 0;

    for (char *end; r == 0 && (end = memchr(t->data + at, '\n', t->size - at));) {
        r = handle_line(t, t->data + at, (size_t)(end - t->data) - at);
        at = (size_t)(end - t->data) + 1;
    }
    memmove(t->data, t->data + at, t->size - at);
    t->size -= at;
    return r;
}

static bool is_stream(const struct transfer *t)
{
    long status = 0;

    curl_easy_getinfo(t->http->curl, CURLINFO_RESPONSE_CODE, &status);
    return t->stream && status == 200;
}

static size_t on_data(char *data, size_t one, size_t size, void *userdata)
{
    struct transfer *t = userdata;

    if (size > HTTP_REPLY_MAX - t->size) {
        t->error = -EMSGSIZE;
        return 0;
    }
    char *longer = realloc(t->data, t->size + size + 1);
    if (!longer) {
        t->error = -ENOMEM;
        return 0;
    }
    memcpy(longer + t->size, data, size);
    t->data = longer;
    t->size += size;
    t->data[t->size] = '\0';
    if (is_stream(t))
        t->error = handle_lines(t);
    return t->error == 0 ? size : 0;
}

static int on_progress(void *userdata, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
    struct transfer *t = userdata;

    if (t->stream && t->stream->stop(t->stream->userdata))
        t->error = -ECANCELED;
    return t->error != 0;
}

/* ---- sending */

/* Why nothing accepts a connection on the socket. */
static int connect_error(CURL *curl)
{
    long error = 0;

    curl_easy_getinfo(curl, CURLINFO_OS_ERRNO, &error);
    return error > 0 ? -(int)error : -ECONNREFUSED;
}

static CURLcode set_options(CURL *curl, const struct http_request *request,
                            struct transfer *transfer, const char *url, struct curl_slist *headers)
{
    size_t size = 0;
    const char *body = request->body ? json_text(request->body, &size) : "";
    CURLcode code = CURLE_OK;

    CURL_SET(URL, url);
    if (strcmp(request->method, "GET") == 0) {
        CURL_SET(HTTPGET, 1L);
    } else {
        /* With the method's own name: libcurl sends a body with nothing else. */
        CURL_SET(POST, 1L);
        CURL_SET(POSTFIELDS, body);
        CURL_SET(POSTFIELDSIZE, (long)size);
    }
    /* When a connection that was used before ends without an answer, libcurl sends a request once
     * more on another. What makes something may have been done already. */
    CURL_SET(FRESH_CONNECT, request->body ? 1L : 0L);
    CURL_SET(CUSTOMREQUEST, request->method);
    CURL_SET(HTTPHEADER, headers);
    CURL_SET(WRITEFUNCTION, on_data);
    CURL_SET(WRITEDATA, transfer);
    CURL_SET(NOPROGRESS, transfer->stream ? 0L : 1L);
    CURL_SET(XFERINFOFUNCTION, on_progress);
    CURL_SET(XFERINFODATA, transfer);
    CURL_SET(TIMEOUT_MS, (long)(request->timeout_usec / 1000));
    return code;
}

/* As curl_easy_perform(), but a transfer ends early when @until can be read, unless that is 0. */
static CURLcode transfer_until(struct http *http, int until, bool *ret_early)
{
    struct curl_waitfd extra = { .fd = until, .events = CURL_WAIT_POLLIN };
    CURLcode code = CURLE_OUT_OF_MEMORY;
    int running = 1, left;

    if (curl_multi_add_handle(http->multi, http->curl) != CURLM_OK)
        return code;
    while (!*ret_early && running > 0) {
        extra.revents = 0;
        if (curl_multi_perform(http->multi, &running) != CURLM_OK ||
            (running > 0 &&
             curl_multi_poll(http->multi, &extra, until > 0, 1000, NULL) != CURLM_OK))
            break;
        *ret_early = running > 0 && extra.revents != 0;
    }
    for (CURLMsg *message; (message = curl_multi_info_read(http->multi, &left));)
        if (message->msg == CURLMSG_DONE)
            code = message->data.result;
    curl_multi_remove_handle(http->multi, http->curl);
    return code;
}

static int perform(struct http *http, const struct http_request *request, struct transfer *transfer)
{
    struct curl_slist *headers = curl_slist_append(NULL, "Content-Type: application/json");
    _cleanup_free_ char *url = NULL;
    CURL *curl = open_handle(http);

    if (!curl || !headers || asprintf(&url, HOST "%s", request->path) < 0) {
        url = NULL;
        curl_slist_free_all(headers);
        return -ENOMEM;
    }
    CURLcode code = set_options(curl, request, transfer, url, headers);
    bool early = false;
    if (code == CURLE_OK)
        code = transfer_until(http, request->until, &early);
    if (early)
        transfer->error = -EALREADY;
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, NULL);
    curl_slist_free_all(headers);
    if (transfer->error != 0)
        return transfer->error;
    return code == CURLE_COULDNT_CONNECT ? connect_error(curl) : curl_error(code);
}

int http_call(struct http *http, const struct http_request *request,
              const struct http_stream *stream, struct http_reply *ret)
{
    struct transfer transfer = { .http = http, .stream = stream };
    long status = 0;

    int r = perform(http, request, &transfer);
    if (r == 0)
        curl_easy_getinfo(http->curl, CURLINFO_RESPONSE_CODE, &status);
    if (r == 0)
        *ret = (struct http_reply){ (unsigned)status, parse(transfer.data, transfer.size) };
    free(transfer.data);
    return r;
}
