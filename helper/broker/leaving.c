/* Files that leave this machine, see leaving.h. */
#include "broker/leaving.h"
#include "broker/authorize.h"
#include "common/quantity.h"

#include <stdio.h>
#include <string.h>

/* Of names and sizes; what is longer begins with a line of its own. */
#define LIST_MAX 600
#define ITEM_MAX 200

static void describe(const char *name, uint64_t bytes, char item[ITEM_MAX])
{
    _cleanup_free_ char *shown = authorize_plain_name(name);
    char size[QUANTITY_TEXT];

    snprintf(item, ITEM_MAX, "%s (%s)", shown ? shown : "?", format_bytes(bytes, size));
}

static void describe_file(const struct request *request, size_t i, char item[ITEM_MAX])
{
    if (i == 0)
        describe(request->script_name, request->script_bytes, item);
    else
        describe(request->inputs[i - 1].name, request->inputs[i - 1].size, item);
}

/* As many as fit; returns how many those are. */
static size_t list(const struct request *request, size_t n, char *buffer, size_t size)
{
    size_t used = 0, i;
    char item[ITEM_MAX];

    buffer[0] = '\0';
    for (i = 0; i < n; i++) {
        describe_file(request, i, item);
        if (used + strlen(item) + 3 > size)
            break;
        used += (size_t)snprintf(buffer + used, size - used, "%s%s", i > 0 ? ", " : "", item);
    }
    return i;
}

/* Of descriptors nobody knows what will come. */
static const char *input_text(const struct request *request)
{
    return request->stdin_memfd >= 0 || request->streams == STREAMS_DESCRIPTORS ? ", standard input"
                                                                                : "";
}

const char *leaving_text(const struct request *request, const struct plan *plan,
                         char buffer[LEAVING_TEXT])
{
    char text[LIST_MAX], all[QUANTITY_TEXT];
    uint64_t bytes;

    if (!plan->cloud)
        return "nothing";
    if (!request)
        return "any files";
    size_t n = request->n_inputs + 1, listed = list(request, n, text, sizeof(text));
    bytes = request->script_bytes;
    for (size_t i = 0; i < request->n_inputs; i++)
        bytes += request->inputs[i].size;
    if (listed == n)
        snprintf(buffer, LEAVING_TEXT, "%s%s", text, input_text(request));
    else
        snprintf(buffer, LEAVING_TEXT, "%zu files, %s: %s, and %zu more%s", n,
                 format_bytes(bytes, all), text, n - listed, input_text(request));
    return buffer;
}
