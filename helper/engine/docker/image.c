/* Images of the daemon, see image.h. */
#include "image.h"

#include <stdio.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/escape.h"
#include "common/image-reference.h"

/* Bytes that the daemon tells of an image at most; usual are some thousands. All of it is told
 * again of each of its containers, labels and ports, and must not be too much to read then. */
#define TOLD_MAX (128 * 1024)
#define LAYERS_MAX 256 /* overlay2 takes 128 */

/* Written out: without a tag the daemon would pull every tag, and take a name of hex digits for the
 * beginning of an id. */
static const char *tag_to_add(const char *reference)
{
    return reference[image_reference_name_length(reference)] == '\0' ? ":latest" : "";
}

/* ---- find */

/* The daemon shortens the names of its default registry, podman does not. */
static bool is_of_name(const char *digest, const char *reference)
{
    const char *a = image_reference_short(digest), *b = image_reference_short(reference);
    size_t n = image_reference_name_length(b);

    return strncmp(a, b, n) == 0 && a[n] == '@';
}

/* The digest by which the reference's own registry knows the image: the one that was asked for, if
 * it has several. Of an image that was built or loaded here there is none. */
static const char *find_digest(json_object *image, const char *reference)
{
    json_object *digests = json_object_object_get(image, "RepoDigests");
    const char *wanted = image_reference_digest(reference), *found = NULL;

    if (!json_object_is_type(digests, json_type_array))
        return NULL;
    for (size_t i = 0; i < json_object_array_length(digests); i++) {
        const char *digest = json_object_get_string(json_object_array_get_idx(digests, i));
        if (!digest || !is_of_name(digest, reference))
            continue;
        digest = image_reference_digest(digest);
        if (wanted && strcmp(wanted, digest) == 0)
            return digest;
        found = found ? found : digest;
    }
    return found;
}

/* A volume would be storage outside of every limit. */
static int check_volumes(struct api *api, const char *reference, json_object *image)
{
    json_object *volumes =
        json_object_object_get(json_object_object_get(image, "Config"), "Volumes");

    if (!json_object_is_type(volumes, json_type_object))
        return 0;
    json_object_object_foreach(volumes, path, value)
    {
        _cleanup_free_ char *shown = escape_text(path, strlen(path), 60);
        (void)value;
        return api_fail(api, -EPERM,
                        "The image '%.100s' declares a volume (%s), which would be storage without "
                        "a limit. Use one that has no VOLUME.",
                        reference, shown ? shown : "");
    }
    return 0;
}

/* A folder of the daemon's that is made anew each time that a layer is unpacked. Drivers that are
 * not overlays tell none. */
static void take_layer(json_object *image, char ret[ENGINE_TEXT_MAX + 1])
{
    json_object *driver = json_object_object_get(image, "GraphDriver");
    const char *layer = json_get_string(json_object_object_get(driver, "Data"), "UpperDir");

    ret[0] = '\0';
    if (layer && strlen(layer) <= ENGINE_TEXT_MAX)
        strcpy(ret, layer);
}

static bool is_short(json_object *body)
{
    size_t size = 0;

    return json_text(body, &size) && size <= TOLD_MAX;
}

static int take_image(struct api *api, const char *reference, json_object *body, struct image *ret)
{
    const char *id = json_get_string(body, "Id");
    const char *digest = find_digest(body, reference), *wanted = image_reference_digest(reference);
    char prefixed[ENGINE_TEXT_MAX + 1];

    /* podman leaves the algorithm out. */
    snprintf(prefixed, sizeof(prefixed), "%s%s",
             id && strchr(id, ':') ? "" : "sha256:", id ? id : "");
    if (!digest)
        digest = prefixed;
    if (!image_digest_is_valid(prefixed) || !image_digest_is_valid(digest) || !is_short(body))
        return api_fail(
            api, -EBADMSG,
            "Docker's answer about the image '%.100s' has no id, or more to tell than is "
            "sensible. Use another image.",
            reference);
    if (wanted && strcmp(wanted, digest) != 0)
        return api_fail(api, -EPERM, "Docker has another image (%.80s) for '%.200s'.", digest,
                        reference);
    strcpy(ret->id, prefixed);
    strcpy(ret->digest, digest);
    take_layer(body, ret->layer);
    return check_volumes(api, reference, body);
}

int image_find(struct api *api, const char *reference, struct image *ret)
{
    struct http_reply reply = { 0 };

    int r = api_call(api, "GET", NULL, API_TIMEOUT_USEC, &reply, "/images/%s%s/json", reference,
                     tag_to_add(reference));
    if (r == 0 && reply.status == 200)
        r = take_image(api, reference, reply.body, ret);
    else if (r == 0 && reply.status == 404)
        r = api_fail(api, -ENOENT,
                     "The image '%.100s' is not on this machine. Get it with: sbxctl pull %.100s",
                     reference, reference);
    else if (r == 0)
        r = api_fail_refused(api, "tell about the image", api_words(&reply));
    http_reply_release(&reply);
    return r;
}

/* ---- pull */

struct layer {
    char id[16];
    uint64_t current, total;
};

struct pull {
    struct layer layers[LAYERS_MAX];
    size_t n_layers;
    char error[ENGINE_TEXT_MAX + 1];
    image_progress_fn progress;
    void *userdata;
};

static struct layer *get_layer(struct pull *pull, const char *id)
{
    for (size_t i = 0; i < pull->n_layers; i++)
        if (strcmp(pull->layers[i].id, id) == 0)
            return &pull->layers[i];
    if (pull->n_layers == LAYERS_MAX || strlen(id) >= sizeof(pull->layers[0].id))
        return NULL;
    struct layer *layer = &pull->layers[pull->n_layers++];
    strcpy(layer->id, id);
    return layer;
}

static bool report(struct pull *pull)
{
    uint64_t current = 0, total = 0;

    for (size_t i = 0; i < pull->n_layers; i++) {
        current += pull->layers[i].current;
        total += pull->layers[i].total;
    }
    return pull->progress(current, total, pull->userdata);
}

static uint64_t get_bytes(json_object *detail, const char *key)
{
    int64_t n = json_object_get_int64(json_object_object_get(detail, key));

    /* Nobody's layer has a petabyte, and a sum of them does not overflow. */
    return n > 0 && n < INT64_C(1) << 50 ? (uint64_t)n : 0;
}

/* Of the phases of a layer the download is what takes long, and what has a size. */
static void take_progress(struct pull *pull, json_object *line)
{
    const char *id = json_get_string(line, "id"), *status = json_get_string(line, "status");
    json_object *detail = json_object_object_get(line, "progressDetail");
    struct layer *layer = id && status ? get_layer(pull, id) : NULL;

    if (!layer)
        return;
    if (strcmp(status, "Downloading") == 0) {
        layer->current = get_bytes(detail, "current");
        uint64_t total = get_bytes(detail, "total");
        layer->total = total > layer->current ? total : layer->current;
    } else if (strcmp(status, "Download complete") == 0 || strcmp(status, "Pull complete") == 0) {
        layer->current = layer->total;
    }
}

static int on_line(json_object *line, void *userdata)
{
    struct pull *pull = userdata;
    const char *error = json_get_string(line, "error");

    if (error) {
        snprintf(pull->error, sizeof(pull->error), "%s", error);
        return 0;
    }
    take_progress(pull, line);
    return report(pull) ? 0 : -ECANCELED;
}

static bool on_second(void *userdata)
{
    return !report(userdata);
}

static int fail_pull(struct api *api, const char *reference, bool newest, const char *words)
{
    if (strstr(words, "no space left on device"))
        return api_fail_refused(api, "pull the image", words);
    _cleanup_free_ char *shown = escape_text(words, strlen(words), 200);
    return api_fail(api, -EREMOTEIO,
                    "The image '%.60s' %scould not be pulled: %s. When the registry has it: "
                    "sbxctl pull %.60s",
                    reference, newest ? "" : "is not on this machine and ", shown ? shown : "",
                    reference);
}

int image_pull(struct api *api, const char *reference, bool newest, uint64_t timeout_usec,
               image_progress_fn progress, void *userdata)
{
    _cleanup_free_ struct pull *pull = calloc(1, sizeof(*pull));
    struct http_reply reply = { 0 };

    if (!pull)
        return api_fail(api, -ENOMEM, "The engine is out of memory.");
    pull->progress = progress;
    pull->userdata = userdata;
    const struct http_stream stream = { on_line, on_second, pull };
    int r = api_stream(api, "POST", timeout_usec, &stream, &reply, "/images/create?fromImage=%s%s",
                       reference, tag_to_add(reference));
    if (r == -ETIMEDOUT)
        r = api_fail(api, r,
                     "The image '%.100s' could not be pulled in %u s (PullTimeout=). Layers that "
                     "are complete are kept; go on with: sbxctl pull %.100s",
                     reference, (unsigned)(timeout_usec / 1000000), reference);
    else if (r == 0 && reply.status != 200)
        r = fail_pull(api, reference, newest, api_words(&reply));
    else if (r == 0 && pull->error[0])
        r = fail_pull(api, reference, newest, pull->error);
    http_reply_release(&reply);
    return r;
}
