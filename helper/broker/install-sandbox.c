/* The installing sandbox. It gets two files, the installer and its request, and runs the one on the
 * other; what comes back is a stream of events and a workspace. Called by install.c. */
#include "broker/install-internal.h"
#include "broker/install-plan.h"
#include "broker/package-installer.h"
#include "broker/policy-environment.h"
#include "common/escape.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>

#define REQUEST_NAME "request.json"
#define TRY_AGAIN "Try again; if it lasts, tell the administrator."

/* ---- what the installer says */

static void take_resolved(struct install *install, json_object *resolved)
{
    struct install_failure denied;

    json_object_put(install->resolved);
    install->resolved = resolved;
    if (install_is_allowed(install->ecosystem, install->manager->config.packages.denied, resolved,
                           &denied))
        return;
    if (!install->has_failed)
        install->failure = denied;
    install->has_failed = true;
    install_end(install);
}

static void take_event(struct install *install, struct install_event *event)
{
    switch (event->type) {
    case INSTALL_EVENT_PROGRESS:
        install->callbacks.progress(&event->progress, install->callbacks.userdata);
        break;
    case INSTALL_EVENT_RESOLVED:
        take_resolved(install, event->resolved);
        break;
    case INSTALL_EVENT_ERROR:
        if (!install->has_failed)
            install->failure = event->failure;
        install->has_failed = true;
        break;
    case INSTALL_EVENT_DONE:
        install->is_done = true;
        break;
    case INSTALL_EVENT_NOTHING:
    default:
        break;
    }
}

static void on_event(struct install_event *event, void *userdata)
{
    struct install *install = userdata;

    if (event) {
        take_event(install, event);
        return;
    }
    INSTALL_FAIL(install, INSTALL_OTHER, TRY_AGAIN, "What the installer says is not understood.");
    install_end(install);
}

/* Returns false when there is nothing more, or nothing more is wanted. */
static bool read_output(struct install *install)
{
    bool more = install_output_read(&install->output, on_event, install);

    if (install_output_is_too_long(&install->output)) {
        INSTALL_FAIL(install, INSTALL_OTHER, TRY_AGAIN, "The installer said more than is read.");
        install_end(install);
    }
    return more;
}

static int on_output(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
    struct install *install = userdata;

    if (!read_output(install) && (revents & EPOLLHUP))
        install->output_source = sd_event_source_disable_unref(install->output_source);
    return 0;
}

/* ---- start */

static int put(struct install *install, enum install_state state, const char *name, int fd)
{
    struct stat st;

    install->state = state;
    return fstat(fd, &st) < 0 ? -errno
                              : sandbox_put(install->sandbox, name, 0644, (uint64_t)st.st_size, fd);
}

static int go(struct install *install)
{
    const struct package_installer *installer = package_installer(install->ecosystem);
    char program[128], request[] = INSTALL_WORKSPACE "/" REQUEST_NAME,
                       *environment[INSTALLER_ENVIRONMENT_MAX];
    size_t n_environment = installer_environment(install->egress != NULL, environment);
    _cleanup_close_ int empty = open("/dev/null", O_RDONLY | O_CLOEXEC), output = -1;
    int ends[2];

    if (empty < 0 || pipe2(ends, O_CLOEXEC) < 0)
        return -errno;
    install->output.fd = ends[0];
    output = ends[1];
    if (fcntl(install->output.fd, F_SETFL, O_NONBLOCK) < 0)
        return -errno;
    int r = sd_event_add_io(install->manager->event, &install->output_source, install->output.fd,
                            EPOLLIN, on_output, install);
    if (r < 0)
        return r;
    snprintf(program, sizeof(program), INSTALL_WORKSPACE "/%s", installer->name);
    char *argv[] = { install->interpreter, program, request };
    install->state = GOING;
    r = install_await_end(install);
    return r < 0 ? r
                 : sandbox_go(install->sandbox, argv, ELEMENTS(argv), environment, n_environment,
                              INSTALL_WORKSPACE, (const int[]){ empty, output, output });
}

static void go_if_ready(struct install *install)
{
    if (!install->filled || install->state >= GOING || (install->egress && !install->egress_ready))
        return;
    if (go(install) < 0)
        install_fail_engine(install, "made a sandbox that took no program");
}

static void next_put(struct install *install)
{
    int r = 0;

    if (install->state == PREPARING)
        r = put(install, PUTTING_INSTALLER, package_installer(install->ecosystem)->name,
                install->files[0]);
    else if (install->state == PUTTING_INSTALLER)
        r = put(install, PUTTING_REQUEST, REQUEST_NAME, install->files[1]);
    else
        install->filled = true;
    if (r < 0)
        install_fail_engine(install, "made a sandbox that took no files");
    else
        go_if_ready(install);
}

/* ---- the way to the index */

/* An index may send its client to hosts that nobody thought of. */
static void note_refusal(struct install *install, const struct egress_connection *connection)
{
    _cleanup_free_ char *name = escape_text(connection->name, strlen(connection->name), 80);
    _cleanup_free_ char *rule = escape_text(connection->rule, strlen(connection->rule), 100);

    if (connection->verdict == EGRESS_REFUSED && !install->refusal[0] && name && rule)
        snprintf(install->refusal, sizeof(install->refusal), "%s:%u was refused by %s", name,
                 connection->port, rule);
}

void install_on_egress(const struct egress_event *event, void *userdata)
{
    struct install *install = userdata;

    switch (event->type) {
    case EGRESS_EVENT_READY:
        install->egress_ready = true;
        go_if_ready(install);
        break;
    case EGRESS_EVENT_CONNECTION:
        note_refusal(install, event->connection);
        break;
    case EGRESS_EVENT_FINISHED:
    case EGRESS_EVENT_FAILED:
    case EGRESS_EVENT_GONE:
    default:
        if (install->state < ENDING)
            install_fail_egress(install, "was lost");
        else
            install->egress = egress_free(install->egress);
        break;
    }
}

static void listening(struct install *install, int error, int socket)
{
    struct egress_start start;

    if (error != 0) {
        install_fail_engine(install, "made a sandbox that nothing can listen in");
        return;
    }
    int r = config_packages_start(&install->manager->config.packages, install->ecosystem,
                                  install->id, &start);
    if (r >= 0) {
        r = egress_start(install->egress, &start, socket);
        config_packages_start_release(&start);
    }
    if (r < 0)
        install_fail_egress(install, "could not be opened");
    else
        next_put(install);
}

/* ---- the sandbox */

static void ready(struct install *install, const struct engine_ready *message)
{
    if (install->state != PREPARING)
        return;
    if (install->image_digest && strcmp(install->image_digest, message->image_digest) != 0) {
        INSTALL_FAIL(install, INSTALL_OTHER, "Try again.",
                     "The image was changed while the packages were made ready.");
        install_finish(install);
        return;
    }
    (void)install_await_start(install);
    if (!install->egress)
        next_put(install);
    else if (sandbox_listen(install->sandbox) < 0)
        install_fail_engine(install, "made a sandbox that took no order to listen");
}

static void exited(struct install *install, const struct launch_exited *exited)
{
    while (read_output(install))
        ;
    if (install->state != GOING)
        return;
    if (exited->kind == LAUNCH_EXIT_EXEC)
        INSTALL_FAIL(install, "no-installer",
                     "Ask the administrator to install it, or use another engine.",
                     "There is no '%.60s' here that could install packages.", install->interpreter);
    install_end(install);
}

static void ended(struct install *install, const struct engine_ended *told)
{
    if (told->oom_kills != UINT64_MAX && told->oom_kills > 0)
        INSTALL_FAIL(
            install, "too-large",
            "Ask for fewer or smaller packages; the administrator sets LayerSize= in [Packages] "
            "and "
            "Memory= in [Ceiling].",
            "Installing the packages needs more memory than is allowed here.");
    while (read_output(install))
        ;
    if (!install->has_failed && (!install->is_done || !install->resolved))
        INSTALL_FAIL(install, INSTALL_OTHER, TRY_AGAIN, "The installer failed%s%s.",
                     install->output.said[0] ? ": " : "", install->output.said);
    install_finish(install);
}

static void progress(struct install *install, const struct engine_progress *message)
{
    struct install_progress told = { .current = message->current, .total = message->total };

    if (install->state == PREPARING)
        (void)install_await_start(install);
    snprintf(told.phase, sizeof(told.phase), "%.16s", message->phase);
    install->callbacks.progress(&told, install->callbacks.userdata);
}

static void refused(struct install *install, const struct engine_error *error)
{
    INSTALL_FAIL(install, INSTALL_OTHER, "", "%s", error->message);
    install->engine_failed = true;
    install_finish(install);
}

void install_on_sandbox(const struct sandbox_event *event, void *userdata)
{
    struct install *install = userdata;

    switch (event->type) {
    case SANDBOX_PROGRESS:
        progress(install, event->progress);
        break;
    case SANDBOX_READY:
        ready(install, event->ready);
        break;
    case SANDBOX_LISTENING:
        listening(install, event->listening.error, event->listening.socket);
        break;
    case SANDBOX_PUT_DONE:
        if (event->put_done->error != 0)
            install_fail_engine(install, "made a sandbox that took no files");
        else
            next_put(install);
        break;
    case SANDBOX_EXITED:
        exited(install, event->exited);
        break;
    case SANDBOX_LAUNCHER_GONE:
        if (install->state < GOING)
            install_fail_engine(install, "lost the sandbox");
        else
            install_end(install);
        break;
    case SANDBOX_ENDED:
        ended(install, event->ended);
        break;
    case SANDBOX_FAILED:
        refused(install, event->failed);
        break;
    case SANDBOX_ENGINE_GONE:
    default:
        install_fail_engine(install, "went away");
        break;
    }
}
