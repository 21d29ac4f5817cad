/* The files of a request, its script and its inputs, each a memfd that nobody changes any more.
 * Called by request.c. */
#include "broker/request-internal.h"
#include "common/escape.h"
#include "common/file.h"
#include "common/memfd.h"
#include "launch/protocol.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

struct raw_input {
    const char *name, *content, *base64;
    uint64_t fd;
};

static const struct json_field input_fields[] = {
    { "name", JSON_FIELD_STRING, offsetof(struct raw_input, name), true, 0, LAUNCH_NAME_MAX - 1 },
    { "content", JSON_FIELD_STRING, offsetof(struct raw_input, content), false, 0, 0 },
    { "contentBase64", JSON_FIELD_STRING, offsetof(struct raw_input, base64), false, 0, 0 },
    { "fd", JSON_FIELD_UINT64, offsetof(struct raw_input, fd), false, 0, VARLINK_FDS_MAX },
};

/* The script is read by us (hash, first line), so it must be a memfd that cannot change or block.
 */
int request_parse_script(struct varlink_call *call, const struct request_raw *raw,
                         struct request *request, struct request_error *error)
{
    struct stat st;

    if (!raw->script == (raw->script_fd == UINT64_MAX))
        return request_refuse(error, "script", "Give either script or scriptFd.");
    if (raw->script) {
        request->script = memfd_with("sbxctl", raw->script, strlen(raw->script));
        if (request->script < 0)
            return request->script;
    } else {
        request->script = varlink_call_take_memfd(call, raw->script_fd);
        if (request->script == -EPERM)
            return request_refuse(error, "scriptFd",
                                  "The script's descriptor must be a sealed memfd.");
        if (request->script < 0)
            return request_refuse(error, "scriptFd", "");
    }
    if (fstat(request->script, &st) < 0)
        return -errno;
    request->script_bytes = (uint64_t)st.st_size;

    const char *name = raw->script_name ? raw->script_name : "script";
    if (!path_is_plain(name) || strchr(name, '/'))
        return request_refuse(error, "scriptName", "The script's name must be a plain file name.");
    request->script_name = strdup(name);
    return request->script_name ? 0 : -ENOMEM;
}

/* EVP_DecodeBlock() skips white space and does not look where the padding stands. */
static bool is_base64(const char *text, size_t length, size_t *ret_padding)
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

    *ret_padding = length - strspn(text, letters);
    return length % 4 == 0 && *ret_padding <= 2 &&
           strspn(text + length - *ret_padding, "=") == *ret_padding;
}

static int decode_base64(const char *text, int *ret_fd, uint64_t *ret_size)
{
    size_t length = strlen(text), padding;
    _cleanup_free_ unsigned char *bytes = malloc(length / 4 * 3 + 1);
    int n = 0;

    if (!bytes)
        return -ENOMEM;
    if (!is_base64(text, length, &padding))
        return -EINVAL;
    if (length > 0)
        n = EVP_DecodeBlock(bytes, (const unsigned char *)text, (int)length);
    if (n < 0)
        return -EINVAL;
    *ret_size = (uint64_t)n - padding;
    *ret_fd = memfd_with("sbxctl", bytes, *ret_size);
    return *ret_fd < 0 ? *ret_fd : 0;
}

static int parse_input(struct varlink_call *call, json_object *object, struct request_input *input,
                       struct request_error *error)
{
    struct raw_input raw = { .fd = UINT64_MAX };
    const char *bad;
    int r;

    if (!json_object_is_type(object, json_type_object) ||
        json_dispatch(object, input_fields, ELEMENTS(input_fields), false, &raw, &bad) < 0)
        return request_refuse(error, "inputs", "");
    if (!!raw.content + !!raw.base64 + (raw.fd != UINT64_MAX) != 1)
        return request_refuse(error, "inputs", "An input has exactly one content.");
    if (!path_is_plain(raw.name))
        return request_refuse_name(error, "inputs",
                                   "The input '%s' needs a relative path without '..' as its name.",
                                   raw.name);
    input->name = strdup(raw.name);
    if (!input->name)
        return -ENOMEM;
    if (raw.content) {
        input->size = strlen(raw.content);
        input->fd = memfd_with("sbxctl", raw.content, input->size);
        return input->fd < 0 ? input->fd : 0;
    }
    if (raw.base64) {
        r = decode_base64(raw.base64, &input->fd, &input->size);
        return r == -EINVAL ? request_refuse(error, "inputs", "contentBase64 is not base64.") : r;
    }
    input->fd = varlink_call_take_memfd(call, raw.fd);
    if (input->fd == -EPERM)
        return request_refuse_name(error, "inputs",
                                   "The descriptor of '%s' must be a sealed memfd.", raw.name);
    if (input->fd < 0)
        return request_refuse(error, "inputs", "");
    struct stat st;
    if (fstat(input->fd, &st) < 0)
        return -errno;
    input->size = (uint64_t)st.st_size;
    return 0;
}

int request_parse_inputs(struct varlink_call *call, json_object *array, struct request *request,
                         struct request_error *error)
{
    size_t n = array ? json_object_array_length(array) : 0;
    int r;

    if (n > VARLINK_FDS_MAX)
        return request_refuse(error, "inputs", "Too many inputs.");
    request->inputs = calloc(n + 1, sizeof(struct request_input));
    if (!request->inputs)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++) {
        request->inputs[i].fd = -1;
        request->n_inputs = i + 1;
        r = parse_input(call, json_object_array_get_idx(array, i), &request->inputs[i], error);
        if (r < 0)
            return r;
        bool taken = strcmp(request->inputs[i].name, request->script_name) == 0;
        for (size_t j = 0; j < i && !taken; j++)
            taken = strcmp(request->inputs[i].name, request->inputs[j].name) == 0;
        if (taken)
            return request_refuse_name(error, "inputs", "Two files of the run have the name '%s'.",
                                       request->inputs[i].name);
    }
    return 0;
}
