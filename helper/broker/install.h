/* One installation of packages: a sandbox of its own on the run's engine and image, with nothing of
 * the run in it, that reaches the index and nothing else. Called by layer-build.c; knows neither
 * runs nor layers. */
#pragma once

#include "broker/install-events.h"
#include "broker/manager.h"

struct install;

/* What is wanted. Borrowed until install_begin() returns. */
struct install_request {
    uid_t uid;
    const char *engine, *image; /* image NULL: the engine runs none */
    const char *image_digest;   /* which state of it; NULL: any */
    const char *interpreter;
    enum ecosystem ecosystem;
    const struct package *packages;
    size_t n_packages;
    bool require_hashes;
};

/* Copies all that @from points to. Returns 0 or -ENOMEM; @to is to be released either way. */
int install_request_copy(struct install_request *to, const struct install_request *from);
void install_request_release(struct install_request *request);

/* How it ended. */
struct install_result {
    const struct install_failure *failure; /* NULL: well */
    bool engine_failed;    /* it is the engine that did not do its part, or could not be had */
    json_object *resolved; /* borrowed; NULL if it came not so far */
    int workspace;         /* directory fd of the sandbox, which is over; borrowed */
};

struct install_callbacks {
    void (*progress)(const struct install_progress *progress, void *userdata);
    /* Exactly once, from the event loop, unless it was freed before; may free it. */
    void (*done)(const struct install_result *result, void *userdata);
    void *userdata;
};

/* Returns 0 or a negative errno for a failure of ours. */
int install_begin(struct manager *manager, const struct install_request *request,
                  const struct install_callbacks *callbacks, struct install **ret);
/* Ends it, and everything that runs for it. NULL is fine. */
struct install *install_free(struct install *install);

/* How much of the machine its sandbox may have; in install-plan.c. */
uint64_t install_memory(const struct config *config);
uint64_t install_cpus(const struct config *config); /* percent of one */
