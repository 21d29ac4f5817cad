/* What an installer says on its output, line by line, as far as anybody reads it. Called by
 * install.c; knows no installation. */
#pragma once

#include "broker/install-events.h"

struct install_output {
    int fd;     /* that does not block; -1: none */
    char *line; /* INSTALL_LINE_MAX bytes */
    size_t n_line;
    uint64_t n;     /* bytes that came */
    char said[200]; /* the last line that was no event; one line, printable */
};

/* @event is NULL for a line that is not understood; "resolved" is taken over. */
typedef void (*install_output_fn)(struct install_event *event, void *userdata);

/* Without a descriptor so far. Returns 0 or -ENOMEM; to be released either way. */
int install_output_init(struct install_output *output);
void install_output_release(struct install_output *output);

/* Reads what there is, once, and hands on its events. Returns false when there is nothing more, or
 * nothing more is wanted. */
bool install_output_read(struct install_output *output, install_output_fn fn, void *userdata);
/* Nothing more of it is read. */
bool install_output_is_too_long(const struct install_output *output);
