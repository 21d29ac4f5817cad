/* E2B's code interpreter, a notebook's kernel that some templates carry: Python whose figures and
 * last value come back as well. Called by run.c. */
#pragma once

#include "envd.h"
#include "launch/launch.h"

#define INTERPRETER_PORT 49999
/* Bytes of one message, and of all that is shown and kept, at most. */
#define INTERPRETER_LINE_MAX (16 * 1024 * 1024)
#define INTERPRETER_SHOWN_MAX (64 * 1024 * 1024)
#define INTERPRETER_FILES_MAX 100

enum interpreter_type {
    INTERPRETER_STDOUT,
    INTERPRETER_STDERR,
    INTERPRETER_RESULT,
    INTERPRETER_ERROR, /* of the kernel: the program's own are caught before */
    INTERPRETER_END,
    INTERPRETER_NOTHING,
};

struct interpreter_message {
    enum interpreter_type type;
    const char *text;    /* borrowed from .object; NULL: none */
    json_object *object; /* all of it */
};

/* Reads a line. Returns 0, or -EBADMSG for what is no message. Pure. */
int interpreter_parse(const char *line, size_t size, struct interpreter_message *ret);
void interpreter_message_release(struct interpreter_message *message);

/* What was shown, until it becomes files. */
struct shown_file {
    const char *extension;
    unsigned number; /* of the result that it is a form of */
    char *data;
    size_t size;
};

struct shown {
    struct shown_file files[INTERPRETER_FILES_MAX];
    size_t n_files, bytes;
    unsigned results;
    bool is_incomplete; /* there was more than is kept */
};

/* Takes what a result has to show. Returns the text to be printed, borrowed, or NULL. Pure. */
const char *shown_add(struct shown *shown, json_object *result);
/* A table, column by column, as CSV; NULL if it is none, or out of memory. Pure. */
char *shown_csv(json_object *columns, size_t *ret_size);
/* Makes the files in the workspace, beside what is there: "display-1.png", and so on. */
void shown_write(const struct shown *shown, int workspace);
void shown_release(struct shown *shown);

/* Whether the template is one that has it, and the program one that it can run. */
bool interpreter_takes(const struct config *config, const char *template_id,
                       const struct launch_program *program);

struct interpreter_run {
    const struct launch_program *program;
    const char *folder; /* of our own, in the sandbox */
    json_object *environment;
    const struct envd_program *streams; /* whose output and full functions are called */
    struct shown *shown;
};

/* Runs it to its end. Returns 0 if the interpreter told of it; -ENOPROTOOPT if there is no
 * interpreter, and nothing was started; -EOWNERDEAD if its kernel ended; or another negative errno
 * with a sentence. How the program
 * ended is in the folder's file "status". */
int interpreter_run(struct envd *envd, const struct cloud_sandbox *sandbox,
                    const struct interpreter_run *run, bool *ret_may_have_started);
