/* The installing sandbox, see install.h. It gets two files, the installer and its request, and runs
 * the one on the other; what comes back is a stream of events and a workspace. */
#include "broker/install.h"
#include "broker/egress.h"
#include "broker/package-installer.h"
#include "broker/policy-environment.h"
#include "broker/pool.h"
#include "broker/sandbox.h"
#include "common/escape.h"
#include "common/file.h"
#include "common/memfd.h"
#include "common/quantity.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <systemd/sd-daemon.h>

#define WORKSPACE "/workspace"
#define REQUEST_PATH WORKSPACE "/" REQUEST_NAME
#define WHEELS "/wheels"
#define REQUEST_NAME "request.json"
/* What is got lies in the workspace beside what is made of it, and there is the installer. */
#define WHEELS_BYTES (UINT64_C(256) << 20)
#define MEMORY_BYTES (UINT64_C(512) << 20)
/* The installer ends in time by itself; if not, we do. */
#define GRACE_USEC (5 * 1000 * 1000ULL)
#define LIFETIME_MARGIN_USEC (60 * 1000 * 1000ULL)
#define ENDING_USEC (5 * 1000 * 1000ULL)

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
    int output;
    char *line; /* INSTALL_LINE_MAX bytes */
    size_t n_line;
    uint64_t n_output;
    char refusal[256]; /* of a connection, by the egress process; may be empty */
    char said[200];    /* the last line that was no event */
    json_object *resolved;
    bool is_done, has_failed, engine_failed;
    struct install_failure failure;
};

struct install *install_free(struct install *install)
{
    if (!install)
        return NULL;
    sd_event_source_disable_unref(install->timer);
    sd_event_source_disable_unref(install->output_source);
    sandbox_free(install->sandbox);
    egress_free(install->egress);
    close_fd(install->output);
    close_fd(install->files[0]);
    close_fd(install->files[1]);
    json_object_put(install->resolved);
    free(install->line);
    free(install->engine);
    free(install->interpreter);
    free(install->image_digest);
    free(install);
    return NULL;
}

static const struct package_index *index_of(const struct install *install)
{
    return config_packages_index(&install->manager->config.packages, install->ecosystem);
}

/* ---- the end */

/* Often the end of @install. */
static void finish(struct install *install)
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

/* The first failure is the one that counts. */
#define FAIL(install, ...)                                  \
    do {                                                    \
        if (!(install)->has_failed)                         \
            install_fail(&(install)->failure, __VA_ARGS__); \
        (install)->has_failed = true;                       \
    } while (0)

#define OTHER "other"
#define TRY_AGAIN "Try again; if it lasts, tell the administrator."

static void fail_engine(struct install *install, const char *what)
{
    char hint[160];

    snprintf(hint, sizeof(hint),
             "The administrator can try: systemctl restart sbxctl-engine-%.60s.service",
             install->engine);
    FAIL(install, OTHER, hint, "The engine '%.60s' %s while packages were installed.",
         install->engine, what);
    install->engine_failed = true;
    finish(install);
}

static void fail_egress(struct install *install, const char *what)
{
    FAIL(install, OTHER, "The administrator can try: systemctl restart sbxctl-egress.service",
         "The way to the package index %s.", what);
    finish(install);
}

static int on_ending_timeout(sd_event_source *source, uint64_t usec, void *userdata)
{
    fail_engine(userdata, "did not end the sandbox in time");
    return 0;
}

static int arm(struct install *install, uint64_t usec, sd_event_time_handler_t fn)
{
    install->timer = sd_event_source_disable_unref(install->timer);
    return sd_event_add_time_relative(install->manager->event, &install->timer, CLOCK_MONOTONIC,
                                      usec, 10000, fn, install);
}

/* The sandbox has to be over before anything of it is used. */
static void end(struct install *install)
{
    if (install->state != GOING)
        return;
    install->state = ENDING;
    /* Never the end of @install itself: whoever reads its output has it in hand. */
    bool told = sandbox_kill(install->sandbox, 0) >= 0;
    if (arm(install, told ? ENDING_USEC : 0, on_ending_timeout) < 0)
        fprintf(stderr, SD_ERR "installation %s: no timer could be had\n", install->id);
}

static int on_time_over(sd_event_source *source, uint64_t usec, void *userdata)
{
    struct install *install = userdata;
    char time[QUANTITY_TEXT];

    FAIL(install, "too-slow",
         "Ask for fewer packages; the administrator sets Timeout= in [Packages].",
         "The packages could not be installed within %s.",
         format_usec(install->manager->config.packages.timeout_usec, time));
    end(install);
    return 0;
}

static int on_start_timeout(sd_event_source *source, uint64_t usec, void *userdata)
{
    struct install *install = userdata;

    if (install->filled)
        fail_egress(install, "was not opened in time");
    else
        fail_engine(install, "made no sandbox in time");
    return 0;
}

static int await_start(struct install *install)
{
    return arm(install, install->manager->config.start_timeout_usec, on_start_timeout);
}

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
    end(install);
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

static void take_line(struct install *install)
{
    struct install_event event;

    if (install_event_parse(install->line, install->n_line, &event) < 0) {
        FAIL(install, OTHER, TRY_AGAIN, "What the installer says is not understood.");
        end(install);
    } else if (event.type != INSTALL_EVENT_NOTHING) {
        take_event(install, &event);
    } else if (install->n_line > 0) {
        _cleanup_free_ char *shown =
            escape_text(install->line, install->n_line, sizeof(install->said) - 1);
        snprintf(install->said, sizeof(install->said), "%s", shown ? shown : "");
    }
    install->n_line = 0;
}

static void take_bytes(struct install *install, const char *bytes, size_t n)
{
    install->n_output += n;
    for (size_t i = 0; i < n; i++) {
        if (bytes[i] == '\n')
            take_line(install);
        else if (install->n_line < INSTALL_LINE_MAX)
            install->line[install->n_line++] = bytes[i];
    }
    if (install->n_output <= INSTALL_OUTPUT_MAX)
        return;
    FAIL(install, OTHER, TRY_AGAIN, "The installer said more than is read.");
    end(install);
}

/* Returns false when there is nothing more, or nothing more is wanted. */
static bool read_output(struct install *install)
{
    char buffer[16 * 1024];

    ssize_t n = read(install->output, buffer, sizeof(buffer));
    if (n <= 0 || install->n_output > INSTALL_OUTPUT_MAX)
        return n < 0 && errno == EINTR;
    take_bytes(install, buffer, (size_t)n);
    return true;
}

static int on_output(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
    struct install *install = userdata;

    if (!read_output(install) && (revents & EPOLLHUP))
        install->output_source = sd_event_source_disable_unref(install->output_source);
    return 0;
}

/* ---- start */

static int add_requirements(json_object *request, const struct install_request *from)
{
    json_object *list = json_object_new_array();
    int r = json_add(request, "requirements", list);

    for (size_t i = 0; r >= 0 && i < from->n_packages; i++) {
        const struct package *package = &from->packages[i];
        size_t room = strlen(package->text) + 1 +
                      package->n_hashes * (sizeof(" --hash=sha256:") + sizeof(package_hash));
        _cleanup_free_ char *text = malloc(room);
        if (!text)
            return -ENOMEM;
        size_t used = (size_t)sprintf(text, "%s", package->text);
        for (size_t j = 0; j < package->n_hashes; j++)
            used += (size_t)sprintf(text + used, " --hash=sha256:%s", package->hashes[j]);
        r = json_append(list, json_object_new_string(text));
    }
    return r;
}

static json_object *make_request(const struct install *install, const struct install_request *from)
{
    const struct config_packages *packages = &install->manager->config.packages;
    const struct package_index *index = index_of(install);
    _cleanup_json_ json_object *request = json_object_new_object();
    char target[64];

    snprintf(target, sizeof(target), WORKSPACE "/%s", package_installer(from->ecosystem)->folder);
    if (!request || json_add_string(request, "target", target) < 0 ||
        json_add_string(request, "index", index->is_directory ? WHEELS : index->text) < 0 ||
        add_requirements(request, from) < 0 ||
        json_add_bool(request, "requireHashes", from->require_hashes) < 0 ||
        json_add_bool(request, "onlyBinary", packages->only_binary) < 0 ||
        json_add_uint64(request, "bytes", packages->layer_bytes) < 0 ||
        json_add_uint64(request, "seconds", packages->timeout_usec / 1000000) < 0 ||
        json_add_uint64(request, "most", INSTALL_RESOLVED_MAX) < 0)
        return NULL;
    return TAKE_PTR(request);
}

static int make_file(const void *bytes, size_t size, int *ret)
{
    _cleanup_close_ int fd = memfd_new("sbxctl");
    int r = fd < 0 ? fd : pwrite_all(fd, bytes, size, 0);

    r = r < 0 ? r : memfd_seal(fd);
    if (r >= 0)
        *ret = TAKE_FD(fd);
    return r;
}

static int make_files(struct install *install, const struct install_request *from)
{
    const struct package_installer *installer = package_installer(from->ecosystem);
    _cleanup_json_ json_object *request = make_request(install, from);
    size_t size;
    const char *text = request ? json_text(request, &size) : NULL;

    if (!text)
        return -ENOMEM;
    int r = make_file(installer->text, installer->size, &install->files[0]);
    return r < 0 ? r : make_file(text, size, &install->files[1]);
}

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
    char program[128], request[] = REQUEST_PATH, *environment[INSTALLER_ENVIRONMENT_MAX];
    size_t n_environment = installer_environment(install->egress != NULL, environment);
    _cleanup_close_ int empty = open("/dev/null", O_RDONLY | O_CLOEXEC), output = -1;
    int ends[2];

    if (empty < 0 || pipe2(ends, O_CLOEXEC) < 0)
        return -errno;
    install->output = ends[0];
    output = ends[1];
    if (fcntl(install->output, F_SETFL, O_NONBLOCK) < 0)
        return -errno;
    int r = sd_event_add_io(install->manager->event, &install->output_source, install->output,
                            EPOLLIN, on_output, install);
    if (r < 0)
        return r;
    snprintf(program, sizeof(program), WORKSPACE "/%s", installer->name);
    char *argv[] = { install->interpreter, program, request };
    install->state = GOING;
    r = arm(install, install->manager->config.packages.timeout_usec + GRACE_USEC, on_time_over);
    return r < 0 ? r
                 : sandbox_go(install->sandbox, argv, ELEMENTS(argv), environment, n_environment,
                              WORKSPACE, (const int[]){ empty, output, output });
}

static void go_if_ready(struct install *install)
{
    if (!install->filled || install->state >= GOING || (install->egress && !install->egress_ready))
        return;
    if (go(install) < 0)
        fail_engine(install, "made a sandbox that took no program");
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
        fail_engine(install, "made a sandbox that took no files");
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

static void on_egress(const struct egress_event *event, void *userdata)
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
            fail_egress(install, "was lost");
        else
            install->egress = egress_free(install->egress);
        break;
    }
}

static void listening(struct install *install, int error, int socket)
{
    struct egress_start start;

    if (error != 0) {
        fail_engine(install, "made a sandbox that nothing can listen in");
        return;
    }
    int r = config_packages_start(&install->manager->config.packages, install->ecosystem,
                                  install->id, &start);
    if (r >= 0) {
        r = egress_start(install->egress, &start, socket);
        config_packages_start_release(&start);
    }
    if (r < 0)
        fail_egress(install, "could not be opened");
    else
        next_put(install);
}

/* ---- the sandbox */

static void ready(struct install *install, const struct engine_ready *message)
{
    if (install->state != PREPARING)
        return;
    if (install->image_digest && strcmp(install->image_digest, message->image_digest) != 0) {
        FAIL(install, OTHER, "Try again.",
             "The image was changed while the packages were made ready.");
        finish(install);
        return;
    }
    (void)await_start(install);
    if (!install->egress)
        next_put(install);
    else if (sandbox_listen(install->sandbox) < 0)
        fail_engine(install, "made a sandbox that took no order to listen");
}

static void exited(struct install *install, const struct launch_exited *exited)
{
    while (read_output(install))
        ;
    if (install->state != GOING)
        return;
    if (exited->kind == LAUNCH_EXIT_EXEC)
        FAIL(install, "no-installer", "Ask the administrator to install it, or use another engine.",
             "There is no '%.60s' here that could install packages.", install->interpreter);
    end(install);
}

static void ended(struct install *install, const struct engine_ended *told)
{
    if (told->oom_kills != UINT64_MAX && told->oom_kills > 0)
        FAIL(install, "too-large",
             "Ask for fewer or smaller packages; the administrator sets LayerSize= in [Packages] "
             "and "
             "Memory= in [Ceiling].",
             "Installing the packages needs more memory than is allowed here.");
    if (install->output >= 0)
        while (read_output(install))
            ;
    if (!install->has_failed && (!install->is_done || !install->resolved))
        FAIL(install, OTHER, TRY_AGAIN, "The installer failed%s%s.", install->said[0] ? ": " : "",
             install->said);
    finish(install);
}

static void progress(struct install *install, const struct engine_progress *message)
{
    struct install_progress told = { .current = message->current, .total = message->total };

    if (install->state == PREPARING)
        (void)await_start(install);
    snprintf(told.phase, sizeof(told.phase), "%.16s", message->phase);
    install->callbacks.progress(&told, install->callbacks.userdata);
}

static void refused(struct install *install, const struct engine_error *error)
{
    FAIL(install, OTHER, "", "%s", error->message);
    install->engine_failed = true;
    finish(install);
}

static void on_sandbox(const struct sandbox_event *event, void *userdata)
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
            fail_engine(install, "made a sandbox that took no files");
        else
            next_put(install);
        break;
    case SANDBOX_EXITED:
        exited(install, event->exited);
        break;
    case SANDBOX_LAUNCHER_GONE:
        if (install->state < GOING)
            fail_engine(install, "lost the sandbox");
        else
            end(install);
        break;
    case SANDBOX_ENDED:
        ended(install, event->ended);
        break;
    case SANDBOX_FAILED:
        refused(install, event->failed);
        break;
    case SANDBOX_ENGINE_GONE:
    default:
        fail_engine(install, "went away");
        break;
    }
}

/* What is installed lies in memory, too, but no sandbox has more of it than the administrator's
 * most. */
uint64_t install_memory(const struct config *config)
{
    uint64_t wanted = config->packages.layer_bytes + MEMORY_BYTES;

    return wanted < config->ceiling.memory_bytes ? wanted : config->ceiling.memory_bytes;
}

uint64_t install_cpus(const struct config *config)
{
    return config->ceiling.cpu_percent;
}

static void fill_start(const struct install *install, const struct install_request *from,
                       struct engine_start *ret)
{
    const struct config *config = &install->manager->config;
    const struct config_packages *packages = &config->packages;
    const struct package_index *index = index_of(install);

    *ret = (struct engine_start){
        .owner_uid = from->uid,
        .cpu_percent = (uint32_t)install_cpus(config),
        .tasks = (uint32_t)config->tasks,
        .workspace_inodes = (uint32_t)(2 * packages->layer_files + 1000),
        .memory_bytes = install_memory(config),
        .workspace_bytes = packages->layer_bytes + WHEELS_BYTES,
        .scratch_bytes = config->scratch_bytes,
        .lifetime_usec = packages->timeout_usec + config->start_timeout_usec + LIFETIME_MARGIN_USEC,
    };
    snprintf(ret->run_id, sizeof(ret->run_id), "%s", install->id);
    if (from->image)
        snprintf(ret->image, sizeof(ret->image), "%s", from->image);
    if (index->is_directory)
        snprintf(ret->wheels, sizeof(ret->wheels), "%s", index->text);
}

/* Tells it by the callback, and not before install_begin() has returned. */
static int on_no_start(sd_event_source *source, uint64_t usec, void *userdata)
{
    finish(userdata);
    return 0;
}

static int connect_all(struct install *install, const struct engine_start *start)
{
    int r = index_of(install)->is_directory
                ? 0
                : egress_new(install->manager->event, pool_connect_egress(install->manager->pool),
                             on_egress, install, &install->egress);

    if (r < 0) {
        FAIL(install, OTHER,
             "The administrator can try: systemctl enable --now sbxctl-egress.socket",
             "The way to the package index could not be had: %s.", strerror(-r));
        return arm(install, 0, on_no_start);
    }
    r = sandbox_new(install->manager->event,
                    pool_connect_engine(install->manager->pool, install->engine), start, on_sandbox,
                    install, &install->sandbox);
    if (r < 0) {
        FAIL(install, OTHER, "The administrator can look at it with: sbxctl engines",
             "The engine '%.60s' does not answer: %s.", install->engine, strerror(-r));
        install->engine_failed = true;
        return arm(install, 0, on_no_start);
    }
    return await_start(install);
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
        .output = -1,
        .line = malloc(INSTALL_LINE_MAX),
    };
    int r = install->engine && install->interpreter && install->line ? 0 : -ENOMEM;
    if (request->image_digest && !install->image_digest)
        r = -ENOMEM;
    if (r == 0 && getrandom(&random, sizeof(random), 0) != sizeof(random))
        r = -errno;
    if (r == 0) {
        snprintf(install->id, sizeof(install->id), "%016" PRIx64, random);
        r = make_files(install, request);
    }
    if (r == 0) {
        fill_start(install, request, &start);
        r = connect_all(install, &start);
    }
    if (r < 0)
        install_free(install);
    else
        *ret = install;
    return r < 0 ? r : 0;
}
