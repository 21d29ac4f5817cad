/* Versions and errors of the Engine API, see api.h. */
#include "api.h"

#include <stdio.h>
#include <string.h>
#include <systemd/sd-daemon.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/escape.h"

/* Debian 12's Docker has it; what came later is not needed. */
#define API_MAJOR 1U
#define API_MINOR 41U
/* A daemon that is started by this very request (docker.socket) takes some seconds. */
#define VERSION_TIMEOUT_USEC (10 * 1000000ULL)
#define WORDS_MAX 220
/* Programs of which a daemon tells a version; Docker has four. */
#define COMPONENTS_MAX 8

/* ---- errors */

int api_fail(struct api *api, int error, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(api->error, sizeof(api->error), format, args);
    va_end(args);
    return error;
}

const char *api_words(const struct http_reply *reply)
{
    const char *words = json_get_string(reply->body, "message");

    return words ? words : "it does not say why";
}

int api_fail_refused(struct api *api, const char *what, const char *words)
{
    _cleanup_free_ char *shown = escape_text(words, strlen(words), WORDS_MAX);
    bool full = strstr(words, "no space left on device") != NULL;

    if (!full)
        return api_fail(api, -EREMOTEIO, "Docker did not %s: %s", what, shown ? shown : "");
    api->unusable = true;
    return api_fail(api, -ENOSPC,
                    "The disk on which Docker keeps its data is full, so it did not %s. The "
                    "administrator makes room with: docker system prune",
                    what);
}

/* Whose units start what listens there. */
static const char *daemon_of(const struct api *api)
{
    return strstr(api->socket, "podman") ? "podman" : "docker";
}

/* What keeps the daemon as a whole from answering. */
static int fail_transport(struct api *api, int error, uint64_t timeout_usec)
{
    const char *daemon = daemon_of(api);

    api->unusable = true;
    switch (error) {
    case -ENOENT:
        return api_fail(api, error,
                        "Docker is not running, or not installed: there is no socket %s. The "
                        "administrator starts it with: systemctl start %s.socket",
                        api->socket, daemon);
    case -EACCES:
    case -EPERM:
        return api_fail(api, error,
                        "The engine may not use Docker's socket %s: its user 'sbxctl-docker' must "
                        "be in the group that owns it. The administrator adds it with: usermod -aG "
                        "docker sbxctl-docker",
                        api->socket);
    case -ECONNREFUSED:
        return api_fail(api, error,
                        "Docker is stopped: nothing listens on %s. The administrator starts it "
                        "with: systemctl start %s.service",
                        api->socket, daemon);
    case -ETIMEDOUT:
        return api_fail(api, error,
                        "Docker did not answer in %u s. The machine may be overloaded, or the "
                        "daemon hangs; the administrator restarts it with: systemctl restart "
                        "%s.service",
                        (unsigned)(timeout_usec / USEC_PER_SEC), daemon);
    case -ECONNRESET:
        return api_fail(api, error,
                        "Docker went away in the middle of a request; it may have been restarted. "
                        "Try again.");
    case -EMSGSIZE:
        api->unusable = false;
        return api_fail(api, error,
                        "Docker's answer is longer than is sensible. Use another image, or try "
                        "again later.");
    case -ENOMEM:
        return api_fail(api, error, "The engine is out of memory.");
    default:
        return api_fail(api, error,
                        "What listens on %s does not speak Docker's Engine API. The administrator "
                        "sets Socket= in /etc/sbxctl/engine-docker.conf.",
                        api->socket);
    }
}

/* ---- calls */

static int call(struct api *api, const char *method, json_object *body, uint64_t timeout_usec,
                const struct http_stream *stream, int until, struct http_reply *ret,
                const char *format, va_list args) __attribute__((format(printf, 8, 0)));

static int call(struct api *api, const char *method, json_object *body, uint64_t timeout_usec,
                const struct http_stream *stream, int until, struct http_reply *ret,
                const char *format, va_list args)
{
    char path[API_PATH_MAX];
    size_t n = (size_t)snprintf(path, sizeof(path), "%s", api->version.prefix);
    const struct http_request request = { method, path, body, timeout_usec, until };

    if (vsnprintf(path + n, sizeof(path) - n, format, args) >= (int)(sizeof(path) - n))
        return api_fail(api, -ENAMETOOLONG, "A name is too long for Docker.");
    api->error[0] = '\0';
    api->unusable = false;
    int r = http_call(&api->http, &request, stream, ret);
    /* What is positive, or cancelled, is the caller's own doing. */
    return r < 0 && r != -ECANCELED && r != -EALREADY ? fail_transport(api, r, timeout_usec) : r;
}

int api_call(struct api *api, const char *method, json_object *body, uint64_t timeout_usec,
             struct http_reply *ret, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    int r = call(api, method, body, timeout_usec, NULL, 0, ret, format, args);
    va_end(args);
    return r;
}

int api_call_until(struct api *api, const char *method, int fd, uint64_t timeout_usec,
                   struct http_reply *ret, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    int r = call(api, method, NULL, timeout_usec, NULL, fd, ret, format, args);
    va_end(args);
    return r;
}

int api_stream(struct api *api, const char *method, uint64_t timeout_usec,
               const struct http_stream *stream, struct http_reply *ret, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    int r = call(api, method, NULL, timeout_usec, stream, 0, ret, format, args);
    va_end(args);
    return r;
}

/* ---- version */

struct version {
    unsigned major, minor;
};

static bool parse_version(const char *text, struct version *ret)
{
    return text && sscanf(text, "%u.%u", &ret->major, &ret->minor) == 2;
}

static bool is_older(struct version a, struct version b)
{
    return a.major != b.major ? a.major < b.major : a.minor < b.minor;
}

/* What the daemon runs containers with, for the service's log: who reads of a hole in one of them
 * finds there whether it is on this machine. Distributions mend old versions, so none is refused.
 */
static void log_components(json_object *version)
{
    json_object *components = json_object_object_get(version, "Components");

    if (!json_object_is_type(components, json_type_array))
        return;
    for (size_t i = 0; i < json_object_array_length(components) && i < COMPONENTS_MAX; i++) {
        json_object *component = json_object_array_get_idx(components, i);
        const char *name = json_get_string(component, "Name");
        const char *number = json_get_string(component, "Version");
        if (!name || !number)
            continue;
        _cleanup_free_ char *shown = escape_text(name, strlen(name), 60);
        _cleanup_free_ char *shown_number = escape_text(number, strlen(number), 60);
        fprintf(stderr, SD_INFO "The daemon's %s has version %s.\n", shown ? shown : "",
                shown_number ? shown_number : "");
    }
}

/* Ours, or the oldest that the daemon still speaks. */
static int agree(struct api *api, const struct http_reply *reply)
{
    struct version version = { API_MAJOR, API_MINOR }, newest, oldest;
    const char *text = json_get_string(reply->body, "ApiVersion");

    if (reply->status != 200 || !parse_version(text, &newest))
        return fail_transport(api, -EBADMSG, 0);
    if (is_older(newest, version)) {
        api->unusable = true;
        return api_fail(api, -EPROTONOSUPPORT,
                        "Docker is too old: it speaks version %u.%u of its Engine API, and %u.%u "
                        "is needed (Docker 20.10). The administrator updates it.",
                        newest.major, newest.minor, version.major, version.minor);
    }
    if (parse_version(json_get_string(reply->body, "MinAPIVersion"), &oldest) &&
        is_older(version, oldest))
        version = oldest;
    snprintf(api->version.daemon, sizeof(api->version.daemon), "%s", text);
    snprintf(api->version.prefix, sizeof(api->version.prefix), "/v%u.%u", version.major,
             version.minor);
    log_components(reply->body);
    return 0;
}

/* The daemon asks other programs for their version to tell its own (measured: 8 to 40 ms); a ping
 * costs less than one, and has the newest version in a header. */
static int is_known(struct api *api, const struct api_version *known)
{
    struct http_reply reply = { 0 };

    int r = api_call(api, "GET", NULL, VERSION_TIMEOUT_USEC, &reply, "/_ping");
    const char *daemon = r < 0 ? NULL : http_header(&api->http, "Api-Version");
    api->is_podman = r >= 0 && http_header(&api->http, "Libpod-Api-Version");
    bool same = daemon && known->daemon[0] != '\0' && strcmp(daemon, known->daemon) == 0;
    http_reply_release(&reply);
    return r < 0 ? r : same;
}

int api_open(const char *socket, const struct api_version *known, struct api *ret)
{
    struct http_reply reply = { 0 };

    *ret = (struct api){ .socket = socket };
    int r = http_open(socket, &ret->http);
    if (r < 0)
        return fail_transport(ret, r, 0);
    r = is_known(ret, known);
    if (r > 0)
        ret->version = *known;
    if (r != 0)
        return r < 0 ? r : 0;
    r = api_call(ret, "GET", NULL, VERSION_TIMEOUT_USEC, &reply, "/version");
    r = r < 0 ? r : agree(ret, &reply);
    http_reply_release(&reply);
    return r;
}

void api_close(struct api *api)
{
    http_close(&api->http);
}
