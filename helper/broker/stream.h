/* One output stream of a program: reads the pipe from the sandbox, keeps the first part in a file,
 * and passes all of it on to the caller live. A caller who does not read stops this stream alone.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-event.h>

#include "common/varlink.h"

/* As callers and the files of a run name them. */
extern const char *const stream_names[2];

struct stream;

struct stream_options {
    const char *name;           /* of stream_names */
    int source;                 /* read end of the program's pipe; taken over */
    int kept;                   /* file for the kept part; borrowed */
    uint64_t kept_max;          /* bytes */
    uint64_t bytes, kept_bytes; /* that came, and were kept, before */
    int sink;                   /* write end of the caller's pipe, taken over; or -1 */
    struct varlink_call *call;  /* messages are sent as replies to it; NULL for none; borrowed */
    /* More of it was read, the first byte of which is the @offset-th; what there is room for is in
     * the file already. May not free the stream. NULL: nobody wants to know. */
    void (*came)(struct stream *stream, const char *data, size_t size, uint64_t offset,
                 void *userdata);
    /* The stream ended, or all of it was passed on. May free the stream. */
    void (*changed)(void *userdata);
    void *userdata;
};

/* Takes over the descriptors of @options in any case. Returns 0 or a negative errno. */
int stream_new(sd_event *event, const struct stream_options *options, struct stream **ret);
struct stream *stream_free(struct stream *stream);

/* The program is gone: take what is left in the pipe at once, whether the caller reads or not. */
void stream_drain(struct stream *stream);
/* Nothing more comes from the program (or was waited for in vain): what there is has been kept. */
void stream_end(struct stream *stream);
bool stream_ended(const struct stream *stream);
/* Ended, and the caller has it all or does not want it. */
bool stream_flushed(const struct stream *stream);
/* Go on after the caller's connection took what waited. */
void stream_resume(struct stream *stream);
/* The caller is gone. */
void stream_forget_caller(struct stream *stream);

/* The event that tells a caller of output: @size bytes, the first of which is the @offset-th of the
 * stream @name; @id of the run may be NULL. Returns NULL out of memory. */
json_object *stream_message(const char *id, const char *name, const char *data, size_t size,
                            uint64_t offset);

/* The read end of the program's pipe, borrowed; -1: it ended. */
int stream_source(const struct stream *stream);
uint64_t stream_bytes(const struct stream *stream);
uint64_t stream_kept(const struct stream *stream);
