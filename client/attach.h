/* A run that goes on without us: waiting for its end, and for its output as it comes. Called by
 * logs.c, wait.c and stop.c. The run does not notice whether we are there. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "client/result.h"
#include "common/varlink.h"

enum attach_stream { ATTACH_STDOUT, ATTACH_STDERR, ATTACH_STREAMS };

struct attach_options {
    bool output; /* take output, too */
    /* What comes of it: @size bytes that begin at @offset of the stream. They come in order, but
     * @offset may be larger than where the last ones ended: what lies between was not kept. Returns
     * 0 to go on, or what attach() is to return. */
    int (*on_output)(enum attach_stream stream, uint64_t offset, const char *data, size_t size,
                     void *userdata);
    void *userdata;
    bool watches_stdout; /* end when nobody reads our standard output any more */
};

/* Waits until the run @id (a full one) has ended and its output is taken. A helper that goes away
 * is asked again, as the run may go on. Returns 0 with the last answer in @ret (to be released),
 * which may be an error of the helper's; ATTACH_UNREAD; what @on_output returned; or the exit
 * status of a failure that has been told. */
#define ATTACH_UNREAD (-1)
int attach(const char *id, const struct attach_options *options, struct varlink_answer *ret);
/* The same without output, and with the error told: what became of the run, as of runs_describe().
 */
int attach_wait(const char *id, json_object **ret_object, struct result *ret);
