/* The helper, by its socket: whether it is there, which version, and its engines, see doctor.h. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/doctor.h"
#include "client/helper.h"
#include "common/clock.h"
#include "common/quantity.h"
#include "config-paths.h"

/* The helper waits for an engine for 15 s, and for polkit for 25. */
#define ENGINES_USEC (20 * USEC_PER_SEC)
#define OUTPUT_MAX 2048

/* ---- Configuration ---- */

/* Runs one of our own programs, and collects what it says. Returns its exit status, or -1. */
static int run_program(const char *path, char output[OUTPUT_MAX])
{
    uint64_t deadline = clock_now() + DOCTOR_PATIENCE_USEC;
    size_t size = 0;
    int pipes[2], status = -1;
    pid_t pid;

    output[0] = '\0';
    if (pipe2(pipes, O_CLOEXEC) < 0)
        return -1;
    pid = fork();
    if (pid == 0) {
        dup2(pipes[1], STDERR_FILENO);
        execl(path, path, "--check-configuration", (char *)NULL);
        _exit(0);
    }
    close_fd(pipes[1]);
    while (pid > 0 && size < OUTPUT_MAX - 1) {
        struct pollfd pollfd = { pipes[0], POLLIN, 0 };
        if (poll_until(&pollfd, 1, deadline) <= 0)
            break;
        ssize_t n = read(pipes[0], output + size, OUTPUT_MAX - 1 - size);
        if (n <= 0)
            break;
        size += (size_t)n;
    }
    output[size] = '\0';
    output[strcspn(output, "\n")] = '\0';
    close_fd(pipes[0]);
    if (pid > 0) {
        /* It closes its standard error by ending only. */
        if (clock_now() >= deadline)
            kill(pid, SIGKILL);
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
            ;
    }
    return status >= 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* The file that a sentence like "/etc/x.conf:3: unknown key" begins with. */
static char *file_of(const char *sentence)
{
    const char *end = strpbrk(sentence, ": ");
    return doctor_text("%.*s", (int)(end ? end - sentence : 0), sentence);
}

/* A file of the wrong owner is mended by its owner, others by hand. */
static char *mend_file(const char *sentence)
{
    _cleanup_free_ char *name = file_of(sentence), *file = doctor_word(name);

    if (strstr(sentence, "must belong to root"))
        return doctor_text("chown root: %s && chmod go-w %s", file, file);
    return doctor_text("editor %s && systemctl stop sbxctl-helper.service", file);
}

void doctor_configuration(struct doctor *doctor)
{
    static const struct {
        const char *program, *what;
    } programs[] = {
        { SBXCTL_LIBEXECDIR "/sbxctl-helper", "the helper" },
        { SBXCTL_LIBEXECDIR "/sbxctl-engine-docker", "the engine docker" },
        { SBXCTL_LIBEXECDIR "/sbxctl-engine-e2b", "the engine e2b" },
    };
    char output[OUTPUT_MAX];
    bool is_good = true;

    for (size_t i = 0; i < ELEMENTS(programs); i++) {
        if (run_program(programs[i].program, output) != 1)
            continue;
        is_good = false;
        doctor->configuration_is_bad |= i == 0;
        doctor_tell_owned(doctor, i == 0 ? DOCTOR_FAILURE : DOCTOR_WARNING,
                          i == 0 ? "The helper does not start with that, and no run does."
                                 : "The engine does not start with that.",
                          mend_file(output), "The configuration of %s: %s", programs[i].what,
                          output);
    }
    if (is_good)
        doctor_tell(doctor, DOCTOR_OK, NULL, NULL, "The configuration can be read.");
}

/* ---- Questions ---- */

struct doctor_helper {
    struct varlink_client *info, *policy, *engines;
    int error; /* of connecting */
};

static const char *socket_path(void)
{
    const char *path = getenv("SBXCTL_SOCKET");
    return path ? path : HELPER_SOCKET;
}

static struct varlink_client *ask(const char *method, json_object *parameters, int *ret_error)
{
    struct varlink_client *client = NULL;

    int r = varlink_client_connect(socket_path(), &client);
    if (r >= 0)
        r = varlink_client_send(client, method, parameters, 0, NULL, 0);
    else
        json_object_put(parameters);
    if (r < 0)
        client = varlink_client_free(client);
    *ret_error = r;
    return client;
}

struct doctor_helper *doctor_helper_ask(struct doctor *doctor)
{
    struct doctor_helper *helper = calloc(1, sizeof(*helper));
    json_object *probe;

    if (!helper)
        return NULL;
    /* It would fail, again and again, and its socket with it. */
    if (doctor->configuration_is_bad || doctor->state_is_bad) {
        helper->error = access(socket_path(), F_OK) < 0 ? -errno : 0;
        return helper;
    }
    helper->info = ask("org.varlink.service.GetInfo", NULL, &helper->error);
    if (!helper->info)
        return helper;
    helper->policy = ask("io.sbxctl.Sandbox.GetPolicy", NULL, &helper->error);
    probe = json_object_new_object();
    (void)json_add_bool(probe, "probe", true);
    helper->engines = ask("io.sbxctl.Sandbox.GetEngines", probe, &helper->error);
    return helper;
}

/* The good answer's parameters, or NULL. */
static json_object *take(struct varlink_client *client, uint64_t patience, int *ret_error)
{
    _cleanup_answer_ struct varlink_answer answer = {};

    if (!client)
        return NULL; /* why is known */
    int r = varlink_client_receive(client, patience, &answer);
    if (r > 0 && !answer.error)
        return json_object_get(answer.parameters);
    *ret_error = r == 0 ? -ETIMEDOUT : r < 0 ? r : -EBADMSG;
    return NULL;
}

void doctor_helper_take(struct doctor *doctor, struct doctor_helper *helper)
{
    int error = 0;

    if (!helper)
        return;
    doctor->info = take(helper->info, DOCTOR_PATIENCE_USEC * 2, &helper->error);
    if (doctor->info) {
        doctor->version = json_get_string(doctor->info, "version");
        doctor->engines = take(helper->engines, ENGINES_USEC, &error);
        doctor->policy = take(helper->policy, DOCTOR_PATIENCE_USEC, &error);
    }
    doctor->helper_error = doctor->info ? 0 : helper->error;
    varlink_client_free(helper->info);
    varlink_client_free(helper->policy);
    varlink_client_free(helper->engines);
    free(helper);
}

void doctor_socket(struct doctor *doctor)
{
    static const char meaning[] = "Without the helper no run can be made.";

    /* The socket fails when it is to start a service that cannot be. */
    if (doctor_masked_tell(doctor, DOCTOR_FAILURE, "sbxctl-helper.service", meaning) ||
        doctor_socket_tell(doctor, DOCTOR_FAILURE, "sbxctl-helper.socket", meaning))
        doctor->helper_is_down = true;
    else if (doctor->helper_error == -ENOENT || doctor->helper_error == -ECONNREFUSED ||
             doctor->helper_error == -EACCES) {
        doctor->helper_is_down = true;
        doctor_tell(doctor, DOCTOR_FAILURE, meaning, "systemctl restart sbxctl-helper.socket",
                    "The helper's socket %s cannot be connected to: %s.", HELPER_SOCKET,
                    strerror(-doctor->helper_error));
    } else
        doctor_tell(doctor, DOCTOR_OK, NULL, NULL, "The helper's socket is there.");
}

void doctor_service(struct doctor *doctor)
{
    static const char meaning[] = "Without the helper no run can be made.";

    if (doctor->configuration_is_bad || doctor->state_is_bad || doctor->helper_is_down)
        return;
    if (doctor->info) {
        doctor_tell(doctor, DOCTOR_OK, NULL, NULL, "The helper answers.");
        return;
    }
    doctor->helper_is_down = true;
    if (!doctor_unit_tell(doctor, DOCTOR_FAILURE, "sbxctl-helper.service", meaning))
        doctor_tell(doctor, DOCTOR_FAILURE, meaning,
                    "systemctl kill --signal=KILL sbxctl-helper.service; systemctl restart "
                    "sbxctl-helper.service",
                    "The helper does not answer: %s.", strerror(-doctor->helper_error));
}

void doctor_version(struct doctor *doctor)
{
    if (!doctor->version)
        return;
    if (strcmp(doctor->version, SBXCTL_VERSION) == 0)
        doctor_tell(doctor, DOCTOR_OK, NULL, NULL, "Client and helper have version %s.",
                    SBXCTL_VERSION);
    else
        doctor_tell(doctor, DOCTOR_WARNING,
                    "One may not understand the other. A helper that still runs from before an "
                    "upgrade is the usual cause.",
                    "systemctl restart sbxctl-helper.service",
                    "This is sbxctl %s, and the helper has version %s.", SBXCTL_VERSION,
                    doctor->version);
}

/* ---- Engines ---- */

/* What an engine needs besides its own units, and the command that has it. */
static char *mend_engine(struct doctor *doctor, const char *name, const char *reason)
{
    _cleanup_free_ char *service = doctor_text("sbxctl-engine-%s.service", name);
    _cleanup_free_ char *unit = doctor_word(service);
    /* The reason has the path of the socket that the engine was told. */
    const char *daemon = strstr(reason, "podman") ? "podman" : "docker";
    _cleanup_free_ char *daemon_service = doctor_text("%s.service", daemon);
    struct doctor_unit found;

    if (strcmp(name, "e2b") == 0 && strstr(reason, "key"))
        return doctor_text("install -D -m 0600 /dev/stdin /etc/credstore/e2b-api-key && systemctl "
                           "stop sbxctl-engine-e2b.service");
    if (strcmp(name, "docker") != 0 || !daemon_service ||
        !doctor_unit_get(doctor, daemon_service, &found))
        return doctor_text("systemctl restart %s", unit);
    if (strcmp(found.load, "not-found") == 0)
        return doctor_text("apt-get install %s", *daemon == 'p' ? daemon : "docker.io");
    if (strcmp(found.load, "masked") == 0)
        return doctor_text("systemctl unmask %s%s.service %s.socket && systemctl restart "
                           "%s.socket %s.service",
                           strcmp(found.file, "masked-runtime") == 0 ? "--runtime " : "", daemon,
                           daemon, daemon, daemon);
    return doctor_text("systemctl reset-failed %s.service %s.socket; systemctl restart "
                       "%s.socket %s.service",
                       daemon, daemon, daemon, daemon);
}

static void look_at_engine(struct doctor *doctor, const char *name, json_object *engine,
                           bool is_default)
{
    enum doctor_state state = is_default ? DOCTOR_FAILURE : DOCTOR_WARNING;
    const char *meaning = is_default ? "It is the one that runs without --engine use."
                                     : "Only runs that name it are refused.";
    bool usable = json_object_get_boolean(json_object_object_get(engine, "usable"));
    const char *reason = json_get_string(engine, "reason");
    _cleanup_free_ char *socket = doctor_text("sbxctl-engine-%s.socket", name);
    _cleanup_free_ char *service = doctor_text("sbxctl-engine-%s.service", name);
    struct doctor_unit unit;

    if (usable) {
        doctor_tell(doctor, DOCTOR_OK, NULL, NULL, "The engine %s can be used.", name);
        return;
    }
    /* It asks PID 1 by the bus, whose lack was told. */
    if (!doctor->bus && strcmp(name, "systemd") == 0)
        return;
    /* One that nobody wanted is no fault. */
    if (!is_default && doctor_unit_get(doctor, socket, &unit) &&
        strcmp(unit.active, "active") != 0 && strcmp(unit.active, "failed") != 0 &&
        strcmp(unit.load, "masked") != 0 && strcmp(unit.file, "enabled") != 0)
        return;
    if (doctor_masked_tell(doctor, state, service, meaning) ||
        doctor_socket_tell(doctor, state, socket, meaning) ||
        doctor_unit_tell(doctor, state, service, meaning))
        return;
    doctor_tell_owned(doctor, state, meaning, mend_engine(doctor, name, reason ? reason : ""),
                      "The engine %s cannot be used: %s", name, reason ? reason : "");
}

/* Those whose socket is there. One that is enabled and masked, or failed, is not in the helper's
 * list, and the default one never may be missing. */
static void look_at_missing(struct doctor *doctor, json_object *details, const char *name,
                            bool is_default)
{
    _cleanup_free_ char *socket = doctor_text("sbxctl-engine-%s.socket", name);
    struct doctor_unit unit;

    if (json_object_object_get(details, name) || !doctor_unit_get(doctor, socket, &unit))
        return;
    bool is_broken = strcmp(unit.load, "masked") == 0 || strcmp(unit.active, "failed") == 0 ||
                     strcmp(unit.file, "enabled") == 0;
    if (is_default || is_broken)
        doctor_socket_tell(doctor, is_default ? DOCTOR_FAILURE : DOCTOR_WARNING, socket,
                           is_default ? "It is the engine that runs without --engine use."
                                      : "Only runs that name this engine are refused.");
}

void doctor_engines(struct doctor *doctor)
{
    static const char *const known[] = { "systemd", "docker", "e2b" };
    json_object *details = json_object_object_get(doctor->engines, "details");
    const char *standard = json_get_string(doctor->engines, "default");

    if (!details || !standard) {
        if (doctor->info)
            doctor_tell(doctor, DOCTOR_UNKNOWN, NULL, NULL,
                        "The helper does not tell of its engines.");
        return;
    }
    json_object_object_foreach(details, name, engine)
    {
        look_at_engine(doctor, name, engine, strcmp(name, standard) == 0);
    }
    look_at_missing(doctor, details, standard, true);
    for (size_t i = 0; i < ELEMENTS(known); i++)
        if (strcmp(known[i], standard) != 0)
            look_at_missing(doctor, details, known[i], false);
}

void doctor_images(struct doctor *doctor)
{
    json_object *details = json_object_object_get(doctor->engines, "details");
    const char *standard = json_get_string(doctor->engines, "default");
    json_object *engine = standard ? json_object_object_get(details, standard) : NULL;
    json_object *missing = json_object_object_get(engine, "missingImages");

    if (!missing)
        return;
    for (size_t i = 0; i < json_object_array_length(missing); i++) {
        const char *image = json_object_get_string(json_object_array_get_idx(missing, i));
        _cleanup_free_ char *word = doctor_word(image);
        doctor_tell_owned(doctor, DOCTOR_WARNING, "The first run that needs it waits for it.",
                          doctor_text("sbxctl pull %s", word),
                          "The image %s is not on this machine.", image);
    }
    if (json_object_array_length(missing) == 0)
        doctor_tell(doctor, DOCTOR_OK, NULL, NULL, "The images of all languages are here.");
}

/* ---- The caller's results ---- */

struct results {
    uint64_t bytes, bytes_max, files, files_max;
    bool removes_oldest;
};

/* A run is refused when it might not fit, which is at once when there is nothing left. */
static bool is_above(uint64_t used, uint64_t max, unsigned percent)
{
    return max > 0 && used >= max / 100 * percent;
}

void doctor_quota(struct doctor *doctor)
{
    static const struct json_field fields[] = {
        { "bytes", JSON_FIELD_UINT64, offsetof(struct results, bytes), .max = INT64_MAX },
        { "bytesMax", JSON_FIELD_UINT64, offsetof(struct results, bytes_max), .max = INT64_MAX },
        { "files", JSON_FIELD_UINT64, offsetof(struct results, files), .max = INT64_MAX },
        { "filesMax", JSON_FIELD_UINT64, offsetof(struct results, files_max), .max = INT64_MAX },
        { "removesOldest", JSON_FIELD_BOOL, offsetof(struct results, removes_oldest) },
    };
    json_object *object = json_object_object_get(doctor->policy, "results");
    char used[QUANTITY_TEXT], most[QUANTITY_TEXT];
    struct results r = {};

    if (!object ||
        json_dispatch(object, fields, ELEMENTS(fields), true, &r, &(const char *){ NULL }) < 0)
        return;
    bool is_full = is_above(r.bytes, r.bytes_max, 100) || is_above(r.files, r.files_max, 100);
    bool is_nearly = is_above(r.bytes, r.bytes_max, 90) || is_above(r.files, r.files_max, 90);
    format_bytes(r.bytes, used);
    format_bytes(r.bytes_max, most);
    if (r.removes_oldest || !is_nearly)
        doctor_tell(doctor, DOCTOR_OK, NULL, NULL, "Your results take %s of %s.", used, most);
    else
        doctor_tell(doctor, is_full ? DOCTOR_FAILURE : DOCTOR_WARNING,
                    is_full ? "Your runs are refused."
                            : "Your runs will be refused when there is no room left.",
                    "sbxctl rm --all",
                    "Your results take %s of %s, and %" PRIu64 " of %" PRIu64 " files.", used, most,
                    r.files, r.files_max);
}

void doctor_egress(struct doctor *doctor)
{
    const char *network =
        json_get_string(json_object_object_get(doctor->policy, "ceiling"), "network");

    if (network && strcmp(network, "none") == 0) {
        doctor_tell(doctor, DOCTOR_OK, NULL, NULL, "No run may have a network.");
        return;
    }
    if (!doctor_socket_tell(doctor, DOCTOR_WARNING, "sbxctl-egress.socket",
                            "Runs with a network, and such that need packages, are refused.") &&
        !doctor_unit_tell(doctor, DOCTOR_WARNING, "sbxctl-egress.service",
                          "Runs with a network, and such that need packages, are refused."))
        doctor_tell(doctor, DOCTOR_OK, NULL, NULL, "Runs can be given a network.");
}
