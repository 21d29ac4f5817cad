/* What a connection consists of; for sandbox*.c only. */
#pragma once

#include "sandbox.h"

#include "container.h"
#include "control.h"
#include "engine/dialogue.h"
#include "image.h"

struct sandbox {
    const struct service *service;
    int broker;
    struct control control;
    struct api api;
    uint64_t connection;
    struct engine_start start;
    struct account account;
    struct image image;
    char name[CONTAINER_NAME_MAX];
    bool made; /* there is, or may be, a container */
    char id[CONTAINER_ID_MAX];
    char cgroup[CONTROL_CGROUP_MAX];
    uint64_t cpu_before_usec;    /* used before the program could start */
    uint64_t last_progress_usec; /* when the broker was last told of it */
};

/* sandbox.c */
/* Tells the broker, in a sentence for the user, and returns @error. */
int sandbox_refuse(const struct sandbox *s, int error, const char *sentence);
/* In the words that the api has for it. The phase tells the broker whether another engine would
 * help. */
int sandbox_refuse_api(const struct sandbox *s, int error);

/* sandbox-image.c; what returns a negative errno has sent its sentence, or ended at the broker's
 * word. */
/* With @newest it is pulled even if it is here. */
int sandbox_get_image(struct sandbox *s, bool newest);
/* Whether it is here. That it is not is an answer, and no failure for the journal. */
int sandbox_look_for_image(struct sandbox *s);

/* sandbox-ready.c */
/* Waits for the launcher in the container, and hands it over to the broker. */
enum outcome sandbox_get_ready(struct sandbox *s);
