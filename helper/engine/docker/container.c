/* Containers of the daemon, see container.h. */
#include "container.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <systemd/sd-daemon.h>

#include "common/cleanup.h"

#define ID_LENGTH 64
/* The broker waits for the last word. */
#define REMOVE_TIMEOUT_USEC (10 * 1000000ULL)
/* Against a daemon that never ends; there are as many as runs at a time. */
#define SWEEP_MAX 4096

void container_name(const char *run_id, char ret[CONTAINER_NAME_MAX])
{
    snprintf(ret, CONTAINER_NAME_MAX, CONTAINER_PREFIX "%.*s", ENGINE_RUN_ID_MAX, run_id);
}

/* ---- start */

static int fail_create(struct api *api, const struct container_spec *spec, const char *name,
                       const struct http_reply *reply)
{
    const char *words = api_words(reply);

    if (reply->status == 409)
        return api_fail(api, -EEXIST,
                        "Docker has a container of the name %s already. The administrator removes "
                        "it with: docker rm --force %s",
                        name, name);
    if (spec->runtime && strstr(words, "runtime"))
        return api_fail(api, -EINVAL,
                        "Docker does not know the runtime '%.60s'. The administrator corrects "
                        "Runtime= in /etc/sbxctl/engine-docker.conf, or adds it to Docker's "
                        "daemon.json.",
                        spec->runtime);
    return api_fail_refused(api, "make the container", words);
}

static bool is_id(const char *id)
{
    return id && strlen(id) == ID_LENGTH && strspn(id, "0123456789abcdef") == ID_LENGTH;
}

/* The control group of the launcher is told by it, so it has to be one. */
static int take_id(struct api *api, const struct http_reply *reply, char ret[CONTAINER_ID_MAX])
{
    const char *id = json_get_string(reply->body, "Id");

    if (!is_id(id))
        return api_fail(api, -EBADMSG,
                        "Docker's answer about the new container has no id. The administrator sees "
                        "to it with: journalctl -u docker.service");
    memcpy(ret, id, ID_LENGTH + 1);
    return 0;
}

int container_create(struct api *api, const struct container_spec *spec, const char *name,
                     char ret_id[CONTAINER_ID_MAX])
{
    _cleanup_json_ json_object *body = container_request(spec);
    struct http_reply reply = { 0 };

    if (!body)
        return api_fail(api, -ENOMEM, "The engine is out of memory.");
    int r =
        api_call(api, "POST", body, API_TIMEOUT_USEC, &reply, "/containers/create?name=%s", name);
    if (r == 0 && reply.status != 201)
        r = fail_create(api, spec, name, &reply);
    else if (r == 0)
        r = take_id(api, &reply, ret_id);
    http_reply_release(&reply);
    return r;
}

int container_start(struct api *api, const char *name)
{
    struct http_reply reply = { 0 };

    int r = api_call(api, "POST", NULL, API_TIMEOUT_USEC, &reply, "/containers/%s/start", name);
    if (r == 0 && reply.status != 204)
        r = api_fail_refused(api, "start the container", api_words(&reply));
    http_reply_release(&reply);
    return r;
}

/* ---- look */

static bool get_bool(json_object *object, const char *key)
{
    return json_object_get_boolean(json_object_object_get(object, key));
}

int container_inspect(struct api *api, const char *name, struct container_state *ret)
{
    struct http_reply reply = { 0 };
    json_object *state;

    int r = api_call(api, "GET", NULL, API_TIMEOUT_USEC, &reply, "/containers/%s/json", name);
    if (r == 0 && reply.status == 200) {
        state = json_object_object_get(reply.body, "State");
        *ret = (struct container_state){
            .exists = true,
            .running = get_bool(state, "Running"),
            .oom_killed = get_bool(state, "OOMKilled"),
            .pid = json_object_get_int(json_object_object_get(state, "Pid")),
            .exit_code = json_object_get_int(json_object_object_get(state, "ExitCode")),
        };
    } else if (r == 0 && reply.status == 404) {
        *ret = (struct container_state){ 0 };
    } else if (r == 0) {
        r = api_fail_refused(api, "tell about the container", api_words(&reply));
    }
    http_reply_release(&reply);
    return r;
}

uint64_t container_memory_peak(struct api *api, const char *name)
{
    struct http_reply reply = { 0 };
    json_object *peak = NULL;
    uint64_t bytes = UINT64_MAX;

    int r = api_call(api, "GET", NULL, API_TIMEOUT_USEC, &reply,
                     "/containers/%s/stats?stream=false&one-shot=true", name);
    if (r == 0 && reply.status == 200)
        peak =
            json_object_object_get(json_object_object_get(reply.body, "memory_stats"), "max_usage");
    if (json_object_is_type(peak, json_type_int) && json_object_get_int64(peak) > 0)
        bytes = (uint64_t)json_object_get_int64(peak);
    http_reply_release(&reply);
    return bytes;
}

/* ---- end */

int container_kill(struct api *api, const char *name, const char *signal, uint64_t timeout_usec)
{
    struct http_reply reply = { 0 };

    int r = api_call(api, "POST", NULL, timeout_usec, &reply, "/containers/%s/kill?signal=%s", name,
                     signal);
    /* 404: there is none; 409: it does not run. */
    if (r == 0 && reply.status != 204 && reply.status != 404 && reply.status != 409)
        r = api_fail_refused(api, "kill the container", api_words(&reply));
    http_reply_release(&reply);
    return r;
}

int container_kill_until(struct api *api, const char *name, int pidfd, uint64_t timeout_usec)
{
    struct http_reply reply = { 0 };

    int r = api_call_until(api, "POST", pidfd, timeout_usec, &reply,
                           "/containers/%s/kill?signal=SIGKILL", name);
    if (r == 0 && reply.status != 204 && reply.status != 404 && reply.status != 409)
        r = api_fail_refused(api, "kill the container", api_words(&reply));
    http_reply_release(&reply);
    return r == -EALREADY ? 0 : r;
}

int container_remove(struct api *api, const char *name)
{
    struct http_reply reply = { 0 };

    int r = api_call(api, "DELETE", NULL, REMOVE_TIMEOUT_USEC, &reply,
                     "/containers/%s?force=true&v=true", name);
    /* 409: a removal is going on; it is looked at again. */
    if (r == 0 && reply.status == 409)
        r = api_fail(api, -EBUSY, "Docker is removing the container.");
    else if (r == 0 && reply.status != 204 && reply.status != 200 && reply.status != 404)
        r = api_fail_refused(api, "remove the container", api_words(&reply));
    http_reply_release(&reply);
    return r;
}

/* ---- sweep */

/* Labels also come from images, which anybody may make: a container of ours has its run's name,
 * too. */
static const char *own_name(json_object *container, const char *run)
{
    json_object *names = json_object_object_get(container, "Names");
    size_t n = strlen(CONTAINER_PREFIX);

    /* The name becomes part of a path. */
    if (!run || run[strspn(run, "0123456789abcdef")] != '\0' ||
        !json_object_is_type(names, json_type_array))
        return NULL;
    for (size_t i = 0; i < json_object_array_length(names); i++) {
        const char *name = json_object_get_string(json_object_array_get_idx(names, i));
        name = name && name[0] == '/' ? name + 1 : name;
        if (name && strncmp(name, CONTAINER_PREFIX, n) == 0 && strcmp(name + n, run) == 0)
            return name;
    }
    return NULL;
}

static bool is_abandoned(json_object *labels, const char *service, uint64_t connection)
{
    const char *of_service = json_get_string(labels, "io.sbxctl.service");
    const char *of_connection = json_get_string(labels, "io.sbxctl.connection");
    char text[24];

    bool same = of_service && strcmp(of_service, service) == 0;
    if (connection == 0)
        return !same;
    snprintf(text, sizeof(text), "%" PRIu64, connection);
    return same && of_connection && strcmp(of_connection, text) == 0;
}

/* One at a time, so that no number of them is too much to read; and those alone that have a name of
 * ours, which images cannot give, so that strangers' labels are not read at all. */
#define LIST_ONE "/containers/json?all=true&limit=1&filters="

/* Gets the newest container of those that are older than the one with the id @at (empty: of all).
 * Returns 1 with the reply and its id in @at, 0 if there is none, or a negative errno. */
static int next_container(struct api *api, char at[CONTAINER_ID_MAX], struct http_reply *ret)
{
    char before[128] = "";
    json_object *list;

    /* {"before":["ID"],"label":["io.sbxctl.run"],"name":["^/?sbxctl-run-[0-9a-f]+$"]} */
    if (at[0] != '\0')
        snprintf(before, sizeof(before), "%%22before%%22%%3A%%5B%%22%s%%22%%5D%%2C", at);
    int r = api_call(api, "GET", NULL, API_TIMEOUT_USEC, ret,
                     LIST_ONE "%%7B%s%%22label%%22%%3A%%5B%%22io.sbxctl.run%%22%%5D%%2C%%22name%%22"
                              "%%3A%%5B%%22%%5E%%2F%%3F" CONTAINER_PREFIX
                              "%%5B0-9a-f%%5D%%2B%%24%%22%%5D%%7D",
                     before);
    if (r < 0)
        return r;
    if (ret->status != 200)
        return api_fail_refused(api, "list its containers", api_words(ret));
    list = json_object_object_get(ret->body, "items");
    if (!json_object_is_type(list, json_type_array) || json_object_array_length(list) > 1)
        return api_fail(api, -EBADMSG, "Docker's list of containers is too long, or is none.");
    if (json_object_array_length(list) == 0)
        return 0;
    const char *id = json_get_string(json_object_array_get_idx(list, 0), "Id");
    if (!is_id(id) || strcmp(id, at) == 0)
        return api_fail(api, -EBADMSG, "Docker's list of containers is none.");
    memcpy(at, id, ID_LENGTH + 1);
    return 1;
}

/* Returns 1 if it was one, 0 if not, or a negative errno. */
static int remove_abandoned(struct api *api, const struct http_reply *reply, const char *service,
                            uint64_t connection)
{
    json_object *container =
        json_object_array_get_idx(json_object_object_get(reply->body, "items"), 0);
    json_object *labels = json_object_object_get(container, "Labels");
    const char *name = own_name(container, json_get_string(labels, "io.sbxctl.run"));

    if (!name || !is_abandoned(labels, service, connection))
        return 0;
    fprintf(stderr, SD_NOTICE "Removing the abandoned sandbox %s.\n", name);
    int r = container_remove(api, name);
    return r < 0 && r != -EBUSY ? r : 1;
}

int container_sweep(struct api *api, const char *service, uint64_t connection)
{
    struct http_reply reply = { 0 }, next = { 0 };
    char at[CONTAINER_ID_MAX] = "";
    int n = 0;

    int r = next_container(api, at, &reply);
    for (unsigned i = 0; r > 0 && i < SWEEP_MAX; i++) {
        /* The next one first, which is known by this one. */
        int more = next_container(api, at, &next);
        r = more < 0 ? more : remove_abandoned(api, &reply, service, connection);
        n += r > 0;
        r = r < 0 ? r : more;
        http_reply_release(&reply);
        reply = next;
        next = (struct http_reply){ 0 };
    }
    http_reply_release(&reply);
    return r < 0 ? r : n;
}
