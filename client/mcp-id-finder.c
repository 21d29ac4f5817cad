/* The id of what may be no JSON, see mcp-message.h: a line that is too long to be kept, or that the
 * guard refuses. Looks at the members of the outermost object only. */
#include <stdio.h>
#include <string.h>

#include "client/mcp-message.h"

static void keep(struct mcp_id_finder *finder, char c)
{
    if (finder->n < sizeof(finder->text))
        finder->text[finder->n++] = c;
}

static bool text_is(const struct mcp_id_finder *finder, const char *text)
{
    return finder->n == strlen(text) && memcmp(finder->text, text, finder->n) == 0;
}

static void end_value(struct mcp_id_finder *finder)
{
    if (!finder->is_value)
        return;
    finder->is_value = false;
    finder->is_ambiguous =
        finder->is_ambiguous || finder->found || finder->n >= sizeof(finder->text);
    finder->found = true;
    if (finder->is_ambiguous)
        return;
    memcpy(finder->found_text, finder->text, finder->n);
    finder->found_text[finder->n] = '\0';
}

static void take_in_string(struct mcp_id_finder *finder, char c)
{
    if (finder->is_key || finder->is_value)
        keep(finder, c);
    if (finder->is_escaped)
        finder->is_escaped = false;
    else if (c == '\\')
        finder->is_escaped = true;
    else if (c == '"')
        finder->in_string = false;
}

static void take_outside(struct mcp_id_finder *finder, char c)
{
    bool outermost = finder->depth == 1;

    if (c == '"') {
        finder->in_string = true;
        if (outermost && !finder->is_value) {
            finder->is_key = true;
            finder->n = 0;
        }
    } else if (outermost && (c == ',' || c == '}')) {
        end_value(finder);
        finder->is_key = false;
    } else if (outermost && c == ':' && finder->is_key) {
        finder->is_key = false;
        finder->is_value = text_is(finder, "\"id\"");
        finder->n = 0;
        return;
    }
    if (finder->is_value || (finder->is_key && c == '"'))
        keep(finder, c);
    if (c == '{' || c == '[')
        finder->depth++;
    else if ((c == '}' || c == ']') && finder->depth > 0)
        finder->depth--;
}

void mcp_id_finder_feed(struct mcp_id_finder *finder, const char *data, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (finder->in_string)
            take_in_string(finder, data[i]);
        else
            take_outside(finder, data[i]);
}

json_object *mcp_id_finder_id(const struct mcp_id_finder *finder)
{
    _cleanup_json_ json_object *object = NULL;
    char text[MCP_ID_MAX + 16];
    json_object *id;

    if (!finder->found || finder->is_ambiguous)
        return NULL;
    int n = snprintf(text, sizeof(text), "{\"id\":%s}", finder->found_text);
    if (json_parse_guarded(text, (size_t)n, &object) < 0 ||
        !json_object_object_get_ex(object, "id", &id) ||
        !(json_object_is_type(id, json_type_string) || json_object_is_type(id, json_type_int)))
        return NULL;
    return json_object_get(id);
}
