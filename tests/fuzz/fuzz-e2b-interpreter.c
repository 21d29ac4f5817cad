/* Lines of the code interpreter, and what becomes of the results in them. */
#include <stdint.h>
#include <string.h>

#include "check.h"
#include "engine/e2b/interpreter.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_shown(const struct shown *shown)
{
    size_t bytes = 0;

    check(shown->n_files <= INTERPRETER_FILES_MAX);
    for (size_t i = 0; i < shown->n_files; i++) {
        check(shown->files[i].data && shown->files[i].number >= 1 &&
              shown->files[i].number <= shown->results);
        bytes += shown->files[i].size;
    }
    check(bytes == shown->bytes && bytes <= INTERPRETER_SHOWN_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct shown shown = { 0 };

    for (size_t at = 0; at < size;) {
        const uint8_t *end = memchr(data + at, '\n', size - at);
        size_t length = end ? (size_t)(end - data) - at : size - at;
        struct interpreter_message message;
        char *line = malloc(length + 1);
        memcpy(line, data + at, length);
        if (interpreter_parse(line, length, &message) == 0) {
            if (message.type == INTERPRETER_RESULT)
                shown_add(&shown, message.object);
            interpreter_message_release(&message);
        }
        free(line);
        at += length + 1;
    }
    check_shown(&shown);
    shown_release(&shown);
    return 0;
}
