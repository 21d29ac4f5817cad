/* Which runs an interpreter that waits is good for, see interpreter.h. */
#include "broker/interpreter.h"
#include "common/cleanup.h"
#include "common/escape.h"
#include "common/file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The pipe by which it gets its script holds so much. */
#define SCRIPT_MAX (60 * 1024)

/* Names that are no user's own: what sbxctl calls code that comes without a file, and what others
 * often do. */
static const char *const script_names[] = { "script", "script.py", "main.py" };

static bool is_usual_name(const char *name)
{
    for (size_t i = 0; i < ELEMENTS(script_names); i++)
        if (strcmp(script_names[i], name) == 0)
            return true;
    return false;
}

/* CPython opens its script once and reads it from there. Who knows what others do. */
static bool is_cpython(const char *interpreter)
{
    const char *slash = strrchr(interpreter, '/'), *name = slash ? slash + 1 : interpreter;

    return strncmp(name, "python3", 7) == 0 && name[7 + strspn(name + 7, ".0123456789")] == '\0';
}

bool interpreter_is_usual(const struct request *request, const struct plan *plan)
{
    return is_cpython(plan->language->interpreter) && is_usual_name(request->script_name) &&
           plan->n_argv == 2 && request->n_environment == 0 && request->stdin_memfd < 0 &&
           plan->n_packages == 0;
}

/* ---- the command */

static void free_strings(char **strings)
{
    for (char **s = strings; s && *s; s++)
        free(*s);
    free(strings);
}

static size_t count(char *const *strings)
{
    size_t n = 0;

    while (strings[n])
        n++;
    return n;
}

static char **copy_strings(char *const *strings)
{
    size_t n = count(strings);
    char **copy = calloc(n + 1, sizeof(*copy));

    for (size_t i = 0; copy && i < n; i++) {
        copy[i] = strdup(strings[i]);
        if (!copy[i]) {
            free_strings(copy);
            return NULL;
        }
    }
    return copy;
}

static bool are_equal(char *const *a, char *const *b)
{
    for (; *a && *b; a++, b++)
        if (strcmp(*a, *b) != 0)
            return false;
    return !*a && !*b;
}

static bool are_same(const struct interpreter_command *a, const struct interpreter_command *b)
{
    return a->has_input == b->has_input && are_equal(a->argv, b->argv) &&
           are_equal(a->environment, b->environment);
}

void interpreter_release_command(struct interpreter_command *command)
{
    free_strings(command->argv);
    free_strings(command->environment);
    *command = (struct interpreter_command){ 0 };
}

struct interpreter_command interpreter_command_of(const struct request *request,
                                                  const struct plan *plan)
{
    return (struct interpreter_command){ plan->argv, plan->environment,
                                         request->streams == STREAMS_DESCRIPTORS };
}

int interpreter_copy_command(const struct interpreter_command *command,
                             struct interpreter_command *copy)
{
    if (copy->argv && are_same(command, copy))
        return 0;
    interpreter_release_command(copy);
    copy->argv = copy_strings(command->argv);
    copy->environment = copy_strings(command->environment);
    copy->has_input = command->has_input;
    if (copy->argv && copy->environment)
        return 0;
    interpreter_release_command(copy);
    return -ENOMEM;
}

/* ---- waiting */

void interpreter_close(struct interpreter *interpreter)
{
    for (size_t i = 0; i < 3; i++)
        interpreter->pipes[i] = close_fd(interpreter->pipes[i]);
}

static int make_pipe(int *ret_read, int *ret_write)
{
    int ends[2];

    if (pipe2(ends, O_CLOEXEC) < 0)
        return -errno;
    *ret_read = ends[0];
    *ret_write = ends[1];
    return 0;
}

static int make_input(bool has_input, int *ret_program, int *ret_ours)
{
    if (has_input)
        return make_pipe(ret_program, ret_ours);
    *ret_program = open("/dev/null", O_RDONLY | O_CLOEXEC);
    return *ret_program < 0 ? -errno : 0;
}

int interpreter_start(struct sandbox *sandbox, const struct interpreter_command *command,
                      const char *directory, struct interpreter *ret)
{
    struct interpreter interpreter = INTERPRETER_NONE;
    int program[3] = { -1, -1, -1 };
    int r = make_input(command->has_input, &program[0], &interpreter.pipes[0]);

    for (size_t i = 1; r >= 0 && i < 3; i++)
        r = make_pipe(&interpreter.pipes[i], &program[i]);
    if (r >= 0)
        r = sandbox_warm(sandbox, command->argv, count(command->argv), command->environment,
                         count(command->environment), directory, program);
    for (size_t i = 0; i < 3; i++)
        close_fd(program[i]);
    if (r < 0)
        interpreter_close(&interpreter);
    else
        *ret = interpreter;
    return r;
}

/* ---- the run */

/* Python looks for packages in it when it starts. */
static bool is_user_site(const char *name)
{
    return strncmp(name, ".local", 6) == 0 && (name[6] == '/' || name[6] == '\0');
}

/* Whether one of its first lines may name an encoding (PEP 263). "\r\n" counts as two ends. */
static bool names_encoding(const char *text)
{
    for (size_t line = 0; line < 4 && *text; line++) {
        size_t length = strcspn(text, "\r\n"), blank = strspn(text, " \t\f");

        if (text[blank] == '#' && memmem(text, length, "coding", 6))
            return true;
        text += length + (text[length] != '\0');
    }
    return false;
}

/* No bytes that make the file something else than a text in UTF-8: Python would go back in it for
 * another encoding, and look for an archive or compiled code at its ends. */
static bool is_plain_text(const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if ((unsigned char)text[i] < ' ' && !memchr("\t\n\r\f", text[i], 4))
            return false;
    return strncmp(text, "\xef\xbb\xbf", 3) != 0 && utf8_is_valid(text) && !names_encoding(text);
}

static bool script_is_plain(const struct request *request)
{
    if (request->script_bytes > SCRIPT_MAX)
        return false;
    size_t size = (size_t)request->script_bytes;
    _cleanup_free_ char *text = malloc(size + 1);
    if (!text || pread_full(request->script, text, size, 0) != (ssize_t)size)
        return false;
    text[size] = '\0';
    return is_plain_text(text, size);
}

bool interpreter_fits(const struct interpreter_command *command, const struct request *request,
                      const struct plan *plan)
{
    const struct interpreter_command own = interpreter_command_of(request, plan);

    if (!command->argv || request->stdin_memfd >= 0 || !are_same(command, &own))
        return false;
    for (size_t i = 0; i < request->n_inputs; i++)
        if (is_user_site(request->inputs[i].name))
            return false;
    return script_is_plain(request);
}
