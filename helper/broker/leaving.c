/* Files that leave this machine, see leaving.h. */
#include "broker/leaving.h"
#include "broker/authorize.h"
#include "common/quantity.h"

#include <stdio.h>
#include <string.h>

/* Of names and sizes; what is longer begins with a line of its own. */
#define LIST_MAX 600
#define ITEM_MAX 200
#define REST_MAX 300

/* Nobody can write a name that looks like two, or like a size. */
static char *plain_name(const char *name)
{
    char *shown = authorize_plain_name(name);

    for (char *p = shown; p && *p; p++)
        if (strchr(",()", *p))
            *p = '_';
    return shown;
}

static uint64_t size_of(const struct request *request, size_t i)
{
    return i == 0 ? request->script_bytes : request->inputs[i - 1].size;
}

static const char *name_of(const struct request *request, size_t i)
{
    return i == 0 ? request->script_name : request->inputs[i - 1].name;
}

static void describe_file(const struct request *request, size_t i, char item[ITEM_MAX])
{
    _cleanup_free_ char *shown = plain_name(name_of(request, i));
    char size[QUANTITY_TEXT];

    snprintf(item, ITEM_MAX, "%s (%s)", shown ? shown : "?",
             format_bytes(size_of(request, i), size));
}

static int compare(const void *a, const void *b, void *userdata)
{
    size_t i = *(const size_t *)a, k = *(const size_t *)b;
    uint64_t first = size_of(userdata, i), second = size_of(userdata, k);

    return first < second   ? 1
           : first > second ? -1
                            : strcmp(name_of(userdata, i), name_of(userdata, k));
}

/* The largest first, as many as fit; returns how many those are. */
static size_t list(const struct request *request, size_t n, char *buffer, size_t size)
{
    _cleanup_free_ size_t *order = calloc(n, sizeof(*order));
    size_t used = 0, i;
    char item[ITEM_MAX];

    buffer[0] = '\0';
    for (i = 0; order && i < n; i++)
        order[i] = i;
    if (order)
        qsort_r(order, n, sizeof(*order), compare, (void *)request);
    for (i = 0; i < n; i++) {
        describe_file(request, order ? order[i] : i, item);
        if (used + strlen(item) + 3 > size)
            break;
        used += (size_t)snprintf(buffer + used, size - used, "%s%s", i > 0 ? ", " : "", item);
    }
    return i;
}

bool leaving_has_input(const struct request *request)
{
    return request->stdin_memfd >= 0 || request->streams == STREAMS_DESCRIPTORS;
}

/* ", variables A, B": as many as fit. */
static void add_variables(const struct request *request, char *buffer, size_t size)
{
    size_t used = 0, i;

    for (i = 0; i < request->n_environment; i++) {
        size_t length = strcspn(request->environment[i], "=");
        _cleanup_free_ char *name = strndup(request->environment[i], length);
        _cleanup_free_ char *shown = name ? plain_name(name) : NULL;
        if (used + (shown ? strlen(shown) : 1) + 40 > size)
            break;
        used += (size_t)snprintf(buffer + used, size - used, ", %s%s", i == 0 ? "variables " : "",
                                 shown ? shown : "?");
    }
    if (i < request->n_environment)
        snprintf(buffer + used, size - used, " and %zu more", request->n_environment - i);
}

/* What is no file. Of descriptors nobody knows what will come. */
static const char *rest_text(const struct request *request, char buffer[REST_MAX])
{
    size_t n = request->n_arguments;
    int used =
        snprintf(buffer, REST_MAX, "%s", leaving_has_input(request) ? ", standard input" : "");

    if (n > 0)
        used += snprintf(buffer + used, REST_MAX - (size_t)used, ", %zu argument%s", n,
                         n == 1 ? "" : "s");
    add_variables(request, buffer + used, REST_MAX - (size_t)used);
    return buffer;
}

const char *leaving_text(const struct request *request, const struct plan *plan,
                         char buffer[LEAVING_TEXT])
{
    char text[LIST_MAX], rest[REST_MAX], all[QUANTITY_TEXT];
    uint64_t bytes = 0;

    if (!plan->cloud)
        return "nothing";
    if (!request)
        return "any files";
    size_t n = request->n_inputs + 1, listed = list(request, n, text, sizeof(text));
    for (size_t i = 0; i < n; i++)
        bytes += size_of(request, i);
    rest_text(request, rest);
    if (listed == n)
        snprintf(buffer, LEAVING_TEXT, "%s%s", text, rest);
    else
        snprintf(buffer, LEAVING_TEXT, "%zu files, %s: %s, and %zu more%s", n,
                 format_bytes(bytes, all), text, n - listed, rest);
    return buffer;
}
