/* An installation, from its begin to its end, see install.h: what it has, how long it may take, and
 * how it fails. What is said meanwhile is heard in install-sandbox.c. */
#include "broker/install-internal.h"
#include "broker/install-plan.h"
#include "broker/pool.h"
#include "common/quantity.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <systemd/sd-daemon.h>

#define GRACE_USEC (5 * 1000 * 1000ULL)
#define ENDING_USEC (5 * 1000 * 1000ULL)

struct install *install_free(struct install *install)
{
    if (!install)
        return NULL;
    sd_event_source_disable_unref(install->timer);
    sd_event_source_disable_unref(install->output_source);
    sandbox_free(install->sandbox);
    egress_free(install->egress);
    install_output_release(&install->output);
    close_fd(install->files[0]);
    close_fd(install->files[1]);
    json_object_put(install->resolved);
    free(install->engine);
    free(install->interpreter);
    free(install->image_digest);
    free(install);
    return NULL;
}

void install_finish(struct install *install)
{
    /* Told by what keeps it from being reached; the installer cannot know. */
    if (install->has_failed && install->refusal[0])
        snprintf(install->failure.hint, sizeof(install->failure.hint),
                 "%s; the administrator sets Index=, NodeIndex= and Hosts= in [Packages].",
                 install->refusal);
    struct install_result result = {
        .failure = install->has_failed ? &install->failure : NULL,
        .engine_failed = install->engine_failed,
        .resolved = install->resolved,
        .workspace = install->sandbox ? sandbox_workspace(install->sandbox) : -1,
    };

    install->state = OVER;
    install->timer = sd_event_source_disable_unref(install->timer);
    install->output_source = sd_event_source_disable_unref(install->output_source);
    install->egress = egress_free(install->egress);
    if (install->sandbox)
        sandbox_close(install->sandbox);
    install->callbacks.done(&result, install->callbacks.userdata);
}

void install_fail_engine(struct install *install, const char *what)
{
    char hint[160];

    snprintf(hint, sizeof(hint),
             "The administrator can try: systemctl restart sbxctl-engine-%.60s.service",
             install->engine);
    INSTALL_FAIL(install, INSTALL_OTHER, hint,
                 "The engine '%.60s' %s while packages were installed.", install->engine, what);
    install->engine_failed = true;
    install_finish(install);
}

void install_fail_egress(struct install *install, const char *what)
{
    INSTALL_FAIL(install, INSTALL_OTHER,
                 "The administrator can try: systemctl restart sbxctl-egress.service",
                 "The way to the package index %s.", what);
    install_finish(install);
}

static int on_ending_timeout(sd_event_source *source, uint64_t usec, void *userdata)
{
    install_fail_engine(userdata, "did not end the sandbox in time");
    return 0;
}

static int arm(struct install *install, uint64_t usec, sd_event_time_handler_t fn)
{
    install->timer = sd_event_source_disable_unref(install->timer);
    return sd_event_add_time_relative(install->manager->event, &install->timer, CLOCK_MONOTONIC,
                                      usec, 10000, fn, install);
}

void install_end(struct install *install)
{
    if (install->state != GOING)
        return;
    install->state = ENDING;
    bool told = sandbox_kill(install->sandbox, 0) >= 0;
    if (arm(install, told ? ENDING_USEC : 0, on_ending_timeout) < 0)
        fprintf(stderr, SD_ERR "installation %s: no timer could be had\n", install->id);
}

static int on_time_over(sd_event_source *source, uint64_t usec, void *userdata)
{
    struct install *install = userdata;
    char time[QUANTITY_TEXT];

    INSTALL_FAIL(install, "too-slow",
                 "Ask for fewer packages; the administrator sets Timeout= in [Packages].",
                 "The packages could not be installed within %s.",
                 format_usec(install->manager->config.packages.timeout_usec, time));
    install_end(install);
    return 0;
}

int install_await_end(struct install *install)
{
    return arm(install, install->manager->config.packages.timeout_usec + GRACE_USEC, on_time_over);
}

static int on_start_timeout(sd_event_source *source, uint64_t usec, void *userdata)
{
    struct install *install = userdata;

    if (install->filled)
        install_fail_egress(install, "was not opened in time");
    else
        install_fail_engine(install, "made no sandbox in time");
    return 0;
}

int install_await_start(struct install *install)
{
    return arm(install, install->manager->config.start_timeout_usec, on_start_timeout);
}

/* Tells it by the callback, and not before install_begin() has returned. */
static int on_no_start(sd_event_source *source, uint64_t usec, void *userdata)
{
    install_finish(userdata);
    return 0;
}

static int connect_all(struct install *install, const struct engine_start *start)
{
    const struct package_index *index =
        config_packages_index(&install->manager->config.packages, install->ecosystem);
    int r = index->is_directory
                ? 0
                : egress_new(install->manager->event, pool_connect_egress(install->manager->pool),
                             install_on_egress, install, &install->egress);

    if (r < 0) {
        INSTALL_FAIL(install, INSTALL_OTHER,
                     "The administrator can try: systemctl enable --now sbxctl-egress.socket",
                     "The way to the package index could not be had: %s.", strerror(-r));
        return arm(install, 0, on_no_start);
    }
    r = sandbox_new(install->manager->event,
                    pool_connect_engine(install->manager->pool, install->engine), start,
                    install_on_sandbox, install, &install->sandbox);
    if (r < 0) {
        INSTALL_FAIL(install, INSTALL_OTHER,
                     "The administrator can look at it with: sbxctl engines",
                     "The engine '%.60s' does not answer: %s.", install->engine, strerror(-r));
        install->engine_failed = true;
        return arm(install, 0, on_no_start);
    }
    return install_await_start(install);
}

int install_begin(struct manager *manager, const struct install_request *request,
                  const struct install_callbacks *callbacks, struct install **ret)
{
    struct install *install = calloc(1, sizeof(*install));
    struct engine_start start;
    uint64_t random;

    if (!install)
        return -ENOMEM;
    *install = (struct install){
        .manager = manager,
        .callbacks = *callbacks,
        .ecosystem = request->ecosystem,
        .engine = strdup(request->engine),
        .interpreter = strdup(request->interpreter),
        .image_digest = request->image_digest ? strdup(request->image_digest) : NULL,
        .files = { -1, -1 },
    };
    int r = install_output_init(&install->output);
    if (!install->engine || !install->interpreter ||
        (request->image_digest && !install->image_digest))
        r = -ENOMEM;
    if (r == 0 && getrandom(&random, sizeof(random), 0) != sizeof(random))
        r = -errno;
    if (r == 0) {
        snprintf(install->id, sizeof(install->id), "%016" PRIx64, random);
        r = install_plan_files(&manager->config.packages, request, install->files);
    }
    if (r == 0) {
        install_plan_sandbox(&manager->config, install->id, request, &start);
        r = connect_all(install, &start);
    }
    if (r < 0)
        install_free(install);
    else
        *ret = install;
    return r < 0 ? r : 0;
}
