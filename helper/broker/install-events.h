/* What an installer tells while it works (helper/packages/), read with limits: it shares its
 * sandbox with what it gets, so nothing of it is believed but what it means for this one layer.
 * Pure. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "broker/package.h"
#include "common/json.h"

#define INSTALL_LINE_MAX (256 * 1024) /* holds the list of what was resolved */
#define INSTALL_OUTPUT_MAX (8 * 1024 * 1024)
#define INSTALL_RESOLVED_MAX 1000
#define INSTALL_PHASE_MAX 16
#define INSTALL_KIND_MAX 16
#define INSTALL_TEXT_MAX 400 /* bytes of a sentence */

enum install_event_type {
    INSTALL_EVENT_NOTHING, /* an unknown one, or no event at all */
    INSTALL_EVENT_PROGRESS,
    INSTALL_EVENT_RESOLVED,
    INSTALL_EVENT_ERROR,
    INSTALL_EVENT_DONE,
};

struct install_progress {
    char phase[INSTALL_PHASE_MAX + 1]; /* "resolve", "download", "install" */
    uint64_t current, total;           /* total 0: unknown */
    char name[PACKAGE_NAME_MAX + 1];   /* may be empty; one line, printable */
};

/* Sentences are one line each, printable. */
struct install_failure {
    char kind[INSTALL_KIND_MAX + 1]; /* small letters and dashes */
    char package[PACKAGE_NAME_MAX + 1];
    char reason[INSTALL_TEXT_MAX + 1];
    char hint[INSTALL_TEXT_MAX + 1];
};

struct install_event {
    enum install_event_type type;
    union {
        struct install_progress progress;
        struct install_failure failure;
        json_object *resolved; /* an array of {name, version, hash}; a reference */
    };
};

/* Reads one line, which need not be terminated. Returns 0; -EBADMSG for an event that is not well
 * formed; -ENOMEM. */
int install_event_parse(const char *line, size_t size, struct install_event *ret);

/* Whether @resolved may become a layer: no name of it is denied. If not, @ret says so. */
bool install_is_allowed(enum ecosystem ecosystem, char *const *denied, json_object *resolved,
                        struct install_failure *ret);

__attribute__((format(printf, 4, 5))) void install_fail(struct install_failure *ret,
                                                        const char *kind, const char *hint,
                                                        const char *format, ...);
