/* The dialogue about one cloud sandbox, see sandbox.h: start, put, go, exited, ended. */
#include "sandbox.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <systemd/sd-daemon.h>
#include <openssl/sha.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "control-plane.h"
#include "engine/dialogue.h"
#include "envd.h"
#include "key.h"
#include "life.h"
#include "run.h"
#include "workspace.h"

/* For files of a program that was ended: the broker is told that they are on their way, and waits.
 */
#define RESCUE_USEC (20 * USEC_PER_SEC)
#define RESCUE_MIN_USEC (3 * USEC_PER_SEC)
/* For the removal, and the look whether it is done: the broker waits 5 s for the last word. */
#define REMOVE_USEC (4 * USEC_PER_SEC)
#define PREPARE_USEC (8 * USEC_PER_SEC)
/* The broker gives up on files that are sent before that. */
#define UPLOAD_USEC (11 * 60 * USEC_PER_SEC)
/* What there is when a connection broke. */
#define LOST_RESCUE_USEC (20 * USEC_PER_SEC)
#define GONE_TIMEOUT_USEC (60 * USEC_PER_SEC)
/* For the files to come home, and what is left of a sandbox's life then to say so. */
#define HOME_USEC (55 * USEC_PER_SEC)
#define HOME_MARGIN_USEC (4 * USEC_PER_SEC)

struct sandbox {
    const struct service *service;
    int broker, control;
    uint64_t connection;
    struct engine_start start;
    struct cloud cloud;
    struct cloud_sandbox box;
    struct cloud_labels labels;
    struct envd envd;
    struct run run;
    struct http_watch *broker_watch;
    enum outcome outcome; /* OUTCOME_READY until something ends it */
    struct life life;
    bool runs, asked_to_end;
    bool made; /* there is a sandbox in the cloud */
};

static int refuse(struct sandbox *s, int error, const char *phase, const char *sentence)
{
    dialogue_send_error(s->broker, s->start.run_id[0] ? s->start.run_id : "prepare", phase,
                        sentence);
    return error;
}

/* In the words that the cloud has for it. The phase tells the broker whether another engine would
 * help. */
static int refuse_cloud(struct sandbox *s, int error)
{
    return refuse(s, error, s->cloud.unusable ? "engine" : "start", s->cloud.error);
}

static int tell_progress(struct sandbox *s, const char *phase, uint64_t current, uint64_t total)
{
    struct engine_message message = { .type = ENGINE_PROGRESS };

    snprintf(message.progress.phase, sizeof(message.progress.phase), "%s", phase);
    message.progress.current = current;
    message.progress.total = total;
    return engine_send(s->broker, &message, NULL, 0);
}

/* ---- the broker's word */

static int end_with(struct sandbox *s, enum outcome outcome)
{
    s->outcome = outcome;
    s->broker_watch->fd = -1;
    return -ECANCELED;
}

static int on_broker(void *userdata)
{
    struct sandbox *s = userdata;
    uint64_t grace = 0;

    enum outcome outcome = dialogue_receive_kill(s->broker, &grace);
    if (outcome != OUTCOME_KILL || grace == 0 || !s->runs || s->asked_to_end)
        return end_with(s, outcome);
    s->asked_to_end = true;
    uint64_t left = s->life.end_usec > clock_now() ? s->life.end_usec - clock_now() : 0;
    uint64_t end = grace < left ? clock_now() + grace : s->life.end_usec;
    s->cloud.http.deadline_usec = end;
    (void)run_ask_to_end(&s->run);
    return 0;
}

/* The only time that is watched is over. */
static void note_time(struct sandbox *s)
{
    if (s->outcome == OUTCOME_READY)
        end_with(s, clock_now() >= s->life.end_usec ? OUTCOME_TIMEOUT : OUTCOME_KILL);
}

/* ---- start */

/* Whose run it is stays on this machine: the cloud learns a number that is the same for the same
 * user, and nothing else. */
static void hash_user(const struct service *service, uint32_t uid, char ret[33])
{
    unsigned char digest[SHA256_DIGEST_LENGTH];
    char text[64];

    int n = snprintf(text, sizeof(text), "%s %" PRIu32, service->machine, uid);
    SHA256((const unsigned char *)text, (size_t)n, digest);
    for (int i = 0; i < 16; i++)
        snprintf(ret + 2 * i, 3, "%02x", digest[i]);
}

static void write_labels(struct sandbox *s)
{
    struct cloud_labels *labels = &s->labels;

    memcpy(labels->machine, s->service->machine, sizeof(labels->machine));
    memcpy(labels->service, s->service->id, sizeof(labels->service));
    memcpy(labels->run, s->start.run_id, sizeof(labels->run));
    snprintf(labels->connection, sizeof(labels->connection), "%" PRIu64, s->connection);
    hash_user(s->service, s->start.owner_uid, labels->user);
}

static const char *template_of(const struct sandbox *s)
{
    return s->start.image[0] ? s->start.image : s->service->config->template_id;
}

static int check_key(struct sandbox *s)
{
    return key_is_known() ? 0
                          : refuse(s, -ENOKEY, "engine",
                                   "The E2B engine has no key. The administrator puts it into "
                                   "/etc/credstore/" KEY_CREDENTIAL " and runs: systemctl stop "
                                   "sbxctl-engine-e2b");
}

static int check_start(struct sandbox *s)
{
    char sentence[160];

    int r = check_key(s);
    if (r < 0)
        return r;
    if (!config_template_is_valid(template_of(s)))
        return refuse(s, -EINVAL, "start", "That is not the name of an E2B template.");
    if (s->start.layer[0] || s->start.wheels[0])
        return refuse(s, -EOPNOTSUPP, "start",
                      "The E2B engine cannot take this machine's packages along. Use a template "
                      "that has them.");
    if (places_take(s->service->places, s->connection))
        return 0;
    snprintf(sentence, sizeof(sentence),
             "%" PRIu64 " cloud sandboxes run already, and this machine allows no more. Try again "
             "when one has ended.",
             s->service->config->max_sandboxes);
    return refuse(s, -EBUSY, "start", sentence);
}

/* Once asked for, the answer is waited for whatever the broker does: only so it is known what there
 * is to be removed. */
static int create(struct sandbox *s)
{
    const struct cloud_request request = {
        .template_id = template_of(s),
        .labels = &s->labels,
        .seconds = life_begin(&s->life, s->start.lifetime_usec),
        .network = s->start.network,
        .hosts = s->start.hosts,
    };

    write_labels(s);
    int r = cloud_create(&s->cloud, &request, &s->box);
    s->made = s->box.id[0] != '\0';
    life_created(&s->life);
    return r < 0 ? refuse_cloud(s, r) : 0;
}

static int make_workspace(struct sandbox *s)
{
    int fd = workspace_make(s->start.workspace_bytes, s->start.workspace_inodes);

    if (fd < 0) {
        fprintf(stderr, SD_ERR "%s: workspace: %s\n", s->start.run_id, strerror(-fd));
        return refuse(s, fd, "engine",
                      "The E2B engine cannot make a workspace on this machine: the kernel must "
                      "allow user namespaces to users.");
    }
    s->run.transfer.workspace = fd;
    s->run.transfer.workspace_bytes = s->start.workspace_bytes;
    return 0;
}

static int hand_over(struct sandbox *s)
{
    struct engine_message message = { .type = ENGINE_READY };
    int ends[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
        return -errno;
    const int fds[] = { s->run.transfer.workspace, ends[1] };
    strcpy(message.ready.sandbox_id, s->box.id);
    snprintf(message.ready.image, sizeof(message.ready.image), "%s", template_of(s));
    int r = engine_send(s->broker, &message, fds, ELEMENTS(fds));
    close(ends[1]);
    s->control = ends[0];
    return r;
}

static int start(struct sandbox *s)
{
    int r = check_start(s);

    r = r < 0 ? r : make_workspace(s);
    r = r < 0 ? r : tell_progress(s, "create", 0, 0);
    r = r < 0 ? r : create(s);
    if (r < 0)
        return r;
    envd_open(&s->cloud, &s->box, &s->envd);
    return hand_over(s);
}

/* ---- fill and go */

static union {
    char bytes[LAUNCH_PACKET_MAX];
    struct launch_header header;
    struct launch_put put;
    struct launch_go go;
} packet;

static int handle_put(struct sandbox *s, size_t size, int fds[PACKET_FDS_MAX], size_t n_fds)
{
    struct launch_put_done done = { .header = { LAUNCH_PROTOCOL_VERSION, LAUNCH_PUT_DONE } };
    const char *name;

    if (n_fds != 1 || launch_parse_put(packet.bytes, size, &name) < 0)
        return -EBADMSG;
    done.error =
        -transfer_put(&s->run.transfer, name, packet.put.mode, fds[0], packet.put.size, &done);
    return packet_send(s->control, &done, sizeof(done), NULL, 0);
}

/* The connection broke, or the sandbox is no more, and nobody knows how the program ended. */
static void tell_lost(struct sandbox *s)
{
    char sentence[sizeof(s->cloud.error)], why[320];

    snprintf(why, sizeof(why), "%.300s", s->cloud.error);
    s->cloud.http.deadline_usec = clock_now() + LOST_RESCUE_USEC;
    int there = cloud_exists(&s->cloud, s->box.id);
    if (there == 0)
        snprintf(sentence, sizeof(sentence),
                 "The cloud sandbox vanished while the program ran, so how it ended is not known: "
                 "E2B does not know the sandbox any more.");
    else
        snprintf(sentence, sizeof(sentence),
                 "How the program ended is not known: %s The sandbox is being removed.", why);
    if (there > 0)
        run_rescue(&s->run);
    refuse(s, -ENOLINK, ENGINE_PHASE_LOST, sentence);
    end_with(s, OUTCOME_KILL);
}

/* The program is over, so its clock is, too: the broker has to know before the files are here. */
static enum run_end come_home(struct sandbox *s, struct launch_exited *ret)
{
    uint64_t latest = clock_now() + HOME_USEC, end = s->life.end_usec - HOME_MARGIN_USEC;

    tell_progress(s, ENGINE_PHASE_DOWNLOAD, 0, 0);
    if (!s->asked_to_end)
        s->cloud.http.deadline_usec = latest < end ? latest : end;
    return run_come_home(&s->run, ret);
}

/* Sends the files, and only then has the program's clock begin. */
static enum run_end send_files(struct sandbox *s, const struct launch_program *program,
                               const int stdio[3])
{
    tell_progress(s, ENGINE_PHASE_UPLOAD, 0, 0);
    s->cloud.http.deadline_usec = clock_now() + UPLOAD_USEC;
    life_guard(&s->life);
    enum run_end end = run_send(&s->run, program, stdio);
    /* What is wrong with its life is known better than what is wrong with a request to it. */
    if ((end == RUN_SENT || s->outcome == OUTCOME_READY) && life_settle(&s->life) < 0)
        end = s->outcome == OUTCOME_READY ? run_give_up(&s->run) : RUN_STOPPED;
    if (end != RUN_SENT)
        return end;
    s->cloud.http.deadline_usec = s->life.end_usec;
    tell_progress(s, ENGINE_PHASE_START, 0, 0);
    return RUN_SENT;
}

static int handle_go(struct sandbox *s, size_t size, int fds[PACKET_FDS_MAX], size_t n_fds)
{
    static struct launch_program program;
    struct launch_exited exited = { 0 };

    if (n_fds != 3 || launch_parse_go(packet.bytes, size, &program) < 0)
        return -EBADMSG;
    const int stdio[] = { TAKE_FD(fds[0]), TAKE_FD(fds[1]), TAKE_FD(fds[2]) };
    enum run_end end = send_files(s, &program, stdio);
    s->runs = end == RUN_SENT;
    if (s->runs)
        end = run_program(&s->run, &program);
    s->runs = false;
    if (end == RUN_EXITED)
        end = come_home(s, &exited);
    switch (end) {
    case RUN_EXITED:
        return packet_send(s->control, &exited, sizeof(exited), NULL, 0);
    case RUN_NOT_STARTED:
        refuse(s, -ECOMM, s->cloud.unusable ? "engine" : "start", s->cloud.error);
        end_with(s, OUTCOME_KILL);
        return 0;
    case RUN_UNKNOWN:
        tell_lost(s);
        return 0;
    case RUN_SENT:
    case RUN_STOPPED:
    default:
        note_time(s);
        return 0;
    }
}

static int handle_control(struct sandbox *s)
{
    int fds[PACKET_FDS_MAX], r = -EBADMSG;
    size_t n_fds;

    ssize_t size = packet_recv(s->control, packet.bytes, sizeof(packet.bytes), fds, &n_fds);
    /* The end of it, or a BYE: the broker's own socket tells how to go on. */
    if (size == 0) {
        s->control = close_fd(s->control);
        return 0;
    }
    if (size < 0)
        return (int)size;
    if ((size_t)size < sizeof(packet.header) || packet.header.version != LAUNCH_PROTOCOL_VERSION)
        r = -EBADMSG;
    else if (packet.header.type == LAUNCH_BYE)
        r = 0;
    else if (packet.header.type == LAUNCH_PUT)
        r = handle_put(s, (size_t)size, fds, n_fds);
    else if (packet.header.type == LAUNCH_GO)
        r = handle_go(s, (size_t)size, fds, n_fds);
    packet_close_fds(fds);
    return r;
}

static void supervise(struct sandbox *s)
{
    while (s->outcome == OUTCOME_READY) {
        struct pollfd fds[] = {
            { .fd = s->broker, .events = POLLIN },
            { .fd = s->control, .events = POLLIN },
        };
        int r = poll_until(fds, ELEMENTS(fds), s->life.end_usec);
        if (r < 0)
            end_with(s, OUTCOME_GONE);
        else if (r == 0)
            note_time(s);
        else if (fds[0].revents)
            on_broker(s);
        else if (handle_control(s) < 0)
            end_with(s, OUTCOME_GONE);
    }
}

/* ---- end */

static int remove_surely(struct sandbox *s)
{
    int r = cloud_delete_surely(&s->cloud, s->box.id, GONE_TIMEOUT_USEC);

    if (r < 0)
        fprintf(stderr, SD_ERR "%s: %s\n", s->box.id, s->cloud.error);
    return r;
}

static struct engine_ended count(const struct sandbox *s)
{
    struct engine_ended ended = {
        .oom_kills = s->run.report.oom_kills,
        .cpu_usec = s->run.report.cpu_usec,
        .memory_peak_bytes = UINT64_MAX,
        .task_refusals = UINT64_MAX,
        .leftovers = UINT64_MAX,
    };

    ended.why = dialogue_explain(&ended, s->outcome == OUTCOME_TIMEOUT);
    return ended;
}

static bool is_awaited(const struct sandbox *s)
{
    return s->outcome == OUTCOME_KILL || s->outcome == OUTCOME_TIMEOUT;
}

/* What the program made until it was ended. Whoever asks again, or hangs up, wants no more of it.
 */
static void rescue(struct sandbox *s)
{
    uint64_t latest = clock_now() + RESCUE_USEC, least = clock_now() + RESCUE_MIN_USEC;
    uint64_t end = s->life.end_usec - HOME_MARGIN_USEC;

    end = end < latest ? end : latest;
    s->cloud.http.deadline_usec = end > least ? end : least;
    if (run_has_files(&s->run)) {
        tell_progress(s, ENGINE_PHASE_DOWNLOAD, 0, 0);
        s->broker_watch->fd = s->broker;
    }
    run_rescue(&s->run);
    s->broker_watch->fd = -1;
}

/* Has the sandbox removed, which ends everything in it, and looks whether it is, as long as the
 * broker waits for the last word. */
static int remove_and_tell(struct sandbox *s)
{
    struct engine_message message = { .type = ENGINE_ENDED, .ended = count(s) };

    s->cloud.http.deadline_usec = clock_now() + REMOVE_USEC;
    int r = cloud_delete_surely(&s->cloud, s->box.id, REMOVE_USEC);
    s->cloud.http.deadline_usec = UINT64_MAX;
    message.ended.cleaned = r >= 0;
    engine_send(s->broker, &message, NULL, 0);
    return r;
}

static int end(struct sandbox *s)
{
    int r = -EINPROGRESS;

    s->broker_watch->fd = -1;
    if (is_awaited(s))
        rescue(s);
    if (is_awaited(s))
        r = remove_and_tell(s);
    s->cloud.http.deadline_usec = UINT64_MAX;
    run_close(&s->run);
    return r < 0 ? remove_surely(s) : 0;
}

/* ---- all of it */

static int count_listed(const char *id, json_object *labels, void *userdata)
{
    return 0;
}

/* Without a sandbox: whether there could be one, and how many this machine has. */
static void answer_prepare(struct sandbox *s, const struct engine_prepare *wanted)
{
    strcpy(s->start.image, wanted->image);
    if (check_key(s) < 0)
        return;
    s->cloud.http.deadline_usec = clock_now() + PREPARE_USEC;
    int n = cloud_list(&s->cloud, CLOUD_LABEL_MACHINE, s->service->machine, count_listed, NULL);
    if (n < 0) {
        refuse_cloud(s, n);
        return;
    }
    tell_progress(s, ENGINE_PHASE_RUNNING, (uint64_t)n, s->service->config->max_sandboxes);
    dialogue_send_prepared(s->broker, template_of(s), "");
}

static int serve(struct sandbox *s)
{
    struct engine_message request;

    if (dialogue_receive_request(s->broker, &request) < 0)
        return 0;
    if (request.type == ENGINE_PREPARE) {
        answer_prepare(s, &request.prepare);
        return 0;
    }
    s->start = request.start;
    run_open(&s->run, &s->cloud, &s->envd, &s->box, template_of(s), s->start.run_id);
    int r = life_open(&s->life, &s->cloud, &s->box);
    r = r < 0 ? r : start(s);
    if (r < 0) {
        run_close(&s->run);
        /* What nobody knows of is looked for like what the dead leave, and later. */
        return s->made ? remove_surely(s) : s->cloud.may_be_left ? -EREMOTEIO : 0;
    }
    s->broker_watch->fd = s->broker;
    supervise(s);
    return end(s);
}

int sandbox_serve(int sock, uint64_t connection, const struct service *service)
{
    struct sandbox s = {
        .service = service,
        .broker = sock,
        .control = -1,
        .connection = connection,
        .outcome = OUTCOME_READY,
        .life.timer = -1,
    };

    int r = cloud_open(service->config, &s.cloud);
    if (r >= 0) {
        s.cloud.is_v1 = service->is_v1;
        s.broker_watch = http_watch(&s.cloud.http, -1, POLLIN, on_broker, &s);
        r = serve(&s);
    }
    close_fd(s.control);
    close_fd(s.broker);
    envd_close(&s.envd);
    explicit_bzero(&s.box, sizeof(s.box));
    life_close(&s.life);
    cloud_close(&s.cloud);
    key_forget();
    if (r >= 0)
        places_leave(service->places, connection);
    return r;
}
