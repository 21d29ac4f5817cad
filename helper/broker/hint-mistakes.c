/* Hints about what a script has to do otherwise. */
#include "broker/hint-internal.h"
#include "common/cleanup.h"
#include "common/escape.h"

#include <stdio.h>
#include <string.h>

static bool is_variable_name(const char *name)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";

    return strlen(name) >= 2 && strlen(name) <= 60 && name[strspn(name, letters)] == '\0' &&
           !(name[0] >= '0' && name[0] <= '9');
}

bool hint_variable(const struct hint_case *c)
{
    bool is_key = c->row->type && strcmp(c->row->type, "KeyError") == 0;

    if (!is_variable_name(c->name))
        return false;
    /* os.environ[...], and no other mapping. */
    if (is_key && !hint_span_has(c->complaint->trace, "<frozen os>") &&
        !hint_span_has(c->complaint->trace, "/os.py\""))
        return false;
    return hint_say(c,
                    "The variable %s is not set inside: --env %s gives the script yours, --env "
                    "%s=VALUE another.",
                    c->name, c->name, c->name);
}

bool hint_unicode(const struct hint_case *c)
{
    struct span text = c->complaint->text;

    if (hint_span_has(text, "byte 0x8b in position 1:"))
        return hint_say(c, "The data are compressed by gzip: read them with gzip.open(), or with "
                           "compression='gzip'.");
    if (hint_span_has(text, "byte 0xff in position 0:") ||
        hint_span_has(text, "byte 0xfe in position 0:"))
        return hint_say(c, "The text is in UTF-16: read it with encoding='utf-16'.");
    if (hint_span_has(text, "byte 0x89 in position 0:") ||
        hint_span_has(text, "byte 0xd0 in position 0:"))
        return hint_say(c,
                        "That is no text: open the file as bytes, with mode 'rb', or by a library "
                        "for its format.");
    if (hint_span_has(text, "'ascii' codec"))
        return hint_say(c, "The text is not ASCII: read it with encoding='utf-8'.");
    return hint_span_has(text, "'utf-8' codec") &&
           hint_say(
               c, "The text is not in UTF-8: read it with encoding='cp1252' or encoding='latin-1', "
                  "which most other Western text is in.");
}

/* "  File "/workspace/x.py", line 3", the last one before the error. */
static bool find_line(struct span trace, const char *before, const char *after, char name[81],
                      unsigned *ret)
{
    const char *end = trace.at + trace.size, *found = NULL;

    for (const char *at = trace.at; (at = hint_find_bytes(at, end, before, strlen(before))); at++)
        found = at + strlen(before);
    if (!found)
        return false;
    const char *stop = hint_find_bytes(found, end, after, strlen(after));
    if (!stop || stop - found > 80 || stop == found)
        return false;
    snprintf(name, 81, "%.*s", (int)(stop - found), found);
    *ret = 0;
    for (const char *p = stop + strlen(after); p < end && *p >= '0' && *p <= '9' && *ret < 1000000;
         p++)
        *ret = *ret * 10 + (unsigned)(*p - '0');
    return *ret > 0;
}

bool hint_python_syntax(const struct hint_case *c)
{
    struct span text = c->complaint->text, trace = c->complaint->trace;
    char name[81];
    unsigned line;

    if (!find_line(trace, "  File \"", "\", line ", name, &line) ||
        strncmp(name, "/workspace/", 11) != 0)
        return false;
    _cleanup_free_ char *shown = escape_text(name + 11, strlen(name + 11), 60);
    if (hint_span_has(trace, "\n    ```"))
        return hint_say(c, "Line %u of %s is a mark of Markdown: leave out the lines with ```.",
                        line, shown ? shown : "it");
    if (hint_span_has(text, "Missing parentheses in call to 'print'") ||
        hint_span_has(text, "Missing parentheses in call to 'exec'"))
        return hint_say(c, "Line %u of %s is written for Python 2, and this is Python 3.", line,
                        shown ? shown : "it");
    return hint_say(c, "Python cannot read line %u of %s, so nothing of it was run.", line,
                    shown ? shown : "it");
}

bool hint_node_syntax(const struct hint_case *c)
{
    static const char *const loaders[] = { "wrapSafe", "internalCompileFunction",
                                           "compileSourceTextModule", "makeContextifyScript" };
    bool is_loading = false;
    char name[81];
    unsigned line;

    /* Not what JSON.parse() or new Function() could not read. */
    for (size_t i = 0; i < ELEMENTS(loaders); i++)
        is_loading = is_loading || hint_span_has(c->complaint->text, loaders[i]);
    if (!is_loading || hint_span_has(c->complaint->text, "JSON.parse") ||
        !find_line(c->complaint->trace, "/workspace/", ":", name, &line))
        return false;
    _cleanup_free_ char *shown = escape_text(name, strlen(name), 60);
    return hint_say(c, "Node cannot read line %u of %s, so nothing of it was run.", line,
                    shown ? shown : "it");
}

/* "/workspace/x.sh: 3: Syntax error: …", or with "line 3" from bash. */
bool hint_shell_syntax(const struct hint_case *c)
{
    char name[81];
    unsigned line;

    if (!find_line(c->complaint->text, "/workspace/", ": line ", name, &line) &&
        !find_line(c->complaint->text, "/workspace/", ": ", name, &line))
        return false;
    _cleanup_free_ char *shown = escape_text(name, strlen(name), 60);
    return hint_say(
        c, "The shell cannot read line %u of %s%s", line, shown ? shown : "it",
        hint_is_language(c->facts, "shell") ? "; if it is written for bash: --language bash" : ".");
}
