/* Who follows a run: any number of callers besides the one that started it, each at its own pace.
 * What was kept of the output is read from its file, at the follower's position, so a slow one
 * costs no memory and holds up nobody; what is beyond comes live, or not at all. The run calls
 * this, and never waits for it. */
#pragma once

#include "broker/manager.h"
#include "common/varlink.h"

struct attachment;
struct run;
struct stream;

int method_attach(struct varlink_call *call, struct manager *manager);

/* Tells those who follow @run; @more is borrowed, and already has event and id. What they have not
 * read keeps them from being told of more. */
void attach_notify(struct run *run, json_object *more);
/* As stream_options.came: the run has more output. */
void attach_output(struct run *run, const struct stream *stream, const char *data, size_t size,
                   uint64_t offset);
/* The run is over: what was kept still goes out to them, then @result (borrowed). */
void attach_over(struct run *run, json_object *result);
/* For the end of the process. */
void attach_free_all(struct manager *manager);
