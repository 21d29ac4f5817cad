/* See mcp-read-output.h. The run is looked up first: an image is read whole, from where the helper
 * keeps it. */
#include "client/mcp-read-output.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "client/exit-status.h"
#include "client/mcp-arguments.h"
#include "client/mcp-query.h"
#include "client/mcp-result.h"
#include "client/runs.h"
#include "client/say.h"
#include "common/base64.h"
#include "common/escape.h"

#define LENGTH_DEFAULT (64 * 1024)
/* What method Read gives at once. */
#define LENGTH_MAX (512 * 1024)

static json_object *new_structured(struct mcp_call *call, uint64_t bytes)
{
    json_object *structured = json_object_new_object();

    (void)json_add_string(structured, "id", json_get_string(call->arguments, "id"));
    (void)json_add_string(structured, "name", json_get_string(call->arguments, "name"));
    (void)json_add_uint64(structured, "bytes", bytes);
    return structured;
}

/* ---- Images ---- */

static json_object *find_file(json_object *result, const char *name)
{
    json_object *files = json_object_object_get(result, "files");
    size_t n = json_object_is_type(files, json_type_array) ? json_object_array_length(files) : 0;

    for (size_t i = 0; i < n; i++) {
        json_object *file = json_object_array_get_idx(files, i);
        const char *known = json_get_string(file, "name");
        if (known && strcmp(known, name) == 0)
            return file;
    }
    return NULL;
}

static bool is_image(json_object *file)
{
    const char *type = json_get_string(file, "type");
    return type && strncmp(type, "image/", 6) == 0 && strcmp(type, "image/svg+xml") != 0;
}

static void reply_with_image(struct mcp_call *call, json_object *file)
{
    json_object *bytes = json_object_object_get(file, "bytes"), *result;
    json_object *structured = new_structured(call, (uint64_t)json_object_get_int64(bytes));
    const char *path = json_get_string(file, "path");
    _cleanup_free_ char *text = NULL, *shown = displayed(path ? path : "");
    size_t left = MCP_IMAGES_MAX;

    (void)json_add_string(structured, "type", json_get_string(file, "type"));
    (void)json_add_string(structured, "path", path);
    if (asprintf(&text, "The image is %s.", shown) < 0)
        text = NULL;
    result = mcp_result_new(structured, text ? text : "An image.");
    if (result)
        (void)mcp_result_add_file(result, file, call->knows_links, &left);
    mcp_call_reply(call, result);
}

/* ---- Everything else ---- */

static int add_part(json_object *result, json_object *structured, struct mcp_call *call,
                    const char *data, size_t size)
{
    const char *name = json_get_string(call->arguments, "name");
    _cleanup_free_ char *text = strndup(data, size), *shown = displayed(name), *what = NULL;
    _cleanup_free_ char *base64 = NULL;

    if (!text)
        return -ENOMEM;
    if (asprintf(&what, "%zu bytes of %.200s from byte %" PRIu64 " on", size, shown, call->offset) <
        0) {
        what = NULL;
        return -ENOMEM;
    }
    if (strlen(text) == size && utf8_is_valid(text)) {
        (void)json_add_string(structured, "text", text);
        return mcp_result_add_untrusted(result, what, text);
    }
    base64 = base64_encode(data, size, NULL);
    (void)json_add_string(structured, "dataBase64", base64);
    return mcp_result_add_text(result, "It is not text; the structured content has it in base64.");
}

size_t mcp_whole_characters(const char *data, size_t size, bool is_end)
{
    size_t n = size;

    for (int i = 0; !is_end && i < 3 && n > 0 && ((unsigned char)data[n - 1] & 0xc0) == 0x80; i++)
        n--;
    if (is_end || n == 0 || !((unsigned char)data[n - 1] & 0x80))
        return size;
    return n == 1 || utf8_sequence(data + n - 1, size - n + 1, NULL) > 0 ? size : n - 1;
}

static void on_read(struct mcp_call *call, json_object *parameters)
{
    const char *data = json_get_string(parameters, "data");
    json_object *total = json_object_object_get(parameters, "bytes"), *structured;
    _cleanup_free_ char *bytes = strdup(data ? data : ""), *text = NULL;
    _cleanup_json_ json_object *result = NULL;
    uint64_t whole = (uint64_t)json_object_get_int64(total), next;
    size_t size = 0;

    if (!bytes || base64_decode(bytes, strlen(bytes), &size) < 0) {
        mcp_call_reply(call, NULL);
        return;
    }
    size = mcp_whole_characters(bytes, size, call->offset + size >= whole);
    next = call->offset + size;
    structured = new_structured(call, whole);
    (void)json_add_uint64(structured, "offset", call->offset);
    if (next < whole)
        (void)json_add_uint64(structured, "nextOffset", next);
    if (asprintf(&text,
                 next < whole ? "There are %" PRIu64 " bytes; the next part begins at %" PRIu64
                              : "There are %" PRIu64 " bytes; that is the end.",
                 whole, next) < 0) {
        text = NULL;
        json_object_put(structured);
        mcp_call_reply(call, NULL);
        return;
    }
    result = mcp_result_new(json_object_get(structured), text);
    int r = add_part(result, structured, call, bytes, size);
    json_object_put(structured);
    mcp_call_reply(call, r < 0 ? NULL : TAKE_PTR(result));
}

static void on_described(struct mcp_call *call, json_object *parameters)
{
    const char *name = json_get_string(call->arguments, "name");
    json_object *file = find_file(json_object_object_get(parameters, "result"), name), *read;

    if (file && is_image(file)) {
        reply_with_image(call, file);
        return;
    }
    read = runs_parameters(json_get_string(call->arguments, "id"));
    (void)json_add_string(read, "name", name);
    (void)json_add_uint64(read, "offset", call->offset);
    (void)json_add_uint64(read, "length", call->length);
    mcp_query(call, "Read", read, on_read);
}

void mcp_read_output(struct mcp_call *call)
{
    static const char *const names[] = { "id", "name", "offset", "length", NULL };
    const char *id = NULL, *name = NULL;

    call->length = LENGTH_DEFAULT;
    int r = mcp_arguments_check(call->arguments, names);
    if (r == 0)
        r = mcp_argument_string(call->arguments, "id", &id);
    if (r == 0)
        r = mcp_argument_string(call->arguments, "name", &name);
    if (r == 0)
        r = mcp_argument_number(call->arguments, "offset", 0, (uint64_t)1 << 50, &call->offset);
    if (r == 0)
        r = mcp_argument_number(call->arguments, "length", 1, LENGTH_MAX, &call->length);
    if (r == 0 && (!id || !name))
        r = say_failure(EXIT_USAGE, "Invalid",
                        "list_runs has the ids of your runs, and get_run the files",
                        "the argument %s is missing", id ? "name" : "id");
    if (r != 0)
        mcp_query_fail(call);
    else
        mcp_query(call, "Describe", runs_parameters(id), on_described);
}
