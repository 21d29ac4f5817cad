/* sbxctl-engine-e2b: sandboxes in E2B's cloud, or one that speaks like it. Socket-activated; runs
 * as a user of its own that holds the key and nothing else. Must never show the key to anybody but
 * the control plane. */
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <systemd/sd-daemon.h>
#include <systemd/sd-id128.h>
#include <curl/curl.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "config-paths.h"
#include "engine/service.h"
#include "key.h"
#include "sandbox.h"

#define CONFIG_PATH SBXCTL_CONFIG_DIR "/engine-e2b.conf"
/* A create that was on its way when its process died makes its sandbox a little later. */
#define LATE_SEC 10
#define CLEAN_UP_SEC 300
/* Nobody waits longer for the service, however many there are and however slow the cloud is. */
#define FIRST_SWEEP_USEC (5 * USEC_PER_SEC)
#define LAST_SWEEP_USEC (20 * USEC_PER_SEC)
#define SWEEP_USEC (120 * USEC_PER_SEC)

/* Ours alone: so nobody can tell from it what else this machine is. */
static const sd_id128_t application =
    SD_ID128_MAKE(8d, 1f, 52, c0, 7a, 2e, 4b, 93, 9c, 64, 05, e7, b8, 31, da, 4f);

/* ---- memory: what libcurl frees may have held the key */

static void *wipe_calloc(size_t n, size_t size)
{
    return calloc(n, size);
}

static void wipe_free(void *p)
{
    if (p)
        explicit_bzero(p, malloc_usable_size(p));
    free(p);
}

static void *wipe_realloc(void *p, size_t size)
{
    void *moved = p ? malloc(size) : NULL;

    if (!p)
        return malloc(size);
    if (moved) {
        size_t old = malloc_usable_size(p);
        memcpy(moved, p, old < size ? old : size);
        wipe_free(p);
    }
    return moved;
}

/* ---- setting up */

/* Proxies, certificates, key logs: libcurl and OpenSSL take them from here. */
static int forget_environment(void)
{
    static const char *const kept[] = { "CREDENTIALS_DIRECTORY", "NOTIFY_SOCKET", "LISTEN_FDS",
                                        "LISTEN_PID", "LISTEN_FDNAMES" };
    char *values[ELEMENTS(kept)];

    for (size_t i = 0; i < ELEMENTS(kept); i++) {
        const char *value = getenv(kept[i]);
        values[i] = value ? strdup(value) : NULL;
    }
    clearenv();
    int r = 0;
    for (size_t i = 0; i < ELEMENTS(kept); i++) {
        if (values[i] && setenv(kept[i], values[i], 1) < 0)
            r = -errno;
        free(values[i]);
    }
    return r;
}

/* Nobody looks into this process, and nothing of it is written anywhere. */
static int hide_memory(void)
{
    return prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 ? -errno : 0;
}

static int load_config(struct config *ret, const char *prefix)
{
    _cleanup_free_ char *error = NULL;

    int r = config_load(CONFIG_PATH, ret, &error);
    if (r < 0)
        fprintf(stderr, "%s%s\n", prefix, error ? error : strerror(-r));
    return r;
}

/* Without a key the service runs, and says so to whoever asks for a sandbox. */
static int load_key(void)
{
    int r = key_load();

    if (r == -ENOENT)
        return 0;
    if (r < 0)
        fprintf(stderr, SD_ERR "The credential " KEY_CREDENTIAL " cannot be used: %s\n",
                r == -EBADMSG ? "it is not one line of 8 to 256 visible characters" : strerror(-r));
    return r;
}

static int make_ids(struct service *service)
{
    sd_id128_t id;

    int r = sd_id128_randomize(&id);
    if (r < 0)
        return r;
    sd_id128_to_string(id, service->id);
    r = sd_id128_get_machine_app_specific(application, &id);
    if (r >= 0)
        sd_id128_to_string(id, service->machine);
    return r;
}

/* ---- serving */

/* For what comes late, could not be reached, or was asked to end and did not. @error is of the
 * sweep before. */
static int sweep_again(struct service *service, uint64_t connection, int error)
{
    uint64_t deadline = clock_now() + CLEAN_UP_SEC * USEC_PER_SEC;
    int r;

    if (error < 0)
        sandbox_sweep(service, connection, SWEEP_USEC);
    do {
        sleep(LATE_SEC);
        r = sandbox_sweep(service, connection, SWEEP_USEC);
    } while (r != 0 && clock_now() < deadline);
    return r < 0 ? r : 0;
}

/* After the death of a connection. */
static int clean_up(struct service *service, uint64_t connection)
{
    int r = sandbox_sweep(service, connection, SWEEP_USEC);

    r = sweep_again(service, connection, r);
    places_leave(service->places, connection);
    return r;
}

/* At once, and then in a process of its own. */
static void sweep(struct service *service)
{
    int r = sandbox_sweep(service, SANDBOX_SWEEP_EARLIER, FIRST_SWEEP_USEC);
    pid_t pid = fork();
    if (pid != 0)
        return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    _exit(sweep_again(service, SANDBOX_SWEEP_EARLIER, r) < 0);
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
            /* Told to stop: the processes of the sandboxes are, too, and do not get to it. */
            if (loop->n_children > 0)
                sandbox_sweep(service, SANDBOX_SWEEP_OURS, LAST_SWEEP_USEC);
            return 0;
        }
    }
}

static int run(struct config *config)
{
    struct service service = { .config = config };
    struct engine_service loop;

    int r = hide_memory();
    r = r < 0 ? r : forget_environment();
    r = r < 0 ? r : load_config(config, SD_ERR);
    r = r < 0 ? r : load_key();
    r = r < 0 ? r : make_ids(&service);
    r = r < 0 ? r : engine_service_open(&loop);
    if (r < 0)
        return r;
    service.places = places_new(config->max_sandboxes);
    if (!service.places || curl_global_init_mem(CURL_GLOBAL_DEFAULT, malloc, wipe_free,
                                                wipe_realloc, strdup, wipe_calloc) != CURLE_OK)
        return -ENOMEM;
    sweep(&service);
    sd_notify(0, "READY=1");
    return serve(&service, &loop);
}

int main(int argc, char *argv[])
{
    struct config config = { 0 };
    bool is_check = argc == 2 && strcmp(argv[1], "--check-configuration") == 0;

    int r = is_check ? load_config(&config, "") : run(&config);
    key_forget();
    config_release(&config);
    return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
