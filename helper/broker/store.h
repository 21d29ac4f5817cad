/* The store: the one process that may touch what belongs to callers. Forked by the broker at start,
 * before the broker gives its capabilities away; keeps CAP_CHOWN, CAP_DAC_OVERRIDE and CAP_FOWNER
 * and nothing else, makes no socket, talks to the broker alone. Each job is a child of its own, so
 * one caller's big or hostile tree holds up nobody else. This header is the broker's side of it.
 *
 * Layout below the state directory (/var/lib/sbxctl):
 *   index/           sbxctl 0700, see index.h
 *   staging/<id>/    sbxctl 0700, made and filled by the broker: script, stdout, stderr, run.json
 *   users/<uid>/     the caller's, 0700; users/<uid>/<id>/ is a published run, all the caller's
 *   layers/<uid>/<key>/  sbxctl 0700, installed packages, see store-layer.h */
#pragma once

#include <stdint.h>
#include <sys/types.h>
#include <systemd/sd-event.h>

#include "common/json.h"

struct store;
struct store_job;

/* An input as the launcher made it; an entry that still looks like this was not changed and is no
 * output. */
struct store_input {
    const char *name; /* path below the workspace */
    uint64_t inode, size;
    int64_t ctime_sec, ctime_nsec, mtime_sec, mtime_nsec;
};

struct store_collect {
    const char *run_id;
    uid_t uid; /* the caller's */
    gid_t gid;
    int workspace;                 /* directory fd, borrowed; -1: nothing to collect */
    uint64_t files_max, bytes_max; /* of all outputs together */
    const struct store_input *inputs;
    size_t n_inputs;
};

/* Packages that were installed in a sandbox of their own. */
struct store_layer {
    uid_t uid;
    const char *key;    /* 64 hex digits, see layer-key.h */
    int workspace;      /* directory fd of that sandbox, which is over; borrowed */
    const char *folder; /* the folder in it that becomes the layer's tree */
    uint64_t files_max; /* folders count, too */
    uint64_t bytes_max;
    /* What the broker wants to know of it later, at most 1 MiB; borrowed. "resolved" is what grows
     * large, and is left out of lists. */
    json_object *facts;
};

/* How a job ended: @error is 0 or a negative errno. @result is borrowed and may be NULL, @fd is -1
 * or the callee's to close. Called from the event loop exactly once per started step; may free the
 * job. -EBUSY: too many jobs wait; -EIO: the job's process died or took longer than five minutes.
 * When a removal fails, @result is { "reason": sentence, "name": the escaped name of what could not
 * be removed }; when a file was opened, { "bytes": N }. */
typedef void (*store_fn)(int error, json_object *result, int fd, void *userdata);

/* Forks the store process. To be called first thing in main(), single-threaded. Returns 0 or a
 * negative errno. */
int store_fork(const char *state_directory, struct store **ret);
/* Lets the answers be taken by @event. If the store process dies, the event loop ends with -EPIPE:
 * no run could be finished without it. */
int store_attach(struct store *store, sd_event *event);
struct store *store_free(struct store *store);

/* Collects a finished workspace into staging/<id>/files. The result, names escaped for display:
 *   { "files": [{"name", "bytes"}], "skipped": [{"name", "reason"}], "bytes": N }
 * The job is then waiting for store_publish() or store_job_free(). Returns, as all that start a
 * step do, 0 or a negative errno; then @done is not called. */
int store_collect(struct store *store, const struct store_collect *request, store_fn done,
                  void *userdata, struct store_job **ret);
/* Gives staging/<id> to the caller and renames it to users/<uid>/<id>. */
int store_publish(struct store_job *job, store_fn done, void *userdata);
/* The same for a run that was collected, with all that belongs to it, when the broker ended; also
 * if some of it is its user's already. */
int store_publish_staged(struct store *store, const char *run_id, uid_t uid, gid_t gid,
                         store_fn done, void *userdata, struct store_job **ret);
/* Forgets the job; its callback is not called any more. NULL is fine. */
struct store_job *store_job_free(struct store_job *job);

/* Removes users/<uid>/<id>; -ENOENT if it is not there. */
int store_remove(struct store *store, uid_t uid, const char *run_id, store_fn done, void *userdata,
                 struct store_job **ret);
/* Opens a kept file of a published run for reading: "stdout", "stderr", "script", "run.json" or
 * "files/NAME" with NAME escaped as in the result of the collection. Gives its fd to @done; only
 * for a regular file of the caller. */
int store_open(struct store *store, uid_t uid, const char *run_id, const char *name, store_fn done,
               void *userdata, struct store_job **ret);
/* Removes staging/<id>, whoever owns what is in it: a publication that a crash cut short leaves
 * files there that the broker cannot remove. -ENOENT if it is not there. */
int store_discard(struct store *store, const char *run_id, store_fn done, void *userdata,
                  struct store_job **ret);

/* How much lies in each of the user's published runs: { "runs": { "<id>": { "bytes", "files" } } }.
 * -ENOENT: the user has none. */
int store_survey(struct store *store, uid_t uid, store_fn done, void *userdata,
                 struct store_job **ret);

/* Layers. The broker sees to it that a layer is installed once at a time, and removed only when
 * nobody uses it.
 *
 * Makes one, durably, of what a sandbox left. The result is { "bytes", "files", "skipped": links
 * and the like, which are left out }. -EFBIG, with { "reason": sentence }: it breaks a limit.
 * -EEXIST: there is one. -ENOENT: there is no such folder. */
int store_layer_install(struct store *store, const struct store_layer *layer, store_fn done,
                        void *userdata, struct store_job **ret);
/* -ENOENT if there is none. */
int store_layer_remove(struct store *store, uid_t uid, const char *key, store_fn done,
                       void *userdata, struct store_job **ret);
/* Those of one user: { "layers": [their facts, without "resolved", and with "key", "createdUSec",
 * "usedUSec" (both since the epoch), "bytes" and "files"], "more": how many there are besides }. */
int store_layer_list(struct store *store, uid_t uid, store_fn done, void *userdata,
                     struct store_job **ret);
/* Removes what crashes left half made, then tells of all: { "layers": [{"uid", "key",
 * "createdUSec", "usedUSec", "bytes", "files"}], "more", "removed" }. For the broker's start:
 * nothing may be being installed. */
int store_layer_load(struct store *store, store_fn done, void *userdata, struct store_job **ret);
