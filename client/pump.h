/* Carries bytes between our own standard streams and the pipes of a run, for the event loop of
 * session.c. Memory is bounded by one buffer per direction; a slow reader or writer of one stream
 * holds up that stream only. Never interprets a byte, and never changes the mode of a file
 * description that others share, such as the user's terminal. */
#pragma once

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define PUMP_BUFFER (64 * 1024)

enum pump_direction { PUMP_STDIN, PUMP_STDOUT, PUMP_STDERR, PUMP_DIRECTIONS };

/* An end to write to: how to do that without being held up depends on what it is. */
struct sink {
    int fd;
    bool owned;
    bool is_socket;
    bool is_terminal;
    size_t chunk; /* most bytes that poll() has promised room for */
};

/* One of our own standard streams to write to; stays the caller's. -1 gives a sink without one. */
struct sink sink_open(int fd);
/* Writes some of @data after poll() has said that there is room. Returns how many bytes, or -1 with
 * errno. */
ssize_t sink_write(const struct sink *sink, const char *data, size_t size);
void sink_close(struct sink *sink);

struct channel {
    int source;
    bool source_is_owned;
    struct sink sink;  /* fd -1: what comes is dropped */
    size_t begin, end; /* what of @buffer waits to be written */
    int error;         /* errno of what failed for good; 0 if nothing did */
    char buffer[PUMP_BUFFER];
};

struct pump {
    struct channel channels[PUMP_DIRECTIONS];
    /* What a terminal was given: whether it stands in the middle of a line, and whether there was
     * more than text, so that nobody knows where it stands. */
    bool in_line, has_escapes;
    bool was_typed; /* somebody at a terminal talks to the script */
};

/* Polled descriptors: for each channel its source and its sink. */
#define PUMP_POLL_FDS (2 * PUMP_DIRECTIONS)

/* Returns a pump without any channel, or NULL out of memory. */
struct pump *pump_new(void);
struct pump *pump_free(struct pump *pump);

/* Opens the channels. The three pipes of the run become the pump's; @own are our own streams, which
 * stay the caller's. own[0] -1: the run gets an end of file at once; own[1] or own[2] -1: that
 * output is read and dropped. */
void pump_start(struct pump *pump, const int run[PUMP_DIRECTIONS], const int own[PUMP_DIRECTIONS]);

/* Fills in what is waited for now; entries that wait for nothing have fd -1. */
void pump_prepare(const struct pump *pump, struct pollfd fds[PUMP_POLL_FDS]);
/* Moves what can be moved by what poll() said. */
void pump_dispatch(struct pump *pump, const struct pollfd fds[PUMP_POLL_FDS]);

/* Something waits to be written to our own stdout or stderr. */
bool pump_has_output(const struct pump *pump);
/* A line of somebody else's may stand on the terminal for a while. */
bool pump_leaves_room(const struct pump *pump);

/* Nothing more needs to be read for the run. */
void pump_close_stdin(struct pump *pump);
/* True once both outputs were written to their end. */
bool pump_is_drained(const struct pump *pump);
/* errno of a failed write to our own stdout or stderr (other than that nobody reads it); else 0. */
int pump_error(const struct pump *pump);
