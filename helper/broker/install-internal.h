/* What an installation consists of; for install.c and install-sandbox.c only. */
#pragma once

#include "broker/egress.h"
#include "broker/install-output.h"
#include "broker/install.h"
#include "broker/sandbox.h"

enum install_state { PREPARING, PUTTING_INSTALLER, PUTTING_REQUEST, GOING, ENDING, OVER };

struct install {
    struct manager *manager;
    struct install_callbacks callbacks;
    char id[17];
    char *engine, *interpreter, *image_digest;
    enum ecosystem ecosystem;
    int files[2]; /* sealed memfds: installer, request */
    enum install_state state;
    bool egress_ready, filled;
    struct sandbox *sandbox;
    struct egress *egress; /* NULL for a directory */
    sd_event_source *timer, *output_source;
    struct install_output output;
    char refusal[256]; /* of a connection, by the egress process; may be empty */
    json_object *resolved;
    bool is_done, has_failed, engine_failed;
    struct install_failure failure;
};

/* The first failure is the one that counts. */
#define INSTALL_FAIL(install, ...)                          \
    do {                                                    \
        if (!(install)->has_failed)                         \
            install_fail(&(install)->failure, __VA_ARGS__); \
        (install)->has_failed = true;                       \
    } while (0)

#define INSTALL_OTHER "other"

/* install.c */
/* Tells how it ended. Often the end of @install. */
void install_finish(struct install *install);
/* The same, after a failure of a part of ours; @what tells what it did: "went away". */
void install_fail_engine(struct install *install, const char *what);
void install_fail_egress(struct install *install, const char *what);
/* From GOING to ENDING: the sandbox has to be over before anything of it is used. Never the end of
 * @install itself: whoever reads its output has it in hand. */
void install_end(struct install *install);
/* Time for the next word of the engine. Returns 0 or a negative errno. */
int install_await_start(struct install *install);
/* Time for the installer, which ends in time by itself; if not, we do. */
int install_await_end(struct install *install);

/* install-sandbox.c */
void install_on_sandbox(const struct sandbox_event *event, void *userdata);
void install_on_egress(const struct egress_event *event, void *userdata);
