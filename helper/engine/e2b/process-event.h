/* The messages of envd's process.Process/Start as it streams them. Pure. Called by envd.c. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum process_event_type {
    PROCESS_STARTED,
    PROCESS_STDOUT,
    PROCESS_STDERR,
    PROCESS_ENDED,
    PROCESS_NOTHING, /* a sign of life, or a kind that is newer than this program */
    PROCESS_OVER,    /* the stream's own end */
};

struct process_event {
    enum process_event_type type;
    uint32_t pid;     /* STARTED */
    char *data;       /* STDOUT and STDERR, allocated */
    size_t data_size; /* any bytes */
    int exit_code;    /* ENDED; -1: by a signal */
    int signal;       /* ENDED; 0: none, or not told which */
    bool failed;      /* OVER: with an error */
    char code[32];    /* of that error */
    char words[160];  /* any text */
};

/* Returns 0, -EBADMSG for what is no such message, or -ENOMEM. To be released. */
int process_event_parse(const char *message, size_t size, bool end, struct process_event *ret);
void process_event_release(struct process_event *event);
