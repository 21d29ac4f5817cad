/* What the parts of the hints share; for hint*.c only. */
#pragma once

#include "broker/hints.h"
#include "broker/last-words.h"
#include "broker/package.h"

#define HINT_NAME_MAX 200 /* bytes of a name that is found in what was said */

enum advice {
    SAY, /* the row's own text */
    MODULE,
    PACKAGE, /* named by the program itself */
    NODE_MODULE,
    PIP,
    NETWORK,
    LOCALHOST,
    MEMORY,
    TASKS,
    SPACE,
    PLACE,
    PERMISSION,
    INPUT,
    TOOL,
    SHELL_TOOL,
    VARIABLE,
    UNICODE,
    PYTHON_SYNTAX,
    NODE_SYNTAX,
    SHELL_SYNTAX,
};

struct row {
    unsigned kinds;
    const char *type;   /* of the exception; NULL: any */
    const char *saying; /* somewhere in the text, in one line; '*' is the name, '^' the beginning */
    enum advice advice;
    const char *text; /* of SAY; '*' is the name */
    size_t rank;      /* at most, see struct complaint */
};

/* A row that fits, and what it fits. */
struct hint_case {
    const struct facts *facts;
    const struct row *row;
    const struct complaint *complaint;
    char name[HINT_NAME_MAX * 4 + 1]; /* escaped */
    char *ret;                        /* HINT_MAX bytes */
};

/* What more than one kind of row says. */
#define NO_ROOT "Nobody is root in a sandbox, whatever is tried: leave sudo and the like out."
#define NO_SYSTEM_PACKAGES                                                                        \
    "Programs of the system cannot be installed in a sandbox: Python's and Node's packages come " \
    "with --with, others with another --image or from the administrator."

/* hint-match.c: whether text has a saying (see struct row); its name, not terminated, in @ret_name.
 */
bool hint_matches(struct span text, const char *saying, struct span *ret_name);
/* Where @what, of @n bytes, is between @at and @end; NULL if nowhere. */
const char *hint_find_bytes(const char *at, const char *end, const char *what, size_t n);
bool hint_span_is(struct span span, const char *text);
bool hint_span_has(struct span span, const char *text);

/* The rest writes a hint; false: there is nothing certain to say. */
__attribute__((format(printf, 2, 3))) bool hint_say(const struct hint_case *c, const char *format,
                                                    ...);
bool hint_is_language(const struct facts *facts, const char *name);

/* hint-missing.c: modules and programs */
bool hint_module(const struct hint_case *c);
bool hint_node_module(const struct hint_case *c);
/* @what is said before "--with NAME". */
bool hint_with(const struct hint_case *c, enum ecosystem ecosystem, const char *package,
               const char *what);
bool hint_tool(const struct hint_case *c, const char *tool);
bool hint_shell_tool(const struct hint_case *c);

/* hint-limits.c: what a run may use */
bool hint_network(const struct hint_case *c);
bool hint_refusal(const struct hint_case *c);
bool hint_localhost(const struct hint_case *c);
bool hint_more_memory(const struct hint_case *c);
bool hint_tasks(const struct hint_case *c);
bool hint_full(const struct hint_case *c);

/* hint-mistakes.c: what the script has to do otherwise */
bool hint_variable(const struct hint_case *c);
bool hint_unicode(const struct hint_case *c);
bool hint_python_syntax(const struct hint_case *c);
bool hint_node_syntax(const struct hint_case *c);
bool hint_shell_syntax(const struct hint_case *c);
