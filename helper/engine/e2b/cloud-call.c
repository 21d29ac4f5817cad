/* One call of the control plane, see cloud-call.h. */
#include "cloud-call.h"

#include <stdio.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "key.h"

#define TRIES_MAX 4
/* A server that says when to come again is waited for, within reason. */
#define RETRY_AFTER_MAX_SEC 30

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

/* How long to wait before another try, 0 for no other try. */
static uint64_t wait_before_retry(const struct cloud_call *call, int error,
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
static int perform(struct cloud *cloud, const struct cloud_call *call, const char *path,
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

int cloud_call(struct cloud *cloud, const struct cloud_call *call, struct http_reply *ret,
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

int cloud_fail_reply(struct cloud *cloud, const struct http_reply *reply, const char *what)
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
