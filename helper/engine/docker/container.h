/* One container per sandbox: everything that it is made of stands in container_request(). Called by
 * sandbox.c and by the sweep. */
#pragma once

#include <sys/types.h>

#include "api.h"
#include "engine/account.h"

#define CONTAINER_PREFIX "sbxctl-run-"
#define CONTAINER_HOSTNAME "sandbox"
#define CONTAINER_ID_MAX 80 /* 64 hex digits */
#define CONTAINER_NAME_MAX (sizeof(CONTAINER_PREFIX) + ENGINE_RUN_ID_MAX)
/* Where the launcher finds itself and its control socket. */
#define CONTAINER_LAUNCHER "/.sbxctl-launch"
#define CONTAINER_CONTROL "/.sbxctl-control"

struct container_spec {
    const struct engine_start *start;
    const char *image;   /* id */
    const char *service; /* of this service process, for the sweep */
    uint64_t connection; /* of the service, for the sweep */
    uid_t uid;
    gid_t gid;
    const char *launcher; /* host files */
    const char *inside;   /* a host directory for all, which has the same path inside */
    const char *control;
    const struct account *account;
    const char *runtime; /* NULL: the daemon's default */
    bool searched;       /* the image was looked through for device nodes before */
    bool is_podman;      /* whose tmpfs knows neither an owner nor a number of files */
};

void container_name(const char *run_id, char ret[CONTAINER_NAME_MAX]);

/* The body of the create request; tests/unit/test-docker-container.c holds the complete list of its
 * keys. A new reference, or NULL out of memory. */
json_object *container_request(const struct container_spec *spec);

/* These return 0, or a negative errno with a sentence in the api's error. */
int container_create(struct api *api, const struct container_spec *spec, const char *name,
                     char ret_id[CONTAINER_ID_MAX]);
int container_start(struct api *api, const char *name);

struct container_state {
    bool exists, running, oom_killed;
    pid_t pid; /* of the launcher, as we see it; 0: it does not run */
    int exit_code;
};
int container_inspect(struct api *api, const char *name, struct container_state *ret);
/* What the daemon counted, UINT64_MAX if it did not. */
uint64_t container_memory_peak(struct api *api, const char *name);

/* Return 0 also if there is none, or it does not run. */
int container_kill(struct api *api, const char *name, const char *signal, uint64_t timeout_usec);
/* SIGKILL, without waiting for the daemon's word when @pidfd tells that it has done its work. */
int container_kill_until(struct api *api, const char *name, int pidfd, uint64_t timeout_usec);
int container_remove(struct api *api, const char *name);

/* Removes the containers of the connection @connection of this @service; or, if it is 0, those of
 * every service but this one. Returns how many there were, or a negative errno. */
int container_sweep(struct api *api, const char *service, uint64_t connection);
