/* Requests by libcurl's multi interface, see http.h. */
#include "http.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "engine/curl.h"
#include "http-watch.h"
#include "key.h"

#define CONNECT_TIMEOUT_MSEC 20000L
#define POLL_USEC USEC_PER_SEC

struct http_transfer {
    const struct http_request *request;
    CURL *curl;
    struct curl_slist *headers;
    curl_mime *form;
    char *text;
    size_t size;
    uint64_t read;   /* of the file */
    curl_off_t sent; /* by libcurl */
    uint64_t heard_usec;
    bool paused, done;
    CURLcode code;
    int error; /* the first one that is ours, not libcurl's */
};

int http_open(const struct config *config, struct http *ret)
{
    *ret =
        (struct http){ .config = config, .multi = curl_multi_init(), .deadline_usec = UINT64_MAX };
    return ret->multi ? 0 : -ENOMEM;
}

void http_close(struct http *http)
{
    if (http->multi)
        curl_multi_cleanup(http->multi);
    http->multi = NULL;
}

void http_reply_release(struct http_reply *reply)
{
    free(reply->text);
    *reply = (struct http_reply){ 0 };
}

bool http_was_not_sent(int error)
{
    return error == -EHOSTUNREACH || error == -ECONNREFUSED || error == -EKEYREJECTED ||
           error == -EPROTO;
}

char *http_escape(const char *text, const char *keep)
{
    static const char hex[] = "0123456789ABCDEF";
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~";
    char *escaped = malloc(strlen(text) * 3 + 1), *p = escaped;

    for (; escaped && *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (strchr(plain, c) || strchr(keep, c)) {
            *p++ = (char)c;
            continue;
        }
        *p++ = '%';
        *p++ = hex[c >> 4];
        *p++ = hex[c & 15];
    }
    if (escaped)
        *p = '\0';
    return escaped;
}

/* ---- receiving */

static unsigned status_of(CURL *curl)
{
    long status = 0;

    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    return (unsigned)status;
}

static int keep(struct http_transfer *t, const char *data, size_t size)
{
    if (size > HTTP_REPLY_MAX - t->size)
        return -EMSGSIZE;
    char *longer = realloc(t->text, t->size + size + 1);
    if (!longer)
        return -ENOMEM;
    memcpy(longer + t->size, data, size);
    t->text = longer;
    t->size += size;
    t->text[t->size] = '\0';
    return 0;
}

static const char *header(CURL *curl, const char *name)
{
    struct curl_header *found;

    return curl_easy_header(curl, name, 0, CURLH_HEADER, -1, &found) == CURLHE_OK ? found->value
                                                                                  : "";
}

static bool is_of_type(CURL *curl, const char *type)
{
    return strncasecmp(header(curl, "Content-Type"), type, strlen(type)) == 0;
}

static bool is_handed_on(const struct http_transfer *t)
{
    return t->request->data && status_of(t->curl) == 200 &&
           (!t->request->data_type || is_of_type(t->curl, t->request->data_type));
}

static size_t on_data(char *data, size_t one, size_t size, void *userdata)
{
    struct http_transfer *t = userdata;

    t->heard_usec = clock_now();
    int r = is_handed_on(t) ? t->request->data(data, size, t->request->data_userdata)
                            : keep(t, data, size);
    if (r == HTTP_PAUSE) {
        t->paused = true;
        return CURL_WRITEFUNC_PAUSE;
    }
    if (r < 0)
        t->error = r;
    return r < 0 ? 0 : size;
}

void http_resume(struct http_transfer *t)
{
    if (!t->paused)
        return;
    t->paused = false;
    t->heard_usec = clock_now();
    curl_easy_pause(t->curl, CURLPAUSE_CONT);
}

/* ---- sending */

static size_t on_read(char *data, size_t one, size_t size, void *userdata)
{
    struct http_transfer *t = userdata;
    uint64_t left = t->request->file_size - t->read;

    if (left == 0)
        return 0;
    ssize_t n = pread(t->request->file, data, left < size ? (size_t)left : size, (off_t)t->read);
    if (n <= 0) {
        t->error = n < 0 ? -errno : -EIO;
        return CURL_READFUNC_ABORT;
    }
    t->read += (uint64_t)n;
    return (size_t)n;
}

/* Sending is a sign of life, too. */
static int on_progress(void *userdata, curl_off_t a, curl_off_t b, curl_off_t total, curl_off_t up)
{
    struct http_transfer *t = userdata;

    if (up != t->sent) {
        t->sent = up;
        t->heard_usec = clock_now();
    }
    return 0;
}

static int add_header(struct http_transfer *t, const char *text)
{
    struct curl_slist *longer = curl_slist_append(t->headers, text);

    if (!longer)
        return -ENOMEM;
    t->headers = longer;
    return 0;
}

static int add_headers(struct http_transfer *t)
{
    char key[KEY_HEADER_MAX];
    /* Without these libcurl waits for a 100, or says that a body is a form. */
    int r = add_header(t, "Expect:");

    for (const char *const *header = t->request->headers; r >= 0 && *header; header++)
        r = add_header(t, *header);
    if (r >= 0 && t->request->with_key) {
        key_header(key);
        r = add_header(t, key);
        explicit_bzero(key, sizeof(key));
    }
    return r;
}

static void free_headers(struct http_transfer *t)
{
    for (struct curl_slist *header = t->headers; header; header = header->next)
        wipe(header->data);
    curl_slist_free_all(t->headers);
    t->headers = NULL;
}

/* Whom to believe, and by which way: the configuration alone says so. */
static CURLcode set_trust(CURL *curl, const struct config *config)
{
    CURLcode code = CURLE_OK;

    CURL_SET(PROTOCOLS_STR, "https");
    CURL_SET(FOLLOWLOCATION, 0L);
    CURL_SET(SSL_VERIFYPEER, 1L);
    CURL_SET(SSL_VERIFYHOST, 2L);
    CURL_SET(SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    CURL_SET(CAINFO, config->ca_file);
    CURL_SET(CAPATH, NULL);
    CURL_SET(PROXY, config->proxy ? config->proxy : "");
    CURL_SET(NOPROXY, "");
    CURL_SET(HEADEROPT, (long)CURLHEADER_SEPARATE);
    CURL_SET(NETRC, (long)CURL_NETRC_IGNORED);
    CURL_SET(HTTP_VERSION, (long)CURL_HTTP_VERSION_2TLS);
    CURL_SET(NOSIGNAL, 1L);
    CURL_SET(PATH_AS_IS, 1L);
    CURL_SET(CONNECTTIMEOUT_MS, CONNECT_TIMEOUT_MSEC);
    return code;
}

static CURLcode set_body(struct http_transfer *t)
{
    const struct http_request *request = t->request;
    CURL *curl = t->curl;
    CURLcode code = CURLE_OK;

    if (request->form) {
        t->form = request->form(curl, request->form_userdata);
        if (!t->form)
            return CURLE_OUT_OF_MEMORY;
        CURL_SET(MIMEPOST, t->form);
    } else if (request->is_file) {
        CURL_SET(POST, 1L);
        CURL_SET(READFUNCTION, on_read);
        CURL_SET(READDATA, t);
        CURL_SET(POSTFIELDSIZE_LARGE, (curl_off_t)request->file_size);
    } else if (strcmp(request->method, "POST") == 0) {
        CURL_SET(POST, 1L);
        CURL_SET(POSTFIELDS, request->body ? request->body : "");
        CURL_SET(POSTFIELDSIZE_LARGE, (curl_off_t)request->body_size);
    } else {
        CURL_SET(HTTPGET, 1L);
        CURL_SET(CUSTOMREQUEST, request->method);
    }
    return code;
}

static CURLcode set_options(struct http_transfer *t, const struct config *config)
{
    CURL *curl = t->curl;
    CURLcode code = set_trust(curl, config);

    CURL_SET(URL, t->request->url);
    CURL_SET(HTTPHEADER, t->headers);
    CURL_SET(WRITEFUNCTION, on_data);
    CURL_SET(WRITEDATA, t);
    CURL_SET(NOPROGRESS, 0L);
    CURL_SET(XFERINFOFUNCTION, on_progress);
    CURL_SET(XFERINFODATA, t);
    CURL_SET(PRIVATE, t);
    CURL_SET(TIMEOUT_MS, (long)((t->request->timeout_usec + 999) / 1000));
    return code == CURLE_OK ? set_body(t) : code;
}

/* ---- the loop */

static void note_done(struct http *http)
{
    int left;

    for (CURLMsg *message; (message = curl_multi_info_read(http->multi, &left));) {
        struct http_transfer *t = NULL;
        if (message->msg != CURLMSG_DONE ||
            curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **)&t) != CURLE_OK)
            continue;
        t->done = true;
        t->code = message->data.result;
    }
}

static int check_silence(const struct http_transfer *t)
{
    return t->request->silence_usec != 0 && !t->paused &&
                   clock_now() - t->heard_usec > t->request->silence_usec
               ? -ETIMEDOUT
               : 0;
}

static int run(struct http *http, struct http_transfer *t)
{
    int running, r = 0;

    if (curl_multi_add_handle(http->multi, t->curl) != CURLM_OK)
        return -ENOMEM;
    if (t->request->running)
        *t->request->running = t;
    t->heard_usec = clock_now();
    while (r >= 0 && !t->done) {
        if (curl_multi_perform(http->multi, &running) != CURLM_OK)
            r = -EIO;
        note_done(http);
        if (r >= 0 && !t->done)
            r = http_wait_once(http, POLL_USEC);
        if (r >= 0 && !t->done)
            r = check_silence(t);
    }
    if (t->request->running)
        *t->request->running = NULL;
    curl_multi_remove_handle(http->multi, t->curl);
    if (r < 0)
        return r;
    return t->error != 0 ? t->error : curl_error(t->code);
}

static void read_reply(struct http_transfer *t, struct http_reply *ret)
{
    char *end;
    const char *retry = header(t->curl, "Retry-After");

    *ret = (struct http_reply){ .status = status_of(t->curl), .retry_after = -1 };
    /* A date is a kind of it that the API does not send. */
    long seconds = strtol(retry, &end, 10);
    if (end != retry && *end == '\0' && seconds >= 0)
        ret->retry_after = seconds;
    snprintf(ret->next_token, sizeof(ret->next_token), "%s", header(t->curl, "X-Next-Token"));
    ret->size = t->size;
    ret->text = TAKE_PTR(t->text);
}

/* Each request has a handle of its own: before version 8.1 libcurl takes a line that begins with a
 * space, as the first of a reply's head, for more of the last header of the handle's reply before,
 * which it has freed (https://github.com/curl/curl/issues/11101). */
int http_perform(struct http *http, const struct http_request *request, struct http_reply *ret)
{
    struct http_transfer t = { .request = request, .curl = curl_easy_init() };

    if (!t.curl)
        return -ENOMEM;
    int r = add_headers(&t);
    if (r >= 0 && set_options(&t, http->config) != CURLE_OK)
        r = -ENOMEM;
    if (r >= 0)
        r = run(http, &t);
    if (r >= 0)
        read_reply(&t, ret);
    /* It would free them by itself, but not wipe them. */
    curl_easy_reset(t.curl);
    curl_mime_free(t.form);
    free_headers(&t);
    free(t.text);
    curl_easy_cleanup(t.curl);
    return r;
}
