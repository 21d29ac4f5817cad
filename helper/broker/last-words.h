/* What a program said last, as far as it tells why the program failed: the exception that ended it
 * and what that was raised from, or its last lines. Pure and bounded; called to find a hint, which
 * is all that may come of it, since a program can print what it likes. */
#pragma once

#include <stddef.h>

enum complaint_kind {
    COMPLAINT_PYTHON, /* an exception with its traceback */
    COMPLAINT_NODE,   /* an error with its stack */
    COMPLAINT_LINE,   /* a line, of whatever program */
};

/* A part of what was said, not terminated. */
struct span {
    const char *at;
    size_t size;
};

struct complaint {
    enum complaint_kind kind;
    /* The exception's name without its module ("FileNotFoundError"); empty for a line. */
    struct span type;
    /* Python: its message, all lines of it. Node: from its message to the end of the stack, causes
     * too. Else the line. */
    struct span text;
    struct span
        trace;   /* from the traceback's first line to before the exception; empty for a line */
    size_t rank; /* of a line: 0 for the last one of all, 1 for the one before */
};

#define COMPLAINTS_MAX 12

/* Finds the complaints in the end of a program's stderr, the most telling first. Returns how many
 * there are. */
size_t last_words(const char *said, size_t size, struct complaint ret[COMPLAINTS_MAX]);
