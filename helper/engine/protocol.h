/* The engine protocol: what the broker and an engine say to each other for one sandbox, over a
 * SOCK_SEQPACKET connection to /run/sbxctl/engine/<name>. One JSON object per packet, at most 64
 * KiB, with a "type" member; fds travel on the same packet. Unknown members are ignored, an unknown
 * type ends the connection.
 *
 *   broker → start                         engine → progress*, then ready or error
 *                                          engine → progress, of a cloud's engine only: "upload"
 *                                                   after go (files are on their way there), then
 *                                                   "start" (the program's time begins), then
 *                                                   "download" (it is over, or is being ended, and
 *                                                   its files are on their way here)
 *                                          engine → error (after go: the program was not started,
 *                                                   or in the phase "lost": how it ended is not
 *                                                   known); ended follows all the same
 *   broker → kill (may come again)         engine → ended (last word), or
 *                                          engine → ended (how it ended, while the sandbox stands
 *                                                   and nothing of the program lives in it), then
 *                                                   removed (last word)
 *
 * or, without any sandbox:
 *
 *   broker → prepare                       engine → progress*, then prepared or error
 *
 * The broker may say nothing for minutes before the first of it (broker/spare.h). End of file from
 * the broker at any time: the engine removes the sandbox and everything in it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/packet.h"

#define ENGINE_PROTOCOL_VERSION 1
#define ENGINE_PACKET_MAX (64 * 1024)
#define ENGINE_SOCKET_DIR "/run/sbxctl/engine"

#define ENGINE_RUN_ID_MAX 32   /* hex digits */
#define ENGINE_TEXT_MAX 512    /* bytes of an image reference, sandbox id, path or sentence */
#define ENGINE_LAYER_LENGTH 64 /* hex digits */
#define ENGINE_HOSTS_MAX 1024

#define ENGINE_PHASE_UPLOAD "upload" /* of a progress, as are the next two */
#define ENGINE_PHASE_START "start"
#define ENGINE_PHASE_DOWNLOAD "download"
#define ENGINE_PHASE_RUNNING "running" /* of a prepare's: how many sandboxes of how many */
#define ENGINE_PHASE_LOST "lost"       /* of an error */
#define ENGINE_PHASE_MISSING "missing" /* of an error, when an image was only looked for */

enum engine_type {
    ENGINE_START,
    ENGINE_KILL,
    ENGINE_PROGRESS,
    ENGINE_READY,
    ENGINE_ENDED,
    ENGINE_ERROR,
    ENGINE_PREPARE,
    ENGINE_PREPARED,
    ENGINE_REMOVED,
};

/* Where a layer is put in the sandbox. */
enum engine_target { ENGINE_TARGET_NONE, ENGINE_TARGET_PACKAGES, ENGINE_TARGET_NODE_MODULES };

struct engine_start {
    char run_id[ENGINE_RUN_ID_MAX + 1];
    char image[ENGINE_TEXT_MAX + 1]; /* empty: the engine's own default */
    /* Packages that the owner has on this machine, to be put there read-only; empty: none. The
     * engine makes the path of it, so it can be nobody else's, and nothing but a layer. */
    char layer[ENGINE_LAYER_LENGTH + 1];
    enum engine_target layer_target; /* NONE exactly if there is no layer */
    /* A directory of the administrator's, to be put at /wheels, read-only: an absolute path without
     * "." and ".."; empty: none. */
    char wheels[ENGINE_TEXT_MAX + 1];
    uint32_t owner_uid;   /* whose run it is: for labels, and for the layer */
    uint32_t cpu_percent; /* 100 is one CPU */
    uint32_t tasks;
    uint32_t workspace_inodes;
    uint64_t memory_bytes;
    uint64_t workspace_bytes;
    uint64_t scratch_bytes; /* each of /tmp and /dev/shm */
    uint64_t lifetime_usec; /* hard end of the sandbox, whatever the broker does */
    /* The engine itself is to open a way out, as no local engine can: their sandboxes have none but
     * the one that the broker makes through the launcher (LISTEN). */
    bool network;
    /* Where it may lead, with spaces between: names, *.NAME, addresses. Empty: anywhere. */
    char hosts[ENGINE_HOSTS_MAX + 1];
};

/* Grace 0: everything dies now. Otherwise SIGTERM first, and SIGKILL when the grace period is over
 * or a kill without grace arrives. Either way the engine then answers with ended. */
struct engine_kill {
    uint64_t grace_usec;
};

struct engine_progress {
    char phase[64];          /* "pull", "start", … */
    uint64_t current, total; /* total 0: unknown */
};

struct engine_ready {
    char sandbox_id[ENGINE_TEXT_MAX + 1];
    char image[ENGINE_TEXT_MAX + 1];        /* as resolved; may be empty */
    char image_digest[ENGINE_TEXT_MAX + 1]; /* may be empty */
    /* fds on the packet: [0] the workspace directory, on a tmpfs that the sandbox does not share
     * with the machine, [1] the launcher's control socket */
};

enum engine_why { ENGINE_WHY_EXIT, ENGINE_WHY_OOM, ENGINE_WHY_TIMEOUT, ENGINE_WHY_KILLED };

/* Counted from outside the sandbox; UINT64_MAX where the engine cannot tell. */
struct engine_ended {
    enum engine_why why; /* OOM: something was killed for memory; TIMEOUT: the lifetime ran out */
    uint64_t oom_kills;
    uint64_t cpu_usec;
    uint64_t memory_peak_bytes;
    uint64_t task_refusals; /* times that a process or thread could not be made */
    uint64_t leftovers;     /* processes, besides the launcher, that were alive when the end came */
    bool cleaned;           /* the sandbox is gone, as far as the engine could make sure */
    bool stands;            /* not yet: removed follows */
};

struct engine_removed {
    bool cleaned; /* as above */
};

struct engine_error {
    char phase[64];
    char message[ENGINE_TEXT_MAX + 1]; /* one sentence that a user can act on */
};

/* Makes sure that the engine can be used; and, if an image is named, that its newest state is here.
 */
struct engine_prepare {
    char image[ENGINE_TEXT_MAX + 1]; /* may be empty */
    bool any_state; /* of the image will do, if it is here; else it is pulled in any case */
    bool look; /* for the image, and pull nothing: an error with ENGINE_PHASE_MISSING if it is not
                  here */
};

struct engine_prepared {
    char image[ENGINE_TEXT_MAX + 1];        /* as resolved; may be empty */
    char image_digest[ENGINE_TEXT_MAX + 1]; /* may be empty */
};

struct engine_message {
    enum engine_type type;
    union {
        struct engine_start start;
        struct engine_kill kill;
        struct engine_progress progress;
        struct engine_ready ready;
        struct engine_ended ended;
        struct engine_error error;
        struct engine_prepare prepare;
        struct engine_prepared prepared;
        struct engine_removed removed;
    };
};

/* Makes the packet's bytes of @message. Returns 0 with an allocated, NUL-terminated string in @ret
 * and its length in @ret_size, or -ENOMEM, or -EMSGSIZE. */
int engine_message_format(const struct engine_message *message, char **ret, size_t *ret_size);

/* Reads the bytes of a packet, which need not be terminated, into @ret. Returns 0; -EBADMSG for
 * what is not a valid message (wrong type, missing member, number out of range, text too long);
 * -EPROTONOSUPPORT for a type or a version this build does not know; -ENOMEM. @ret is written on
 * success only. */
int engine_message_parse(const char *data, size_t size, struct engine_message *ret);

/* Formats and sends; descriptors stay the caller's. Returns 0 or a negative errno, see
 * packet_send(). */
int engine_send(int sock, const struct engine_message *message, const int *fds, size_t n_fds);

/* Receives and parses. Returns 1 with a message and the descriptors, 0 at end of file, or a
 * negative errno as of packet_recv() and engine_message_parse(); descriptors of a refused packet
 * are closed. */
int engine_recv(int sock, struct engine_message *ret, int fds[PACKET_FDS_MAX], size_t *ret_n_fds);

/* "/packages", "/node_modules"; empty for ENGINE_TARGET_NONE. */
const char *engine_target_path(enum engine_target target);
