/* One of the run's two output pipes: takes what the program wrote and gives it to whoever reads at
 * the other end, at that one's own pace. Called by sandbox.c. */
#pragma once

#include "http.h"

typedef int (*sink_left_fn)(void *userdata);

struct sink {
    int fd;       /* -1: nobody reads any more */
    bool is_left; /* the same, and it has not been told */
    sink_left_fn left;
    void *userdata;
    char *pending;
    size_t size, at;
    struct http_watch *watch;
    struct http_transfer **running; /* is resumed when there is room again */
};

/* Takes @fd over. @left is called, as a watch is, when there was more to write and the reader had
 * gone. Returns 0 or a negative errno. */
int sink_open(struct sink *sink, int fd, struct http_watch *watch, struct http_transfer **running,
              sink_left_fn left, void *userdata);
/* Writes what can be written, keeps the rest. Returns 0 or -ENOMEM. */
int sink_write(struct sink *sink, const char *data, size_t size);
bool sink_is_full(const struct sink *sink);
void sink_close(struct sink *sink);
