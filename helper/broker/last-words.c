/* Taking the end of a program's stderr apart, see last-words.h. What was said after an exception is
 * counted: what a program logged and got over explains nothing. */
#include "broker/last-words.h"
#include "common/cleanup.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Of exceptions that stand in the text, the last ones; more in a chain are not looked at. */
#define FOUND_MAX 16
#define AFTER_MAX 4 /* lines after an exception that can be its message all the same */
#define NEAR 2000   /* bytes from the place of an error to the error */
#define LINES_MAX 8 /* of the end, that can be complaints by themselves */

/* How an exception is tied to the one before it. */
enum link { LINK_NONE, LINK_CAUSE, LINK_CONTEXT };

struct found {
    struct complaint complaint;
    enum link link;
};

struct scan {
    const char *end;
    struct found found[FOUND_MAX];
    size_t n;
    const char *trace;    /* begin of the traceback that is being read, or NULL */
    const char *location; /* of the last line like  File "x.py", line 3  or  /workspace/x.js:3  */
    bool is_group;        /* the traceback has a border */
    enum link link;       /* to the next traceback */
    size_t after;         /* lines that came after the last one, and may not be its own text */
};

static bool begins(struct span line, const char *with)
{
    size_t n = strlen(with);
    return line.size >= n && memcmp(line.at, with, n) == 0;
}

static bool ends(struct span line, const char *with)
{
    size_t n = strlen(with);
    return line.size >= n && memcmp(line.at + line.size - n, with, n) == 0;
}

/* Takes a line off the front of @rest, without its end. */
static struct span next_line(struct span *rest)
{
    const char *newline = memchr(rest->at, '\n', rest->size);
    struct span line = { rest->at, newline ? (size_t)(newline - rest->at) : rest->size };
    size_t taken = newline ? line.size + 1 : line.size;

    rest->at += taken;
    rest->size -= taken;
    if (ends(line, "\r"))
        line.size--;
    return line;
}

/* The lines of exceptions in a group have a border: "  | ". */
static struct span without_border(struct span line)
{
    size_t n = 0;

    while (n < line.size && line.at[n] == ' ')
        n++;
    if (n == 0 || n + 1 >= line.size || (line.at[n] != '|' && line.at[n] != '+') ||
        line.at[n + 1] != ' ')
        return line;
    return (struct span){ line.at + n + 2, line.size - n - 2 };
}

/* Letters, digits, "_" and "." up to ":" or the end; at most 100. */
static size_t type_length(struct span line)
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.";
    size_t n = 0;

    while (n < line.size && n < 100 && line.at[n] && strchr(letters, line.at[n]))
        n++;
    return n > 0 && (n == line.size || line.at[n] == ':') ? n : 0;
}

static struct span last_component(struct span name)
{
    const char *dot = memrchr(name.at, '.', name.size);

    return dot ? (struct span){ dot + 1, name.size - (size_t)(dot + 1 - name.at) } : name;
}

static struct found *add(struct scan *scan, enum complaint_kind kind)
{
    struct found *found;

    if (scan->n == FOUND_MAX)
        memmove(scan->found, scan->found + 1, --scan->n * sizeof(*scan->found));
    found = &scan->found[scan->n++];
    *found = (struct found){ .complaint.kind = kind, .link = scan->link };
    scan->link = LINK_NONE;
    scan->after = 0;
    return found;
}

static void add_exception(struct scan *scan, struct span line, size_t n_type, const char *trace)
{
    /* Each part of a group may be why it was raised. */
    if (scan->is_group && scan->link == LINK_NONE && scan->n > 0)
        scan->link = LINK_CAUSE;
    struct found *found = add(scan, COMPLAINT_PYTHON);
    size_t before = n_type < line.size ? n_type + 1 : n_type;

    found->complaint.type = last_component((struct span){ line.at, n_type });
    found->complaint.text = (struct span){ line.at + before, line.size - before };
    found->complaint.trace = (struct span){ trace, (size_t)(line.at - trace) };
    scan->trace = NULL;
}

/* "SyntaxError: ..." without a traceback, which is how Python refuses a script. */
static bool is_syntax_error(struct span line)
{
    return begins(line, "SyntaxError: ") || begins(line, "IndentationError: ") ||
           begins(line, "TabError: ");
}

/* "TypeError: x", "Error [ERR_X]: x" or "FATAL ERROR: x": the length of what stands before the
 * text. Errors without a stack have brackets around them. */
static size_t node_type_length(struct span line)
{
    size_t n = begins(line, "Uncaught ") ? strlen("Uncaught ") : begins(line, "[");

    if (begins(line, "FATAL ERROR: "))
        return strlen("FATAL ERROR");
    while (n < line.size &&
           ((line.at[n] >= 'A' && line.at[n] <= 'Z') || (line.at[n] >= 'a' && line.at[n] <= 'z')))
        n++;
    if (!ends((struct span){ line.at, n }, "Error"))
        return 0;
    if (begins((struct span){ line.at + n, line.size - n }, " [")) {
        const char *bracket = memchr(line.at + n, ']', line.size - n);
        n = bracket ? (size_t)(bracket + 1 - line.at) : n;
    }
    return n < line.size && line.at[n] == ':' ? n : 0;
}

/* "/workspace/x.js:3", which Node writes above an error. */
static bool is_place_in_script(struct span line)
{
    const char *colon = memrchr(line.at, ':', line.size);
    size_t n = 0;

    if (!colon || (!begins(line, "/workspace/") && !begins(line, "file:///workspace/")))
        return false;
    for (const char *p = colon + 1; p < line.at + line.size && *p >= '0' && *p <= '9'; p++)
        n++;
    return n > 0 && colon + 1 + n == line.at + line.size;
}

/* What Node writes below an error. */
static bool is_below_node_error(struct span line)
{
    static const char *const beginnings[] = {
        " ",        "\t",        "}",          "{",
        "]",        "- ",        "---",        "Require stack:",
        "Emitted ", "Node.js v", "(Use `node", "Did you mean to import",
    };

    for (size_t i = 0; i < ELEMENTS(beginnings); i++)
        if (begins(line, beginnings[i]))
            return true;
    return line.size == 0;
}

/* Whether a line without indentation still belongs to a Python exception's message. */
static bool is_below_exception(struct span line)
{
    return line.size == 0 || line.at[0] == ' ' || line.at[0] == '\t' || line.at[0] == '(' ||
           begins(line, "Exception ignored in");
}

/* Is that an error of Node's: are its next lines those of a stack? */
static bool has_stack(struct span rest)
{
    for (size_t i = 0; i < 8 && rest.size > 0; i++) {
        struct span line = next_line(&rest);
        if (begins(line, "    at ") || begins(line, "Require stack:") ||
            begins(line, "  errno: ") || begins(line, "----- Native"))
            return true;
        if (begins(line, "Traceback "))
            return false;
    }
    return false;
}

static void extend(struct scan *scan, struct span line)
{
    struct complaint *last = &scan->found[scan->n - 1].complaint;
    bool belongs =
        last->kind == COMPLAINT_NODE ? is_below_node_error(line) : is_below_exception(line);

    last->text.size = (size_t)(line.at + line.size - last->text.at);
    scan->after += !belongs;
}

static void take_line(struct scan *scan, struct span raw, struct span rest)
{
    struct span line = without_border(raw);
    size_t n;

    if (ends(line, "Traceback (most recent call last):")) {
        scan->trace = line.at;
        scan->is_group = line.at != raw.at;
        scan->after = SIZE_MAX / 2;
        return;
    }
    line = scan->is_group ? line : raw;
    if (begins(line, "The above exception was the direct cause of")) {
        scan->link = LINK_CAUSE;
        return;
    }
    if (begins(line, "During handling of the above exception")) {
        scan->link = LINK_CONTEXT;
        return;
    }
    if (begins(line, "  File \"") || is_place_in_script(line))
        scan->location = line.at;
    if (scan->trace) {
        n = line.size > 0 && line.at[0] != ' ' ? type_length(line) : 0;
        if (n > 0)
            add_exception(scan, line, n, scan->trace);
        return;
    }
    n = scan->is_group && line.at != raw.at ? type_length(line) : 0;
    if (n > 0) {
        add_exception(scan, line, n, line.at);
        return;
    }
    n = node_type_length(line);
    if (n > 0 && has_stack(rest)) {
        struct found *found = add(scan, COMPLAINT_NODE);
        found->complaint.type = (struct span){ line.at, n };
        found->complaint.text = (struct span){ line.at + n + 1, line.size - n - 1 };
        if (scan->location && line.at - scan->location < NEAR)
            found->complaint.trace =
                (struct span){ scan->location, (size_t)(line.at - scan->location) };
        return;
    }
    if (is_syntax_error(line) && scan->location && line.at - scan->location < NEAR) {
        add_exception(scan, line, type_length(line), scan->location);
        return;
    }
    if (scan->n > 0 && line.size > 0)
        extend(scan, line);
}

/* The last lines that are not indented, the last one first. */
static size_t last_lines(const char *said, size_t size, struct complaint *ret, size_t most)
{
    struct span lines[LINES_MAX], rest = { said, size };
    size_t n = 0;

    while (rest.size > 0) {
        struct span line = next_line(&rest);
        if (line.size == 0 || line.at[0] == ' ' || line.at[0] == '\t')
            continue;
        lines[n++ % LINES_MAX] = line;
    }
    size_t kept = n < LINES_MAX ? n : LINES_MAX, i;
    for (i = 0; i < kept && i < most; i++)
        ret[i] = (struct complaint){ .kind = COMPLAINT_LINE,
                                     .text = lines[(n - 1 - i) % LINES_MAX],
                                     .rank = i };
    return i;
}

/* Another program failed, and had its say before. */
static bool is_about_a_child(const struct complaint *complaint)
{
    static const char name[] = "CalledProcessError";
    return complaint->type.size == sizeof(name) - 1 &&
           memcmp(complaint->type.at, name, sizeof(name) - 1) == 0;
}

static size_t find(const char *said, size_t size, struct complaint *ret, size_t most)
{
    struct scan scan = { .end = said + size };
    struct span rest = { said, size };
    size_t n = 0;

    while (rest.size > 0) {
        struct span line = next_line(&rest);
        take_line(&scan, line, rest);
    }
    if (scan.n == 0 || scan.after > AFTER_MAX)
        return last_lines(said, size, ret, most);
    for (size_t i = scan.n; i > 0 && n < most; i--) {
        ret[n] = scan.found[i - 1].complaint;
        ret[n++].rank = scan.after;
        if (scan.found[i - 1].link != LINK_CAUSE)
            break;
    }
    if (scan.after > 0)
        return n + last_lines(said, size, ret + n, most - n);
    const struct complaint *child = &ret[n - 1];
    if (is_about_a_child(child) && child->trace.at > said && n < most)
        n += find(said, (size_t)(child->trace.at - said), ret + n, most - n);
    return n;
}

size_t last_words(const char *said, size_t size, struct complaint ret[COMPLAINTS_MAX])
{
    return find(said, size, ret, COMPLAINTS_MAX);
}
