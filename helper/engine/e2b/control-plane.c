/* Calls of E2B's REST API, see control-plane.h. */
#include "control-plane.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "key.h"

#define TRIES_MAX 4
/* A server that says when to come again is waited for, within reason. */
#define RETRY_AFTER_MAX_SEC 30
#define PAGES_MAX 50
/* A second's fraction is lost either way, and the server takes its time. */
#define LIFE_SLACK_SEC 5

int cloud_open(const struct config *config, struct cloud *ret)
{
    *ret = (struct cloud){ .config = config };
    return http_open(config, &ret->http);
}

void cloud_close(struct cloud *cloud)
{
    http_close(&cloud->http);
}

int cloud_fail(struct cloud *cloud, int error, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(cloud->error, sizeof(cloud->error), format, args);
    va_end(args);
    return error;
}

int cloud_fail_transport(struct cloud *cloud, int error, const char *where)
{
    cloud->unusable = http_was_not_sent(error);
    switch (-error) {
    case EHOSTUNREACH:
        return cloud_fail(cloud, error,
                          "%.200s cannot be reached: its name, or the proxy's, cannot be found. Is "
                          "this machine connected to the internet?",
                          where);
    case ECONNREFUSED:
        return cloud_fail(cloud, error,
                          "%.200s cannot be reached: nothing accepts a connection there. Try again "
                          "later, or another engine.",
                          where);
    case EKEYREJECTED:
        return cloud_fail(
            cloud, error,
            "%.200s is not believed to be what it says: its certificate is not signed "
            "by anybody in CAFile= of engine-e2b.conf, or names another host.",
            where);
    case EPROTO:
        return cloud_fail(cloud, error, "%.200s does not speak TLS as it should.", where);
    case ETIMEDOUT:
    case ETIME:
        return cloud_fail(cloud, error, "%.200s did not answer in time. Try again later.", where);
    case ECANCELED:
        return error;
    default:
        return cloud_fail(cloud, error, "The connection to %.200s broke (%s). Try again later.",
                          where, strerror(-error));
    }
}

/* ---- one call */

struct call {
    const char *method;
    json_object *body; /* borrowed; NULL: none */
    uint64_t timeout_usec;
    bool again; /* nothing is worse for being done twice */
};

/* How long to wait before another try, 0 for no other try. */
static uint64_t wait_before_retry(const struct call *call, int error,
                                  const struct http_reply *reply, int tries)
{
    uint64_t pause = (USEC_PER_SEC / 4) << tries;

    if (error < 0)
        return call->again && error != -ECANCELED && error != -ETIME && error != -ENOMEM ? pause
                                                                                         : 0;
    if (reply->status == 429)
        return reply->retry_after < 0 || reply->retry_after > RETRY_AFTER_MAX_SEC
                   ? 0
                   : (uint64_t)reply->retry_after * USEC_PER_SEC + 1;
    /* Busy: the server says that nothing was done. */
    if (reply->status == 503)
        return pause;
    return call->again && reply->status >= 500 ? pause : 0;
}

/* Returns 0 with a reply, whatever its status, or a negative errno with a sentence. */
static int perform(struct cloud *cloud, const struct call *call, const char *path,
                   struct http_reply *ret)
{
    uint64_t deadline = clock_now() + call->timeout_usec;
    _cleanup_free_ char *url = NULL;
    size_t size = 0;
    const char *body = call->body ? json_text(call->body, &size) : NULL;

    if (asprintf(&url, "%s%s", cloud->config->api_url, path) < 0) {
        url = NULL;
        return cloud_fail(cloud, -ENOMEM, "Out of memory.");
    }
    cloud->was_busy = false;
    for (int tries = 0;; tries++) {
        uint64_t left = deadline > clock_now() ? deadline - clock_now() : 1;
        struct http_request request = {
            .method = call->method,
            .url = url,
            .headers = { body ? "Content-Type: application/json" : NULL },
            .with_key = true,
            .body = body,
            .body_size = size,
            .timeout_usec = left,
        };
        int r = http_perform(&cloud->http, &request, ret);
        uint64_t pause = tries + 1 < TRIES_MAX ? wait_before_retry(call, r, ret, tries) : 0;
        if (pause == 0 || clock_now() + pause >= deadline)
            return r < 0 ? cloud_fail_transport(cloud, r, cloud->config->api_url) : 0;
        cloud->was_busy = cloud->was_busy || (r >= 0 && ret->status == 503);
        http_reply_release(ret);
        r = http_wait(&cloud->http, pause);
        if (r < 0)
            return cloud_fail_transport(cloud, r, cloud->config->api_url);
    }
}

static int call_path(struct cloud *cloud, const struct call *call, struct http_reply *ret,
                     const char *format, ...) __attribute__((format(printf, 4, 5)));
static int call_path(struct cloud *cloud, const struct call *call, struct http_reply *ret,
                     const char *format, ...)
{
    char path[1024];
    va_list args;

    *ret = (struct http_reply){ 0 };
    va_start(args, format);
    vsnprintf(path, sizeof(path), format, args);
    va_end(args);
    return perform(cloud, call, path, ret);
}

/* Makes the sentence for a reply that is not what was wanted. */
static int fail_reply(struct cloud *cloud, const struct http_reply *reply, const char *what)
{
    char words[CLOUD_WORDS_MAX];

    cloud_words(reply, words);
    switch (reply->status) {
    case 401:
        cloud->unusable = true;
        return cloud_fail(cloud, -EACCES,
                          "E2B does not accept this machine's key. The administrator has to renew "
                          "the credential " KEY_CREDENTIAL ".");
    case 403:
        return cloud_fail(cloud, -EPERM, "E2B does not allow %s: %s.", what, words);
    case 429:
        return cloud_fail(cloud, -EBUSY,
                          "E2B has no room for another sandbox of this account: %s. Try again when "
                          "others have ended.",
                          words);
    case 503:
        return cloud_fail(cloud, -EBUSY, "E2B is too busy for %s: %s. Try again later.", what,
                          words);
    default:
        return cloud_fail(cloud, reply->status >= 500 ? -EREMOTEIO : -EINVAL,
                          "E2B did not do %s (status %u): %s.", what, reply->status, words);
    }
}

/* ---- create */

static json_object *labels_object(const struct cloud_labels *labels)
{
    json_object *object = json_object_new_object();

    if (json_add_string(object, CLOUD_LABEL_MACHINE, labels->machine) < 0 ||
        json_add_string(object, CLOUD_LABEL_SERVICE, labels->service) < 0 ||
        json_add_string(object, CLOUD_LABEL_CONNECTION, labels->connection) < 0 ||
        json_add_string(object, CLOUD_LABEL_RUN, labels->run) < 0 ||
        json_add_string(object, CLOUD_LABEL_USER, labels->user) < 0) {
        json_object_put(object);
        return NULL;
    }
    return object;
}

/* Names are accepted beside a denial of all the rest only. NULL out of memory. */
static json_object *network_object(const char *hosts)
{
    _cleanup_json_ json_object *network = json_object_new_object(),
                               *denied = json_object_new_array();
    json_object *allowed = json_object_new_array();
    int r = network && denied && allowed ? 0 : -ENOMEM;

    for (const char *host = hosts; r >= 0 && *host; host += strspn(host, " ")) {
        size_t length = strcspn(host, " ");
        r = json_object_array_add(allowed, json_object_new_string_len(host, (int)length));
        host += length;
    }
    r = r < 0 ? r : json_object_array_add(denied, json_object_new_string("0.0.0.0/0"));
    if (r < 0) {
        json_object_put(allowed);
        return NULL;
    }
    r = json_add(network, "allowOut", allowed);
    r = r < 0 ? r : json_add(network, "denyOut", json_object_get(denied));
    return r < 0 ? NULL : TAKE_PTR(network);
}

static json_object *create_object(const struct cloud_request *request, bool is_v1)
{
    json_object *object = json_object_new_object();
    bool is_limited = request->network && request->hosts[0];

    if (json_add_string(object, "templateID", request->template_id) < 0 ||
        json_add_uint64(object, "timeout", request->seconds) < 0 ||
        json_add_bool(object, "allow_internet_access", request->network) < 0 ||
        (is_limited && json_add(object, "network", network_object(request->hosts)) < 0) ||
        json_add_bool(object, "autoPause", false) < 0 ||
        json_add(object, "metadata", labels_object(request->labels)) < 0 ||
        (is_v1 && json_add_bool(object, "secure", true) < 0)) {
        json_object_put(object);
        return NULL;
    }
    return object;
}

static int post_create(struct cloud *cloud, const struct cloud_request *request,
                       struct http_reply *ret)
{
    _cleanup_json_ json_object *body = create_object(request, cloud->is_v1);
    const struct call call = { "POST", body, CLOUD_TIMEOUT_USEC, false };

    if (!body)
        return cloud_fail(cloud, -ENOMEM, "Out of memory.");
    return call_path(cloud, &call, ret, "%s/sandboxes", cloud->is_v1 ? "" : "/v2");
}

struct unknown {
    struct cloud *cloud;
    const struct cloud_labels *labels;
    const char *kept; /* the one that is known; empty: none */
    bool is_removed;
};

/* A server that does not filter tells of others', too. */
static int delete_listed(const char *id, json_object *labels, void *userdata)
{
    struct unknown *unknown = userdata;
    const char *run = labels ? json_get_string(labels, CLOUD_LABEL_RUN) : NULL;

    if (!run || strcmp(run, unknown->labels->run) != 0 || strcmp(id, unknown->kept) == 0)
        return 0;
    int r = cloud_delete_surely(unknown->cloud, id, CLOUD_TIMEOUT_USEC);
    unknown->is_removed = r >= 0;
    return r;
}

/* After a create of which nobody knows how it ended. What was noted about it stays. */
static void remove_unknown(struct cloud *cloud, const struct cloud_labels *labels, const char *kept)
{
    struct unknown unknown = { cloud, labels, kept, false };
    char error[sizeof(cloud->error)];
    bool unusable = cloud->unusable;

    memcpy(error, cloud->error, sizeof(error));
    int r = cloud_list(cloud, CLOUD_LABEL_RUN, labels->run, delete_listed, &unknown);
    cloud->may_be_left = r < 0 || (!kept[0] && !unknown.is_removed);
    memcpy(cloud->error, error, sizeof(error));
    cloud->unusable = unusable;
}

static int fail_create(struct cloud *cloud, const struct cloud_request *request,
                       const struct http_reply *reply)
{
    char words[CLOUD_WORDS_MAX];

    if (reply->status != 404)
        return fail_reply(cloud, reply, "the making of a sandbox");
    cloud_words(reply, words);
    return cloud_fail(cloud, -ENOENT, "E2B has no template '%.100s' for this account: %s.",
                      request->template_id, words);
}

/* A 201 that cannot be used still was one. */
static int adopt(struct cloud *cloud, const struct http_reply *reply, struct cloud_sandbox *ret)
{
    int r = cloud_parse_created(reply->text ? reply->text : "", reply->size, ret);

    if (r == -EKEYREJECTED)
        return cloud_fail(cloud, r,
                          "E2B made a sandbox that anybody could use, so nothing runs in it: its "
                          "server knows no secure ones.");
    return r < 0 ? cloud_fail(cloud, r, "E2B made a sandbox, but did not say which.") : 0;
}

int cloud_create(struct cloud *cloud, const struct cloud_request *request,
                 struct cloud_sandbox *ret)
{
    struct http_reply reply = { 0 };
    int r = post_create(cloud, request, &reply);

    *ret = (struct cloud_sandbox){ 0 };
    if (r >= 0 && !cloud->is_v1 && (reply.status == 404 || reply.status == 405)) {
        /* Also the status for a template that is not there: then the older way says so again. */
        http_reply_release(&reply);
        cloud->is_v1 = true;
        r = post_create(cloud, request, &reply);
    }
    unsigned status = r < 0 ? 0 : reply.status;
    bool was_busy = cloud->was_busy;
    if (r >= 0)
        r = status == 201 ? adopt(cloud, &reply, ret) : fail_create(cloud, request, &reply);
    if (reply.text)
        explicit_bzero(reply.text, reply.size);
    http_reply_release(&reply);
    if (r < 0 && (status >= 500 || status / 100 == 2 || (status == 0 && !http_was_not_sent(r))))
        remove_unknown(cloud, request->labels, "");
    else if (r >= 0 && was_busy)
        remove_unknown(cloud, request->labels, ret->id);
    return r;
}

/* ---- one sandbox */

static int64_t read_life(struct cloud *cloud, const char *id)
{
    const struct call call = { "GET", NULL, CLOUD_TIMEOUT_USEC, true };
    struct http_reply reply;
    int64_t life = call_path(cloud, &call, &reply, "/sandboxes/%s", id);

    if (life < 0)
        return life;
    if (reply.status != 200)
        life = fail_reply(cloud, &reply, "a look at the sandbox");
    else if ((life = cloud_parse_life(reply.text ? reply.text : "", reply.size)) < 0)
        cloud_fail(cloud, (int)life, "E2B does not say until when the sandbox lives.");
    http_reply_release(&reply);
    return life;
}

static int set_life(struct cloud *cloud, const char *id, uint64_t seconds)
{
    _cleanup_json_ json_object *body = json_object_new_object();
    const struct call call = { "POST", body, CLOUD_TIMEOUT_USEC, true };
    struct http_reply reply;

    if (json_add_uint64(body, "timeout", seconds) < 0)
        return cloud_fail(cloud, -ENOMEM, "Out of memory.");
    int r = call_path(cloud, &call, &reply, "/sandboxes/%s/timeout", id);
    if (r >= 0 && reply.status / 100 != 2)
        r = fail_reply(cloud, &reply, "the setting of the sandbox's time");
    http_reply_release(&reply);
    return r;
}

/* @life is of a sandbox that may have lived between @least and @most seconds. */
static int judge_life(struct cloud *cloud, int64_t life, int64_t wanted, int64_t least,
                      int64_t most)
{
    if (life < 0)
        return (int)life;
    if (life > most + wanted + LIFE_SLACK_SEC)
        return cloud_fail(cloud, -ERANGE,
                          "E2B would let the sandbox live %" PRId64 " s instead of %" PRId64
                          " s, so nothing was run.",
                          life - most, wanted);
    if (life < least + wanted - LIFE_SLACK_SEC)
        return cloud_fail(cloud, -ERANGE,
                          "E2B lets the sandbox live only %" PRId64 " s, and %" PRId64
                          " s are needed for the run. Ask for less time with --timeout.",
                          life > least ? life - least : 0, wanted);
    return 0;
}

int cloud_check_life(struct cloud *cloud, const char *id, uint64_t seconds)
{
    int64_t life = read_life(cloud, id);
    int64_t wanted = (int64_t)seconds;

    if (life >= 0 && life > wanted + LIFE_SLACK_SEC) {
        int r = set_life(cloud, id, seconds);
        life = r < 0 ? r : read_life(cloud, id);
    }
    return judge_life(cloud, life, wanted, 0, 0);
}

int cloud_renew_life(struct cloud *cloud, const char *id, uint64_t seconds, uint64_t least,
                     uint64_t most)
{
    int r = set_life(cloud, id, seconds);
    int64_t life = r < 0 ? r : read_life(cloud, id);

    return judge_life(cloud, life, (int64_t)seconds, (int64_t)least, (int64_t)most);
}

int cloud_exists(struct cloud *cloud, const char *id)
{
    const struct call call = { "GET", NULL, CLOUD_TIMEOUT_USEC, true };
    struct http_reply reply;
    int r = call_path(cloud, &call, &reply, "/sandboxes/%s", id);

    if (r >= 0 && reply.status == 404)
        r = 0;
    else if (r >= 0)
        r = reply.status == 200 ? 1 : fail_reply(cloud, &reply, "a look at the sandbox");
    http_reply_release(&reply);
    return r;
}

int cloud_delete(struct cloud *cloud, const char *id, uint64_t timeout_usec)
{
    const struct call call = { "DELETE", NULL, timeout_usec, true };
    struct http_reply reply;
    int r = call_path(cloud, &call, &reply, "/sandboxes/%s", id);

    if (r >= 0 && reply.status / 100 != 2 && reply.status != 404)
        r = fail_reply(cloud, &reply, "the removal of a sandbox");
    http_reply_release(&reply);
    return r;
}

static int see_gone(struct cloud *cloud, const char *id, uint64_t timeout_usec)
{
    uint64_t deadline = clock_now() + timeout_usec, pause = USEC_PER_SEC / 10;

    for (;;) {
        int r = cloud_exists(cloud, id);
        if (r == 0)
            return 0;
        if (clock_now() >= deadline)
            return r < 0 ? r
                         : cloud_fail(cloud, -EBUSY,
                                      "The sandbox %s is still there after its removal.", id);
        r = http_wait(&cloud->http, pause);
        if (r < 0)
            return r;
        pause = pause < 4 * USEC_PER_SEC ? pause * 2 : pause;
        cloud_delete(cloud, id, deadline > clock_now() ? deadline - clock_now() : USEC_PER_SEC);
    }
}

int cloud_delete_surely(struct cloud *cloud, const char *id, uint64_t timeout_usec)
{
    cloud_delete(cloud, id, timeout_usec);
    return see_gone(cloud, id, timeout_usec);
}

/* ---- list */

static int get_page(struct cloud *cloud, const char *key, const char *value, const char *token,
                    struct http_reply *ret)
{
    const struct call call = { "GET", NULL, CLOUD_TIMEOUT_USEC, true };
    _cleanup_free_ char *next = http_escape(token, "");

    if (!next)
        return cloud_fail(cloud, -ENOMEM, "Out of memory.");
    /* Keys and values of ours need no escaping, whose layers servers do not agree on. */
    return cloud->is_v1 ? call_path(cloud, &call, ret, "/sandboxes?metadata=%s%%3D%s", key, value)
                        : call_path(cloud, &call, ret,
                                    "/v2/sandboxes?metadata=%s%%3D%s&state=running%%2Cpaused%s%s",
                                    key, value, next[0] ? "&nextToken=" : "", next);
}

/* Returns the number of entries, with the next page's token. */
static int list_page(struct cloud *cloud, const char *key, const char *value, char token[512],
                     cloud_listed_fn fn, void *userdata)
{
    struct http_reply reply = { 0 };
    int r = get_page(cloud, key, value, token, &reply);

    if (r >= 0 && !cloud->is_v1 && (reply.status == 404 || reply.status == 405)) {
        http_reply_release(&reply);
        cloud->is_v1 = true;
        r = get_page(cloud, key, value, token, &reply);
    }
    if (r >= 0 && reply.status != 200)
        r = fail_reply(cloud, &reply, "the listing of sandboxes");
    else if (r >= 0) {
        strcpy(token, reply.next_token);
        r = cloud_parse_list(reply.text ? reply.text : "", reply.size, fn, userdata);
        if (r == -EBADMSG)
            cloud_fail(cloud, r, "E2B's list of sandboxes cannot be understood.");
    }
    http_reply_release(&reply);
    return r;
}

int cloud_list(struct cloud *cloud, const char *key, const char *value, cloud_listed_fn fn,
               void *userdata)
{
    char token[512] = "";
    int n = 0;

    for (int page = 0; page < PAGES_MAX; page++) {
        int r = list_page(cloud, key, value, token, fn, userdata);
        if (r < 0)
            return r;
        n += r;
        if (token[0] == '\0')
            break;
    }
    return n;
}
