/* sbxctl-engine-docker: sandboxes as containers of Docker, or of podman. Socket-activated; runs as
 * a user of its own whose only privilege is Docker's socket. Must never see a byte that a user
 * wrote. */
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <systemd/sd-daemon.h>
#include <systemd/sd-id128.h>
#include <curl/curl.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "config-paths.h"
#include "control.h"
#include "engine/account.h"
#include "engine/service.h"
#include "sandbox.h"
#include "searched.h"

#define CONFIG_PATH SBXCTL_CONFIG_DIR "/engine-docker.conf"
/* Whose programs run in the sandboxes. */
#define SANDBOX_USER "sbxctl-sandbox"
#define CLEAN_UP_SEC 60
/* What a daemon was asked for, and had not made when who asked died, it has made by then. */
#define LATE_SEC 5

static int load_config(struct config *ret, const char *prefix)
{
    _cleanup_free_ char *error = NULL;

    int r = config_load(CONFIG_PATH, ret, &error);
    if (r < 0)
        fprintf(stderr, "%s%s\n", prefix, error ? error : strerror(-r));
    return r;
}

static int find_user(struct service *service)
{
    errno = 0;
    const struct passwd *entry = getpwnam(SANDBOX_USER);
    if (!entry || entry->pw_uid == 0) {
        fprintf(stderr, SD_ERR "There is no user '%s'; run: systemd-sysusers\n", SANDBOX_USER);
        return errno > 0 ? -errno : -ENOENT;
    }
    service->uid = entry->pw_uid;
    service->gid = entry->pw_gid;
    return 0;
}

static int make_id(struct service *service)
{
    sd_id128_t id;

    int r = sd_id128_randomize(&id);
    if (r >= 0)
        sd_id128_to_string(id, service->id);
    return r;
}

/* After the death of a connection. A daemon that is being restarted gets some time; and one that
 * was making the container tells of it only when it has. */
static int clean_up(struct service *service, uint64_t connection)
{
    uint64_t begun = clock_now();

    control_remove(RUNTIME_DIR, connection);
    account_remove(RUNTIME_DIR, connection);
    for (;;) {
        int r = sandbox_sweep(service, connection);
        if (clock_now() - begun > (r < 0 ? CLEAN_UP_SEC : LATE_SEC) * USEC_PER_SEC)
            return r;
        sleep(1);
    }
}

static int serve(struct service *service, struct engine_service *loop)
{
    struct engine_service_event event;

    for (;;) {
        int r = engine_service_wait(loop, &event);
        if (r < 0)
            return r;
        switch (event.type) {
        case ENGINE_SERVICE_CONNECTION:
            _exit(sandbox_serve(event.sock, event.connection, service) < 0);
        case ENGINE_SERVICE_LOST:
            _exit(clean_up(service, event.connection) < 0);
        case ENGINE_SERVICE_DONE:
        default:
            sd_notify(0, "STOPPING=1");
            return 0;
        }
    }
}

static int run(struct config *config)
{
    struct service service = { .config = config, .searched = searched_new() };
    struct engine_service loop;

    int r = load_config(config, SD_ERR);
    r = r < 0 ? r : find_user(&service);
    r = r < 0 ? r : make_id(&service);
    r = r < 0 ? r : engine_service_open(&loop);
    /* The service manager made the socket in the network of the machine; we have one of our own. */
    r = r < 0 ? r : control_network(loop.listener, &service.network);
    if (r < 0)
        return r;
    if (curl_global_init(CURL_GLOBAL_NOTHING) != CURLE_OK)
        return -ENOMEM;
    /* A daemon that is down is to be told to users, so it does not keep us from starting. */
    service.must_sweep = sandbox_sweep(&service, 0) < 0;
    sd_notify(0, "READY=1");
    return serve(&service, &loop);
}

int main(int argc, char *argv[])
{
    struct config config = { 0 };
    bool is_check = argc == 2 && strcmp(argv[1], "--check-configuration") == 0;

    int r = is_check ? load_config(&config, "") : run(&config);
    config_release(&config);
    return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
