/* Looking for a saying in what a program said. Bounded: text is looked through once for each row,
 * and a name ends with its line. */
#include "broker/hint-internal.h"
#include "common/cleanup.h"

#include <string.h>

const char *hint_find_bytes(const char *at, const char *end, const char *what, size_t n)
{
    return n == 0 ? at : memmem(at, (size_t)(end - at), what, n);
}

/* The last part of what stands before a message: "cat: data.csv" is about data.csv. */
static struct span last_part(struct span span)
{
    for (size_t i = span.size; i-- > 1;)
        if (span.at[i] == ' ' && span.at[i - 1] == ':')
            return (struct span){ span.at + i + 1, span.size - i - 1 };
    return span;
}

/* A name within quotes of any kind: "cannot access 'x'". */
static struct span unquoted(struct span span)
{
    static const char *const quotes[][2] = { { "'", "'" }, { "\"", "\"" }, { "‘", "’" } };

    for (size_t i = 0; i < ELEMENTS(quotes); i++) {
        const char *end = span.at + span.size;
        const char *a = hint_find_bytes(span.at, end, quotes[i][0], strlen(quotes[i][0]));
        const char *b =
            a ? hint_find_bytes(a + strlen(quotes[i][0]), end, quotes[i][1], strlen(quotes[i][1]))
              : NULL;
        if (b)
            return (struct span){ a + strlen(quotes[i][0]),
                                  (size_t)(b - a) - strlen(quotes[i][0]) };
    }
    return span;
}

/* Up to where a name that begins at @name may go, and what follows it. */
static const char *name_end(const char *name, const char *end)
{
    const char *most = end - name > 2 * HINT_NAME_MAX ? name + 2 * HINT_NAME_MAX : end;
    const char *newline = memchr(name, '\n', (size_t)(most - name));

    return newline ? newline : most;
}

/* Looks for the saying, in one line of the text. */
bool hint_matches(struct span text, const char *saying, struct span *ret_name)
{
    const char *star = strchr(saying, '*'), *end = text.at + text.size;
    bool at_beginning = *saying == '^';
    const char *head = saying + at_beginning, *tail = star ? star + 1 : "";
    size_t n_head = star ? (size_t)(star - head) : strlen(head), n_tail = strlen(tail);

    *ret_name = (struct span){ text.at, 0 };
    for (const char *at = text.at; (at = hint_find_bytes(at, end, head, n_head)); at++) {
        const char *name = at + n_head, *eol;
        if (at_beginning && at != text.at)
            return false;
        if (!star)
            return true;
        eol = name_end(name, end);
        const char *stop = n_tail > 0 ? hint_find_bytes(name, eol, tail, n_tail) : eol;
        if (stop && stop > name && stop - name <= HINT_NAME_MAX) {
            *ret_name = (struct span){ name, (size_t)(stop - name) };
            /* "…, open 'x'": what stands between is the call, and the name follows. */
            if (n_tail > 1 && strcmp(tail + n_tail - 2, " '") == 0) {
                const char *quote = hint_find_bytes(stop + n_tail, eol, "'", 1);
                if (!quote)
                    return false;
                *ret_name = (struct span){ stop + n_tail, (size_t)(quote - stop) - n_tail };
            } else if (n_head == 0) {
                *ret_name = unquoted(last_part(*ret_name));
            }
            return ret_name->size > 0 && ret_name->size <= HINT_NAME_MAX;
        }
        if (n_head == 0)
            return false;
    }
    return false;
}

bool hint_span_is(struct span span, const char *text)
{
    return span.size == strlen(text) && memcmp(span.at, text, span.size) == 0;
}

bool hint_span_has(struct span span, const char *text)
{
    return memmem(span.at, span.size, text, strlen(text));
}
