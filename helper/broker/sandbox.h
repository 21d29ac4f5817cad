/* One sandbox as the broker sees it: the connection to an engine and, once it is ready, the control
 * socket of the launcher inside. Turns packets into events for its run; holds no policy and never
 * includes an engine. */
#pragma once

#include <systemd/sd-event.h>

#include "engine/protocol.h"
#include "launch/protocol.h"

struct sandbox;

enum sandbox_event_type {
    SANDBOX_PROGRESS,
    SANDBOX_READY,         /* puts may begin; the workspace is there */
    SANDBOX_LISTENING,     /* or that this is not possible */
    SANDBOX_PUT_DONE,      /* of the last put */
    SANDBOX_EXITED,        /* the program ended, says the launcher */
    SANDBOX_LAUNCHER_GONE, /* end of file or nonsense from the launcher, without exited */
    SANDBOX_ENDED,         /* the engine's last word, unless the sandbox stands */
    SANDBOX_FAILED,        /* the engine reported an error; its last word unless it was ready */
    SANDBOX_ENGINE_GONE,   /* end of file or nonsense from the engine, without its last word */
};

struct sandbox_event {
    enum sandbox_event_type type;
    union {
        const struct engine_progress *progress;
        const struct engine_ready *ready;
        struct {
            int error;  /* 0, or the positive errno of what failed */
            int socket; /* listens on the sandbox's loopback; borrowed; -1 with an error */
        } listening;
        const struct launch_put_done *put_done;
        const struct launch_exited *exited;
        const struct engine_ended *ended;
        const struct engine_error *failed;
        int error; /* of *_GONE: 0 at end of file, else a negative errno */
    };
};

/* Called from the event loop; may free the sandbox. */
typedef void (*sandbox_fn)(const struct sandbox_event *event, void *userdata);

#define SANDBOX_SOCKET_MAX 107 /* unix(7) */
/* Where the engine @name listens. Returns 0, or -ENOENT for a name that none can have. */
int sandbox_socket(const char *name, char ret[SANDBOX_SOCKET_MAX + 1]);
/* Returns a non-blocking connection to the engine @name, or a negative errno: -ENOENT and
 * -ECONNREFUSED (no such engine, or it is not running), -EAGAIN (too many wait for it), -EACCES. */
int sandbox_connect(const char *name);

/* Sends @start on a connection to an engine, non-blocking, which is the sandbox's from here on; or
 * on the negative errno that there was instead. Returns 0 or that. */
int sandbox_new(sd_event *event, int engine, const struct engine_start *start, sandbox_fn fn,
                void *userdata, struct sandbox **ret);
/* Events go to @fn from here on. */
void sandbox_adopt(struct sandbox *sandbox, sandbox_fn fn, void *userdata);
/* Whether there is something to hear that the event loop has not come to, be it the end. */
bool sandbox_has_word(const struct sandbox *sandbox);
/* Closes the sockets, and thereby ends what runs in it; the workspace stays. */
void sandbox_close(struct sandbox *sandbox);
/* The connection to its engine, which is the caller's from here on, or -1: after SANDBOX_ENDED of
 * one that stands, where the last word is still to come. */
int sandbox_take_engine(struct sandbox *sandbox);
/* Closes everything, and thereby ends what runs in it. */
struct sandbox *sandbox_free(struct sandbox *sandbox);

/* Its descriptors, borrowed: engine, launcher, workspace; -1 for each that is not there. */
void sandbox_descriptors(const struct sandbox *sandbox, int ret[3]);
/* One that another process left with its program going, of these descriptors, which are taken over
 * in any case. With -1 for the engine, it is over. Returns 0 or a negative errno. */
int sandbox_restore(sd_event *event, const int descriptors[3], sandbox_fn fn, void *userdata,
                    struct sandbox **ret);

/* The workspace's directory fd, borrowed; -1 before ready. Stays valid when the sandbox has ended.
 */
int sandbox_workspace(const struct sandbox *sandbox);
/* Before the first put or after the last one. */
int sandbox_listen(struct sandbox *sandbox);
/* The next put, or the go, only after the last put was reported done. */
int sandbox_put(struct sandbox *sandbox, const char *name, unsigned mode, uint64_t size, int fd);
int sandbox_go(struct sandbox *sandbox, char *const *argv, size_t n_argv, char *const *environment,
               size_t n_environment, const char *directory, const int stdio[3]);
/* The same before the first put, for a program that reads the file of its last argument, and waits
 * for it until sandbox_release(). A sandbox_go() ends it instead. */
int sandbox_warm(struct sandbox *sandbox, char *const *argv, size_t n_argv,
                 char *const *environment, size_t n_environment, const char *directory,
                 const int stdio[3]);
int sandbox_release(struct sandbox *sandbox);
/* That the engine is gone is no error: its last words come first, and then that it is gone. */
int sandbox_kill(struct sandbox *sandbox, uint64_t grace_usec);
