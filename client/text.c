/* Widths and cutting of UTF-8, see text.h. */
#include "client/text.h"

#include <inttypes.h>
#include <locale.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <wchar.h>

#include "common/cleanup.h"

#define WIDTH_DEFAULT 80

/* What the program shows is UTF-8 whatever the locale, so widths are those of UTF-8. */
static void use_utf8(void)
{
    static bool done;

    if (!done)
        setlocale(LC_CTYPE, "C.UTF-8");
    done = true;
}

/* Length in bytes of the part of @text that fits @max columns; its width in @ret_width. */
static size_t fitting(const char *text, size_t max, size_t *ret_width)
{
    const char *p = text;
    mbstate_t state = {};
    size_t width = 0;

    use_utf8();
    while (*p) {
        wchar_t c;
        size_t n = mbrtowc(&c, p, strlen(p), &state);
        if (n == 0 || n == (size_t)-1 || n == (size_t)-2) {
            state = (mbstate_t){};
            c = L'?';
            n = 1;
        }
        int columns = wcwidth(c);
        if (columns < 0)
            columns = 1;
        if (width + (size_t)columns > max)
            break;
        width += (size_t)columns;
        p += n;
    }
    *ret_width = width;
    return (size_t)(p - text);
}

size_t text_width(const char *text)
{
    size_t width;

    fitting(text, SIZE_MAX, &width);
    return width;
}

void text_print_padded(FILE *to, const char *text, size_t width)
{
    size_t own = text_width(text);

    fputs(text, to);
    if (own < width)
        fprintf(to, "%*s", (int)(width - own), "");
}

char *text_cut(const char *text, size_t width)
{
    size_t own, size = fitting(text, width, &own);
    char *cut = NULL;

    if (text[size] == '\0')
        return strdup(text);
    size = fitting(text, width - 1, &own);
    return asprintf(&cut, "%.*s…", (int)size, text) < 0 ? NULL : cut;
}

void text_print_wrapped(FILE *to, const char *text, size_t width)
{
    text_print_hanging(to, text, width, 0);
}

void text_print_hanging(FILE *to, const char *text, size_t width, size_t indent)
{
    size_t used = 0;

    while (*text) {
        size_t length = strcspn(text, " ");
        _cleanup_free_ char *word = strndup(text, length);
        size_t columns = word ? text_width(word) : length;

        if (used > 0 && used + 1 + columns > width) {
            fprintf(to, "\n%*s", (int)indent, "");
            used = 0;
        }
        fprintf(to, "%s%.*s", used > 0 ? " " : "", (int)length, text);
        used += columns + (used > 0);
        text += length;
        text += strspn(text, " ");
    }
    fputc('\n', to);
}

size_t error_terminal_width(void)
{
    struct winsize size = {};

    if (!isatty(STDERR_FILENO) || ioctl(STDERR_FILENO, TIOCGWINSZ, &size) < 0 || size.ws_col < 40)
        return 0;
    return size.ws_col;
}

size_t terminal_width(void)
{
    struct winsize size = {};

    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) < 0 || size.ws_col < WIDTH_DEFAULT)
        return WIDTH_DEFAULT;
    return size.ws_col;
}

/* In the largest unit of which there are enough. */
static void write_span(uint64_t seconds, char buffer[TEXT_AGE], const char *before,
                       const char *after)
{
    static const struct {
        uint64_t below, seconds;
        const char *name;
    } units[] = {
        { 60, 1, "s" },
        { 3600, 60, "min" },
        { 48 * 3600, 3600, "h" },
        { UINT64_MAX, 86400, "d" },
    };
    size_t i = 0;

    while (seconds >= units[i].below)
        i++;
    snprintf(buffer, TEXT_AGE, "%s%" PRIu64 " %s%s", before, seconds / units[i].seconds,
             units[i].name, after);
}

const char *text_age(uint64_t usec, uint64_t now_usec, char buffer[TEXT_AGE])
{
    uint64_t s = now_usec > usec ? (now_usec - usec) / 1000000 : 0;

    if (s < 1)
        return "just now";
    write_span(s, buffer, "", " ago");
    return buffer;
}

const char *text_span(uint64_t usec, char buffer[TEXT_AGE])
{
    write_span(usec / 1000000, buffer, "", "");
    return buffer;
}

const char *text_until(uint64_t usec, uint64_t now_usec, char buffer[TEXT_AGE])
{
    uint64_t s = usec > now_usec ? (usec - now_usec) / 1000000 : 0;

    if (s < 1)
        return "now";
    write_span(s, buffer, "in ", "");
    return buffer;
}
