/* What a connection consists of; for sandbox*.c only. */
#pragma once

#include "sandbox.h"

#include "control-plane.h"
#include "engine/dialogue.h"
#include "envd.h"
#include "life.h"
#include "run.h"

/* What is left of a sandbox's life when its files are to be home, to say so. */
#define HOME_MARGIN_USEC (4 * USEC_PER_SEC)

struct sandbox {
    const struct service *service;
    int broker, control;
    uint64_t connection;
    struct engine_start start;
    struct cloud cloud;
    struct cloud_sandbox box;
    struct cloud_labels labels;
    struct envd envd;
    struct run run;
    struct http_watch *broker_watch;
    enum outcome outcome; /* OUTCOME_READY until something ends it */
    struct life life;
    bool runs, asked_to_end;
    bool made; /* there is a sandbox in the cloud */
};

/* sandbox.c */
/* Tells the broker, in a sentence for the user, and returns @error. */
int sandbox_refuse(struct sandbox *s, int error, const char *phase, const char *sentence);
/* In the words that the cloud has for it. The phase tells the broker whether another engine would
 * help. */
int sandbox_refuse_cloud(struct sandbox *s, int error);
/* Returns 0 or a negative errno. */
int sandbox_tell_progress(struct sandbox *s, const char *phase, uint64_t current, uint64_t total);
/* Notes how it ends. Always -ECANCELED. */
int sandbox_end_with(struct sandbox *s, enum outcome outcome);
/* The only time that is watched is over. */
void sandbox_note_time(struct sandbox *s);

/* sandbox-start.c; what returns a negative errno has sent its sentence. */
int sandbox_check_key(struct sandbox *s);
const char *sandbox_template(const struct sandbox *s);
/* Makes the sandbox, and hands it over to the broker. */
int sandbox_start(struct sandbox *s);

/* sandbox-go.c */
/* Takes the broker's next word to its launcher, whom we play. Returns 0, or a negative errno for
 * one that cannot be understood. */
int sandbox_handle_control(struct sandbox *s);
