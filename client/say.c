/* Sentences, colours, failures, see say.h. */
#include "client/say.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "client/exit-status.h"
#include "client/text.h"
#include "common/cleanup.h"
#include "common/escape.h"
#include "common/json.h"

struct say_mode say_mode;

static bool progress_is_shown;

static bool is_kept;
static struct said kept;

static bool stderr_has_colours(void)
{
    static int cached = -1;

    if (cached < 0) {
        const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");
        cached =
            isatty(STDERR_FILENO) && !(no_color && *no_color) && term && strcmp(term, "dumb") != 0;
    }
    return cached;
}

bool say_progress_is_possible(void)
{
    return !is_kept && !say_mode.quiet && isatty(STDERR_FILENO);
}

void say_progress(const char *text)
{
    if (!text && !progress_is_shown)
        return;
    /* A line that went on in the next one could not be taken away. */
    size_t width = error_terminal_width();
    _cleanup_free_ char *cut =
        text && width > 0 ? text_cut(text, width - sizeof("sbxctl: ")) : NULL;
    fprintf(stderr, "\r\033[K%s%s", text ? "sbxctl: " : "", cut ? cut : text ? text : "");
    fflush(stderr);
    progress_is_shown = text;
}

static void keep_line(const char *line)
{
    char *text = NULL;

    if (asprintf(&text, "%s%s%s", kept.text ? kept.text : "", kept.text ? "\n" : "", line) < 0)
        return;
    free(kept.text);
    kept.text = text;
}

void say_keep(void)
{
    is_kept = true;
}

void said_take(struct said *ret)
{
    *ret = kept;
    kept = (struct said){};
}

void said_release(struct said *said)
{
    free(said->text);
    json_object_put(said->failure);
    *said = (struct said){};
}

void say_object(json_object *object)
{
    if (is_kept) {
        json_object_put(kept.failure);
        kept.failure = json_object_get(object);
    } else if (say_mode.json) {
        (void)print_json(object);
    }
}

/* One write, so that lines stay whole beside those of the script. On a terminal words are not cut
 * at its edge. */
static void write_sentence(const char *colour, const char *text)
{
    static const char name[] = "sbxctl: ";
    const size_t indent = sizeof(name) - 1;
    size_t width = error_terminal_width(), size = 0;
    _cleanup_free_ char *whole = NULL;
    FILE *to = open_memstream(&whole, &size);

    if (!to)
        return;
    fprintf(to, "%s%s%s", colour ? colour : "", name, colour ? "\033[0m" : "");
    if (width > 0)
        text_print_hanging(to, text, width - indent, indent);
    else
        fprintf(to, "%s\n", text);
    if (fclose(to) == 0)
        (void)fwrite(whole, 1, size, stderr);
}

static void say_coloured(const char *colour, const char *format, va_list ap)
    __attribute__((format(printf, 2, 0)));

static void say_coloured(const char *colour, const char *format, va_list ap)
{
    _cleanup_free_ char *text = NULL;

    if (say_mode.quiet || vasprintf(&text, format, ap) < 0)
        return;
    if (is_kept) {
        keep_line(text);
        return;
    }
    say_progress(NULL);
    if (!stderr_has_colours())
        colour = NULL;
    write_sentence(colour, text);
}

void say(const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    say_coloured("\033[1m", format, ap);
    va_end(ap);
}

void say_warning(const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    say_coloured("\033[1;33m", format, ap);
    va_end(ap);
}

void say_error(const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    say_coloured("\033[1;31m", format, ap);
    va_end(ap);
}

static void print_failure(const char *name, const char *reason, const char *hint)
{
    _cleanup_json_ json_object *object = json_object_new_object();
    char error[64];

    snprintf(error, sizeof(error), "io.sbxctl.Client.%s", name);
    if (object && json_add_string(object, "error", error) == 0 &&
        json_add_string(object, "reason", reason) == 0 &&
        json_add_string(object, "hint", hint) == 0)
        say_object(object);
}

int say_failure(int status, const char *name, const char *hint, const char *format, ...)
{
    _cleanup_free_ char *text = NULL;
    va_list ap;
    int r;

    va_start(ap, format);
    r = vasprintf(&text, format, ap);
    va_end(ap);
    if (r < 0) {
        text = NULL;
        return status;
    }

    say_error("%s", text);
    if (hint)
        say("%s", hint);
    print_failure(name, text, hint);
    return status;
}

int say_failure_errno(int r, const char *doing)
{
    return say_failure(EXIT_OURS, "Failed", NULL, "%s: %s", doing, strerror(-r));
}

int print_json(json_object *object)
{
    const char *text = json_text(object, NULL);
    _cleanup_free_ char *safe = text ? escape_json(text) : NULL;

    if (!safe) {
        say_error("out of memory");
        return EXIT_OURS;
    }
    puts(safe);
    return print_end();
}

int print_end(void)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return 0;
    if (errno != EPIPE)
        say_error("cannot write to standard output: %s", strerror(errno));
    return EXIT_OURS;
}

char *displayed(const char *text)
{
    _cleanup_free_ char *raw = NULL;
    size_t size = 0;

    raw = unescape_text(text, &size);
    char *safe = raw ? escape_text(raw, size, 0) : escape_text(text, strlen(text), 0);
    if (safe)
        return safe;
    safe = strdup("?");
    if (!safe)
        abort();
    return safe;
}
