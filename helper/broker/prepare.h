/* Asking an engine, without a run, whether it can be used, and to get the newest state of an image.
 * Called by engines-reply.c, layer-claim.c and pull.c; holds no policy. */
#pragma once

#include <stdbool.h>
#include <systemd/sd-event.h>

#include "engine/protocol.h"

struct prepare;

/* What the engine says; of the last three types exactly one comes, and nothing after it. */
enum prepare_event_type {
    PREPARE_PROGRESS,
    PREPARE_DONE,
    PREPARE_REFUSED, /* by the engine, in its own words */
    PREPARE_SILENT, /* it does not answer, hung up or talked nonsense; .error is a negative errno */
};

struct prepare_event {
    enum prepare_event_type type;
    union {
        const struct engine_progress *progress;
        const struct engine_prepared *prepared;
        const struct engine_error *refused;
        int error;
    };
};

/* Called from the event loop; may free the prepare. */
typedef void (*prepare_fn)(const struct prepare_event *event, void *userdata);

/* Asks the engine @name, for @image if it is not empty; with @any_state it is pulled only if it is
 * missing. The engine may be silent for @silence_usec. Returns 0, or a negative errno as of
 * sandbox_connect(). */
int prepare_begin(sd_event *loop, const char *name, const char *image, bool any_state,
                  uint64_t silence_usec, prepare_fn fn, void *userdata, struct prepare **ret);
/* The same, but the image is only looked for: if it is not here, the engine refuses with
 * ENGINE_PHASE_MISSING. */
int prepare_look(sd_event *loop, const char *name, const char *image, uint64_t silence_usec,
                 prepare_fn fn, void *userdata, struct prepare **ret);
/* Hangs up, which ends what the engine does for it. NULL is fine. */
struct prepare *prepare_free(struct prepare *prepare);
