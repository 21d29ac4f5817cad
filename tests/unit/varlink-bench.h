/* A varlink server with a small interface, and a raw caller at its other end, in one process and
 * one event loop: nothing in these tests waits for a clock, settle() runs the loop until there is
 * nothing left to do. */
#pragma once

#include "common/varlink.h"

struct bench {
    sd_event *event;
    struct varlink_server *server;
    int caller; /* our end of the first connection, non-blocking; -1 once closed */
    struct varlink_call *kept[4]; /* calls of Later that wait for an answer */
    size_t n_kept;
    unsigned n_own; /* descriptors that the server holds for one connection */
    unsigned calls; /* methods that were reached */
    unsigned gone;  /* callers that hung up on Later */
    unsigned drained;
    unsigned refused; /* times that the server told of a refusal */
    unsigned busy, idle;
    size_t n_fds; /* what TakeFds got */
    char input[2 * VARLINK_OUTPUT_MAX];
    size_t n_input;
};

/* What the next bench_start() tells its server, where it shall not be the usual. */
extern struct varlink_server_options bench_options;

/* cmocka's setup and teardown: @state is a struct bench. */
int bench_start(void **state);
int bench_stop(void **state);

/* Another connection of the server; its other end is returned. */
int bench_connect(struct bench *b);
void settle(struct bench *b);

/* Sends one message (its NUL is added) or bytes as they are, with @n_fds times stderr, and lets it
 * sink in. */
void send_message(struct bench *b, const char *text);
void send_bytes(struct bench *b, const char *data, size_t size, size_t n_fds);

/* The next message that arrived at the caller, without waiting; NULL if there is none. Valid until
 * the next one. */
const char *next_answer(struct bench *b);
/* True if the server has closed the connection, and nothing but end of file is there to read. */
bool hung_up(struct bench *b);

unsigned count_fds(void);

#define assert_answer(b, text) assert_string_equal(next_answer(b) ?: "(none)", text)
#define assert_no_answer(b) assert_null(next_answer(b))
