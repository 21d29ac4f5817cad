/* Requests to envd, see envd.h. */
#include "envd.h"

#include <stdio.h>
#include <string.h>
#include <openssl/evp.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "connect-frame.h"
#include "key.h"

#define INPUT_TIMEOUT_USEC (30 * USEC_PER_SEC)
#define UPLOAD_SILENCE_USEC (60 * USEC_PER_SEC)
#define UPLOAD_TRIES 3
/* envd sends a sign of life so often. */
#define PING "Keepalive-Ping-Interval: 20"

void envd_url(const struct config *config, const struct cloud_sandbox *sandbox, unsigned port,
              char ret[512])
{
    if (config->sandbox_url)
        snprintf(ret, 512, "%s", config->sandbox_url);
    else
        snprintf(ret, 512, "https://%u-%s.%s", port, sandbox->id,
                 sandbox->domain[0] ? sandbox->domain : config->domain);
}

/* A user is named by HTTP's basic authentication, without a password. */
static void write_user(const char *user, char *ret, size_t size)
{
    char name[260], encoded[360];
    int n = snprintf(name, sizeof(name), "%s:", user);

    EVP_EncodeBlock((unsigned char *)encoded, (const unsigned char *)name, n);
    snprintf(ret, size, "Authorization: Basic %s", encoded);
}

/* Before 0.4.0 a request had to name somebody. */
static bool needs_user(const char *version)
{
    unsigned major = 0, minor = 0;

    return sscanf(version, "%u.%u", &major, &minor) == 2 && major == 0 && minor < 4;
}

void envd_open(struct cloud *cloud, const struct cloud_sandbox *sandbox, struct envd *ret)
{
    const char *user = cloud->config->user;

    *ret = (struct envd){ .cloud = cloud };
    if (!user && needs_user(sandbox->version))
        user = "user";
    envd_url(cloud->config, sandbox, ENVD_PORT, ret->url);
    snprintf(ret->id, sizeof(ret->id), "E2b-Sandbox-Id: %s", sandbox->id);
    snprintf(ret->token, sizeof(ret->token), "X-Access-Token: %s", sandbox->token);
    if (user) {
        write_user(user, ret->user, sizeof(ret->user));
        snprintf(ret->username, sizeof(ret->username), "username=%s", user);
    }
}

void envd_close(struct envd *envd)
{
    explicit_bzero(envd, sizeof(*envd));
}

static struct http_request request_to(const struct envd *envd, const char *url, const char *type)
{
    struct http_request request = {
        .method = "POST",
        .url = url,
        .headers = { envd->id, envd->token, "E2b-Sandbox-Port: 49983" },
    };
    size_t n = 3;

    if (envd->user[0])
        request.headers[n++] = envd->user;
    if (type)
        request.headers[n++] = type;
    return request;
}

/* Makes the sentence for a reply of another status than 200. */
static int fail_reply(struct envd *envd, const struct http_reply *reply, const char *what)
{
    char words[CLOUD_WORDS_MAX];

    cloud_words(reply, words);
    switch (reply->status) {
    case 502:
        return cloud_fail(envd->cloud, -ENXIO, "The sandbox could not be reached for %s: %s.", what,
                          words);
    case 507:
        return cloud_fail(envd->cloud, -ENOSPC, "The sandbox's disk is full.");
    case 429:
    case 503:
        return cloud_fail(envd->cloud, -EBUSY, "The sandbox is too busy for %s: %s.", what, words);
    default:
        return cloud_fail(envd->cloud, -EREMOTEIO, "The sandbox did not do %s (status %u): %s.",
                          what, reply->status, words);
    }
}

/* ---- a program */

struct stream {
    struct envd *envd;
    const struct envd_program *program;
    struct envd_result *result;
    struct connect_frames frames;
};

static int handle_over(struct stream *s, const struct process_event *event)
{
    char words[CLOUD_WORDS_MAX];

    if (!event->failed)
        return 0;
    const struct http_reply reply = { .text = (char *)event->words, .size = strlen(event->words) };
    cloud_words(&reply, words);
    return cloud_fail(s->envd->cloud, -EREMOTEIO, "The sandbox reports %s: %.160s.", event->code,
                      words);
}

static int handle_event(struct stream *s, const struct process_event *event)
{
    switch (event->type) {
    case PROCESS_STARTED:
        if (s->program->started)
            s->program->started(event->pid, s->program->userdata);
        return 0;
    case PROCESS_STDOUT:
    case PROCESS_STDERR:
        return s->program->output(event->type == PROCESS_STDERR, event->data, event->data_size,
                                  s->program->userdata);
    case PROCESS_ENDED:
        s->result->ended = true;
        s->result->exit_code = event->exit_code;
        s->result->signal = event->signal;
        return 0;
    case PROCESS_OVER:
        return handle_over(s, event);
    case PROCESS_NOTHING:
    default:
        return 0;
    }
}

static int on_message(const char *message, size_t size, bool end, void *userdata)
{
    struct stream *s = userdata;
    struct process_event event;

    int r = process_event_parse(message, size, end, &event);
    r = r < 0 ? r : handle_event(s, &event);
    process_event_release(&event);
    return r;
}

static int on_stream(const char *data, size_t size, void *userdata)
{
    struct stream *s = userdata;

    if (s->program->full && s->program->full(s->program->userdata))
        return HTTP_PAUSE;
    return connect_feed(&s->frames, data, size, on_message, s);
}

/* One message, framed: what a Start has as its body. */
static char *start_body(const struct envd_program *program, size_t *ret_size)
{
    _cleanup_json_ json_object *object = json_object_new_object();
    json_object *process = json_object_new_object();
    size_t size;

    if (json_add_string(process, "cmd", "/bin/sh") < 0 ||
        json_add(process, "args", json_object_get(program->arguments)) < 0 ||
        (program->environment &&
         json_add(process, "envs", json_object_get(program->environment)) < 0)) {
        json_object_put(process);
        return NULL;
    }
    if (json_add(object, "process", process) < 0 ||
        json_add_bool(object, "stdin", program->takes_input) < 0)
        return NULL;
    const char *text = json_text(object, &size);
    char *body = malloc(CONNECT_HEADER + size);
    if (!body)
        return NULL;
    connect_header(size, body);
    memcpy(body + CONNECT_HEADER, text, size);
    *ret_size = CONNECT_HEADER + size;
    return body;
}

/* What stands in front of the sandbox lost it, and nobody knows when: unless it says itself that
 * the request went no further. */
static bool is_cut(const struct http_reply *reply)
{
    bool is_certain = reply->text && (strstr(reply->text, "sandbox was not found") ||
                                      strstr(reply->text, "port is not open"));

    return (reply->status == 502 || reply->status == 504) && !is_certain;
}

/* What is wrong with a stream that seemed to end well. */
static int check_end(struct stream *s, const struct http_reply *reply)
{
    if (reply->status != 200)
        return fail_reply(s->envd, reply, "the start of a program");
    if (reply->text)
        return cloud_fail(s->envd->cloud, -EBADMSG, "The sandbox answered in another language.");
    if (!connect_is_complete(&s->frames) || !s->result->ended)
        return cloud_fail(s->envd->cloud, -ECONNRESET,
                          "The sandbox stopped talking before it told how the program ended.");
    return 0;
}

int envd_run(struct envd *envd, const struct envd_program *program, struct envd_result *ret)
{
    struct stream s = { .envd = envd, .program = program, .result = ret };
    struct http_reply reply = { 0 };
    char url[600];
    size_t size = 0;

    *ret = (struct envd_result){ 0 };
    _cleanup_free_ char *body = start_body(program, &size);
    if (!body)
        return cloud_fail(envd->cloud, -ENOMEM, "Out of memory.");
    snprintf(url, sizeof(url), "%s/process.Process/Start", envd->url);
    struct http_request request = request_to(envd, url, "Content-Type: application/connect+json");
    request.headers[5] = "Connect-Protocol-Version: 1";
    request.headers[6] = PING;
    if (!request.headers[4])
        request.headers[4] = "Accept-Encoding: identity";
    request.body = body;
    request.body_size = size;
    request.silence_usec = program->silence_usec;
    request.data = on_stream;
    request.data_type = "application/connect+json";
    request.data_userdata = &s;
    request.running = program->running;
    envd->cloud->error[0] = '\0';
    int r = http_perform(&envd->cloud->http, &request, &reply);
    ret->may_have_started = r < 0 ? !http_was_not_sent(r) : reply.status == 200 || is_cut(&reply);
    if (r >= 0)
        r = check_end(&s, &reply);
    else if (envd->cloud->error[0] == '\0')
        cloud_fail_transport(envd->cloud, r, "The sandbox");
    connect_release(&s.frames);
    http_reply_release(&reply);
    return r;
}

/* ---- its input */

static int call(struct envd *envd, const char *method, uint32_t pid, json_object *input)
{
    _cleanup_json_ json_object *object = json_object_new_object();
    json_object *process = json_object_new_object();
    struct http_reply reply = { 0 };
    char url[600];

    int r = json_add_uint64(process, "pid", pid);
    r = r < 0 ? r : json_add(object, "process", json_object_get(process));
    json_object_put(process);
    if (r >= 0 && input)
        r = json_add(object, "input", json_object_get(input));
    if (r < 0)
        return r;
    snprintf(url, sizeof(url), "%s/process.Process/%s", envd->url, method);
    struct http_request request = request_to(envd, url, "Content-Type: application/json");
    request.body = json_text(object, &request.body_size);
    request.timeout_usec = INPUT_TIMEOUT_USEC;
    r = http_perform(&envd->cloud->http, &request, &reply);
    if (r >= 0 && reply.status != 200)
        r = reply.status == 404 ? -ESRCH : -EPIPE;
    http_reply_release(&reply);
    return r;
}

int envd_send_input(struct envd *envd, uint32_t pid, const char *data, size_t size)
{
    _cleanup_json_ json_object *input = json_object_new_object();
    _cleanup_free_ char *encoded = malloc(size * 4 / 3 + 8);

    if (!encoded)
        return -ENOMEM;
    EVP_EncodeBlock((unsigned char *)encoded, (const unsigned char *)data, (int)size);
    int r = json_add_string(input, "stdin", encoded);
    return r < 0 ? r : call(envd, "SendInput", pid, input);
}

int envd_close_input(struct envd *envd, uint32_t pid)
{
    return call(envd, "CloseStdin", pid, NULL);
}

/* ---- files */

/* The same bytes to the same place: it may be done again. */
static int upload(struct envd *envd, const struct http_request *request)
{
    for (int tries = 1;; tries++) {
        struct http_reply reply = { 0 };
        int r = http_perform(&envd->cloud->http, request, &reply);
        bool worth = r < 0 ? r == -ECONNRESET || r == -ECONNREFUSED || r == -ETIMEDOUT
                           : reply.status >= 500 && reply.status != 507;
        if (r < 0)
            cloud_fail_transport(envd->cloud, r, "The sandbox");
        else if (reply.status / 100 != 2)
            r = fail_reply(envd, &reply, "the taking of files");
        http_reply_release(&reply);
        if (r >= 0 || !worth || tries == UPLOAD_TRIES)
            return r;
        r = http_wait(&envd->cloud->http, (USEC_PER_SEC / 4) << tries);
        if (r < 0)
            return r;
    }
}

int envd_upload(struct envd *envd, const char *path, int file, uint64_t size)
{
    _cleanup_free_ char *escaped = http_escape(path, "/"), *url = NULL;

    if (!escaped || asprintf(&url, "%s/files?path=%s%s%s", envd->url, escaped,
                             envd->username[0] ? "&" : "", envd->username) < 0) {
        url = NULL;
        return cloud_fail(envd->cloud, -ENOMEM, "Out of memory.");
    }
    struct http_request request = request_to(envd, url, "Content-Type: application/octet-stream");
    request.is_file = true;
    request.file = file;
    request.file_size = size;
    request.silence_usec = UPLOAD_SILENCE_USEC;
    return upload(envd, &request);
}

int envd_upload_form(struct envd *envd, http_form_fn form, void *userdata)
{
    char url[900];

    snprintf(url, sizeof(url), "%s/files%s%s", envd->url, envd->username[0] ? "?" : "",
             envd->username);
    struct http_request request = request_to(envd, url, NULL);
    request.form = form;
    request.form_userdata = userdata;
    request.silence_usec = UPLOAD_SILENCE_USEC;
    return upload(envd, &request);
}
