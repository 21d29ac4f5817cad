/* What is left to read of terminal output, see collapse.h. */
#include "broker/collapse.h"

#include <stdbool.h>

#define ESCAPE '\033'
#define BELL '\a'

static size_t skip_range(const char *data, size_t size, size_t i, char first, char last)
{
    while (i < size && data[i] >= first && data[i] <= last)
        i++;
    return i;
}

/* Up to its end, which is BEL (as xterm has it) or ESC \. Without an end on the same line it is
 * none, and only its introducer is dropped, lest it swallow what follows. */
static size_t string_length(const char *data, size_t size)
{
    for (size_t i = 2; i < size && data[i] != '\n'; i++) {
        if (data[i] == BELL)
            return i + 1;
        if (data[i] == ESCAPE && i + 1 < size && data[i + 1] == '\\')
            return i + 2;
    }
    return 2;
}

/* The length of the escape sequence at @data, whose first byte is ESC (ECMA-48, sections 5.3 to
 * 5.6); of a broken one, as far as it goes. */
static size_t escape_length(const char *data, size_t size)
{
    size_t i = 1;

    if (size < 2)
        return size;
    switch (data[1]) {
    case ']':
    case 'P':
    case 'X':
    case '^':
    case '_':
        return string_length(data, size);
    case '[':
        i = skip_range(data, size, 2, '0', '?');
        break;
    default:
        break;
    }
    i = skip_range(data, size, i, ' ', '/');
    return i < size && data[i] >= '0' && data[i] <= '~' ? i + 1 : i;
}

size_t collapse_text(char *text, size_t size)
{
    size_t n = 0, line = 0; /* bytes that stay; where the line at hand begins in them */
    bool returned = false;

    for (size_t i = 0; i < size;) {
        if (text[i] == ESCAPE) {
            i += escape_length(text + i, size - i);
            continue;
        }
        if (text[i] == '\r') {
            returned = true;
            i++;
            continue;
        }
        if (returned && text[i] != '\n')
            n = line;
        returned = false;
        text[n++] = text[i++];
        if (text[n - 1] == '\n')
            line = n;
    }
    return n;
}
