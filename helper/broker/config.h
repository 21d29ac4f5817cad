/* The administrator's configuration: <etc>/sbxctl.conf and the drop-ins in sbxctl.conf.d of the
 * vendor's and the administrator's directory. Loaded once at start; a file that is not clean stops
 * the helper, it never half-applies. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stddef.h>

#include "broker/config-network.h"
#include "broker/config-packages.h"
#include "broker/queue.h"
#include "broker/retention.h"

/* What becomes of a script or an argument that seems to hold a credential. */
enum secrets {
    SECRETS_WARN, /* it runs if its caller insists */
    SECRETS_REFUSE,
    SECRETS_ALLOW,
};

#define CONFIG_LANGUAGES_MAX 32
#define CONFIG_WORDS_MAX 16
#define CONFIG_IMAGES_MAX 64

/* What may differ from run to run. */
struct limits {
    bool network;
    uint64_t memory_bytes;
    uint64_t cpu_percent; /* 100 is one CPU */
    uint64_t timeout_usec;
};

struct language {
    char *name;
    char *image;                            /* of an engine with images; NULL: none of its own */
    char *interpreter;                      /* looked up in the sandbox's PATH */
    char *options[CONFIG_WORDS_MAX + 1];    /* between interpreter and script; NULL-terminated */
    char *extensions[CONFIG_WORDS_MAX + 1]; /* with their dot */
    char *shebangs[CONFIG_WORDS_MAX +
                   1]; /* interpreter names in a script's first line, without version */
};

struct config {
    struct limits defaults, ceiling;
    uint64_t tasks;
    uint64_t workspace_bytes, workspace_files;
    uint64_t scratch_bytes;
    uint64_t output_files;
    uint64_t kept_stream_bytes;
    uint64_t script_bytes, input_bytes, inputs;
    struct queue_limits queue;
    struct retention_rules results;
    uint64_t connections_per_user;
    uint64_t cloud_seconds; /* of a user, in a day */
    bool pool_interpreter;
    uint64_t pool_size, pool_keep_usec; /* of each kind; after the last run of that kind */
    uint64_t start_timeout_usec, grace_usec, idle_exit_usec;
    uint64_t approval_timeout_usec; /* how long a dialog may stay open */
    bool audit_required, audit_arguments;
    enum secrets secrets;
    uint64_t audit_refusals; /* of a user, in a minute */
    char *engine;
    char *cloud_engines[CONFIG_WORDS_MAX + 1]; /* where code and files leave the machine */
    char *image_engines[CONFIG_WORDS_MAX + 1]; /* that run images */
    char *image;                               /* of languages that have none; may be NULL */
    char *images[CONFIG_IMAGES_MAX + 1];       /* allowed besides the languages'; see image.h */
    char *templates[CONFIG_WORDS_MAX + 1];     /* of a cloud, allowed besides its default */
    struct config_network network;
    struct config_packages packages;
    struct language languages[CONFIG_LANGUAGES_MAX];
    size_t n_languages;
};

/* Loads <@directory>/sbxctl.conf, then the drop-ins of <@vendor_directory>/sbxctl.conf.d and
 * <@directory>/sbxctl.conf.d in the order of their names (the same name in @directory hides the
 * vendor's). Files and directories must belong to root (or to us) and be writable by nobody else.
 * Returns 0, or a negative errno with a sentence that names file and line in @ret_error, to be
 * freed. */
int config_load(const char *directory, const char *vendor_directory, struct config *ret,
                char **ret_error);
void config_release(struct config *config);

/* NULL if there is none of that name. */
const struct language *config_find_language(const struct config *config, const char *name);
