/* Calls of E2B's REST API, see control-plane.h: all but the making of a sandbox. */
#include "control-plane.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cloud-call.h"
#include "common/cleanup.h"
#include "common/clock.h"

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

/* ---- one sandbox */

static int64_t read_life(struct cloud *cloud, const char *id)
{
    const struct cloud_call call = { "GET", NULL, CLOUD_TIMEOUT_USEC, true };
    struct http_reply reply;
    int64_t life = cloud_call(cloud, &call, &reply, "/sandboxes/%s", id);

    if (life < 0)
        return life;
    if (reply.status != 200)
        life = cloud_fail_reply(cloud, &reply, "a look at the sandbox");
    else if ((life = cloud_parse_life(reply.text ? reply.text : "", reply.size)) < 0)
        cloud_fail(cloud, (int)life, "E2B does not say until when the sandbox lives.");
    http_reply_release(&reply);
    return life;
}

static int set_life(struct cloud *cloud, const char *id, uint64_t seconds)
{
    _cleanup_json_ json_object *body = json_object_new_object();
    const struct cloud_call call = { "POST", body, CLOUD_TIMEOUT_USEC, true };
    struct http_reply reply;

    if (json_add_uint64(body, "timeout", seconds) < 0)
        return cloud_fail(cloud, -ENOMEM, "Out of memory.");
    int r = cloud_call(cloud, &call, &reply, "/sandboxes/%s/timeout", id);
    if (r >= 0 && reply.status / 100 != 2)
        r = cloud_fail_reply(cloud, &reply, "the setting of the sandbox's time");
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
    const struct cloud_call call = { "GET", NULL, CLOUD_TIMEOUT_USEC, true };
    struct http_reply reply;
    int r = cloud_call(cloud, &call, &reply, "/sandboxes/%s", id);

    if (r >= 0 && reply.status == 404)
        r = 0;
    else if (r >= 0)
        r = reply.status == 200 ? 1 : cloud_fail_reply(cloud, &reply, "a look at the sandbox");
    http_reply_release(&reply);
    return r;
}

int cloud_delete(struct cloud *cloud, const char *id, uint64_t timeout_usec)
{
    const struct cloud_call call = { "DELETE", NULL, timeout_usec, true };
    struct http_reply reply;
    int r = cloud_call(cloud, &call, &reply, "/sandboxes/%s", id);

    if (r >= 0 && reply.status / 100 != 2 && reply.status != 404)
        r = cloud_fail_reply(cloud, &reply, "the removal of a sandbox");
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
    const struct cloud_call call = { "GET", NULL, CLOUD_TIMEOUT_USEC, true };
    _cleanup_free_ char *next = http_escape(token, "");

    if (!next)
        return cloud_fail(cloud, -ENOMEM, "Out of memory.");
    /* Keys and values of ours need no escaping, whose layers servers do not agree on. */
    return cloud->is_v1 ? cloud_call(cloud, &call, ret, "/sandboxes?metadata=%s%%3D%s", key, value)
                        : cloud_call(cloud, &call, ret,
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
        r = cloud_fail_reply(cloud, &reply, "the listing of sandboxes");
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
