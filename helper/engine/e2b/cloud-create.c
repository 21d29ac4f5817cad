/* The making of a sandbox, and the finding of one that nobody knows whether it was made. */
#include "cloud-call.h"

#include <string.h>

#include "common/cleanup.h"

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
    const struct cloud_call call = { "POST", body, CLOUD_TIMEOUT_USEC, false };

    if (!body)
        return cloud_fail(cloud, -ENOMEM, "Out of memory.");
    return cloud_call(cloud, &call, ret, "%s/sandboxes", cloud->is_v1 ? "" : "/v2");
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
        return cloud_fail_reply(cloud, reply, "the making of a sandbox");
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
