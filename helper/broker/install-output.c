/* Reading of an installer's output, see install-output.h. */
#include "broker/install-output.h"
#include "common/cleanup.h"
#include "common/escape.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int install_output_init(struct install_output *output)
{
    *output = (struct install_output){ .fd = -1, .line = malloc(INSTALL_LINE_MAX) };
    return output->line ? 0 : -ENOMEM;
}

void install_output_release(struct install_output *output)
{
    output->fd = close_fd(output->fd);
    free(output->line);
    output->line = NULL;
}

static void note_said(struct install_output *output)
{
    _cleanup_free_ char *shown =
        escape_text(output->line, output->n_line, sizeof(output->said) - 1);

    snprintf(output->said, sizeof(output->said), "%s", shown ? shown : "");
}

static void take_line(struct install_output *output, install_output_fn fn, void *userdata)
{
    struct install_event event;

    if (install_event_parse(output->line, output->n_line, &event) < 0)
        fn(NULL, userdata);
    else if (event.type != INSTALL_EVENT_NOTHING)
        fn(&event, userdata);
    else if (output->n_line > 0)
        note_said(output);
    output->n_line = 0;
}

bool install_output_is_too_long(const struct install_output *output)
{
    return output->n > INSTALL_OUTPUT_MAX;
}

bool install_output_read(struct install_output *output, install_output_fn fn, void *userdata)
{
    char buffer[16 * 1024];

    ssize_t n = read(output->fd, buffer, sizeof(buffer));
    if (n <= 0 || install_output_is_too_long(output))
        return n < 0 && errno == EINTR;
    output->n += (uint64_t)n;
    for (ssize_t i = 0; i < n; i++) {
        if (buffer[i] == '\n')
            take_line(output, fn, userdata);
        else if (output->n_line < INSTALL_LINE_MAX)
            output->line[output->n_line++] = buffer[i];
    }
    return true;
}
