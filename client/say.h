/* What sbxctl itself says: to standard error, in plain sentences that begin with its name. Standard
 * output belongs to results. Called by everything in client/; never shows foreign text that was not
 * made safe. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <json-c/json.h>

/* Set once by a verb that has read its options. */
struct say_mode {
    bool quiet; /* say nothing */
    bool json;  /* a failure is told on standard output too, as an object */
};
extern struct say_mode say_mode;

/* One line; @format without a newline. */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The same in the colour of a warning, or of an error, where there are colours. */
void say_warning(const char *format, ...) __attribute__((format(printf, 1, 2)));
void say_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Tells a failure and what to do about it (@hint, NULL for nothing): as text, and for --json as an
 * object whose member "error" is io.sbxctl.Client.@name. Returns @status. Called at most once. */
int say_failure(int status, const char *name, const char *hint, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* For out of memory and what nobody can foresee: names the errno -@r. */
int say_failure_errno(int r, const char *doing);

/* Tells the failure @object to programs: with --json on standard output. */
void say_object(json_object *object);

/* What was said since the last time, where it is kept: lines without the name in front, NULL for
 * none, and the object of a failure, or NULL. */
struct said {
    char *text;
    json_object *failure;
};
/* From here on nothing is written, neither to standard error nor to standard output; it is kept
 * until said_take(). For a server, whose standard error may be read by nobody. */
void say_keep(void);
void said_take(struct said *ret);
void said_release(struct said *said);

/* Writes @object and a newline to standard output. Returns 0, or the exit status if that fails. */
int print_json(json_object *object);
/* Flushes standard output. Returns 0, or the exit status if what was printed got lost. */
int print_end(void);

/* Text from elsewhere, such as a name or a sentence of the helper, as one line that is safe on a
 * terminal. What is escaped already stays as it is. Returns a new string that is never NULL. */
char *displayed(const char *text);

/* A line of progress that the next one replaces; only on a terminal. NULL removes it. */
void say_progress(const char *text);
bool say_progress_is_possible(void);
