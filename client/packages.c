/* See packages.h. Of pip's file format (pip.pypa.io, "Requirements File Format") there are
 * comments, lines that go on after a backslash, and --hash; other options mean something to pip
 * alone. */
#include "client/packages.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/exit-status.h"
#include "client/say.h"
#include "common/cleanup.h"
#include "common/escape.h"
#include "common/json.h"

#define FILE_MAX (1024 * 1024)
#define SPACE " \t\r\f\v"

static void fclosep(FILE **file)
{
    if (*file)
        fclose(*file);
}

static int add(json_object *array, const char *text)
{
    if (!utf8_is_valid(text)) {
        _cleanup_free_ char *shown = displayed(text);
        return say_failure(EXIT_OURS, "Failed", NULL, "the package '%s' is not valid UTF-8", shown);
    }
    return json_append(array, json_object_new_string(text)) < 0
               ? say_failure_errno(-ENOMEM, "cannot name the packages")
               : 0;
}

/* A comment begins at a "#" with nothing or a space before it: one may be part of a URL. */
static void cut_comment(char *line)
{
    for (char *at = line; (at = strchr(at, '#')); at++)
        if (at == line || strchr(SPACE, at[-1])) {
            *at = '\0';
            return;
        }
}

static char *trim(char *line)
{
    line += strspn(line, SPACE);
    size_t n = strlen(line);
    while (n > 0 && strchr(SPACE, line[n - 1]))
        n--;
    line[n] = '\0';
    return line;
}

static int take_line(json_object *array, const char *path, unsigned number, char *text)
{
    cut_comment(text);
    char *line = trim(text);
    if (*line == '\0')
        return 0;
    if (*line != '-')
        return add(array, line);
    _cleanup_free_ char *shown = displayed(line), *name = displayed(path);
    return say_failure(EXIT_OURS, "Failed",
                       "take it out: packages come from the administrator's index only",
                       "%s, line %u: the option '%.40s' cannot be used here", name, number, shown);
}

/* Puts lines together that end in a backslash; @at moves behind them. */
static char *next_line(char **at, unsigned *number)
{
    char *line = *at, *to = line;

    if (!*line)
        return NULL;
    for (char *from = line; *from;) {
        size_t n = strcspn(from, "\n"), kept = n;
        if (kept > 0 && from[kept - 1] == '\r')
            kept--;
        bool goes_on = kept > 0 && from[kept - 1] == '\\';
        memmove(to, from, kept - goes_on);
        to += kept - goes_on;
        from += n + (from[n] == '\n');
        *at = from;
        ++*number;
        if (!goes_on)
            break;
    }
    /* At most where the last line end was. */
    if (to < *at)
        *to = '\0';
    return line;
}

static int add_file(json_object *array, const char *path)
{
    _cleanup_(fclosep) FILE *file = fopen(path, "re");
    _cleanup_free_ char *text = malloc(FILE_MAX + 1), *name = displayed(path);
    unsigned number = 0, first = 1;
    int r = 0;

    if (!file)
        return say_failure(EXIT_OURS, "Failed", "--with -r takes the path of a requirements.txt",
                           "cannot read %s: %s", name, strerror(errno));
    if (!text)
        return say_failure_errno(-ENOMEM, "cannot name the packages");
    size_t n = fread(text, 1, FILE_MAX, file);
    if (ferror(file) || n == FILE_MAX)
        return say_failure(EXIT_OURS, "Failed", NULL, "cannot read %s: %s", name,
                           n == FILE_MAX ? "it is too large" : strerror(errno));
    text[n] = '\0';
    /* UTF-16, for one, which would end in the middle of the first word. */
    if (strlen(text) < n)
        return say_failure(EXIT_OURS, "Failed", NULL, "cannot read %s: it is no text in UTF-8",
                           name);
    for (char *at = text, *line; r == 0 && (line = next_line(&at, &number)); first = number + 1)
        r = take_line(array, path, first, line);
    return r;
}

int packages_add(json_object *array, const struct package_wish *wishes, size_t n)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < n; i++)
        r = wishes[i].is_file ? add_file(array, wishes[i].text) : add(array, wishes[i].text);
    return r;
}
