/* See settings-toml.h. Looks at lines, and rather sees a table where there is none (in a string,
 * say) than none where there is one. */
#include "client/settings-toml.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"

#define KEY_MAX 256

/* The line's beginning without spaces and quotes: how a key or a header is written does not
 * matter then. */
static void plain_line(const char *line, size_t size, char plain[KEY_MAX])
{
    size_t n = 0;

    for (size_t i = 0; i < size && n < KEY_MAX - 1; i++)
        if (!strchr(" \t\r\"'", line[i]))
            plain[n++] = line[i];
    plain[n] = '\0';
}

static bool begins(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

static bool sets(const char *plain, const char *key)
{
    size_t n = strlen(key);
    return begins(plain, key) && (plain[n] == '=' || plain[n] == '.');
}

/* Whether the line may be about the table or its group, so that no header can be added. Keeps in
 * @in_group whether it stands below the group's own header. */
static bool is_in_the_way(const char *plain, const char *group, const char *name, bool *in_group)
{
    size_t n = strlen(group), m = strlen(name);

    if (sets(plain, group) || (*in_group && sets(plain, name)))
        return true;
    if (*plain != '[')
        return false;
    *in_group = plain[1] != '[' && begins(plain + 1, group) && plain[1 + n] == ']';
    plain += strspn(plain, "[");
    if (!begins(plain, group) || plain[n] != '.')
        return false;
    plain += n + 1;
    return begins(plain, name) && (plain[m] == ']' || plain[m] == '.');
}

int settings_toml_add(const char *text, size_t size, const char *group, const char *name,
                      const char *body, char **ret)
{
    _cleanup_free_ char *table = NULL;
    const char *newline = memmem(text, size, "\r\n", 2) ? "\r\n" : "\n";

    if (memchr(text, '\0', size))
        return -EBADMSG;
    if (asprintf(&table, "[%s.%s]\n%s", group, name, body) < 0) {
        table = NULL;
        return -ENOMEM;
    }
    if (memmem(text, size, table, strlen(table)))
        return 0;
    bool in_group = false;
    for (const char *line = text, *end = text + size; line < end;) {
        const char *next = memchr(line, '\n', (size_t)(end - line));
        size_t length = (size_t)((next ? next : end) - line);
        char plain[KEY_MAX];

        plain_line(line, length, plain);
        if (is_in_the_way(plain, group, name, &in_group))
            return -EEXIST;
        line += length + 1;
    }
    const char *gap = size == 0 ? "" : text[size - 1] == '\n' ? newline : "\n\n";
    return asprintf(ret, "%.*s%s%s", (int)size, text, gap, table) < 0 ? -ENOMEM : 1;
}
