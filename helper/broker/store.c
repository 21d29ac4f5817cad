/* The broker's side of the store, see store.h. */
#include "broker/store.h"
#include "broker/store-input.h"
#include "broker/store-process.h"
#include "broker/store-protocol.h"
#include "common/packet.h"

#include <assert.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

/* How long store_free() waits for the process to follow the end of file. */
#define EXIT_WAIT_MS 2000

struct store {
    int sock;
    pid_t pid;
    sd_event *event;
    sd_event_source *source;
};

struct store_job {
    int sock;
    sd_event_source *source;
    bool can_publish; /* collected, and nothing after that yet */
    store_fn done;
    void *userdata;
};

/* ---- The process ---- */

/* A directory of ours below the state directory, with exactly @mode. */
static int make_directory(int state, const char *name, mode_t mode)
{
    struct stat st;

    if (mkdirat(state, name, mode) < 0 && errno != EEXIST)
        return -errno;
    _cleanup_close_ int fd = openat(state, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return -errno;
    if (st.st_uid != geteuid())
        return -EPERM;
    return (st.st_mode & 07777) != mode && fchmod(fd, mode) < 0 ? -errno : 0;
}

int store_fork(const char *state_directory, struct store **ret)
{
    int pair[2];
    pid_t parent = getpid();

    _cleanup_close_ int state = open(state_directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (state < 0)
        return -errno;
    int r = make_directory(state, "staging", 0700);
    if (r == 0)
        r = make_directory(state, "users", 0711);
    if (r == 0)
        r = make_directory(state, "layers", 0700);
    if (r < 0)
        return r;
    _cleanup_free_ struct store *store = calloc(1, sizeof(*store));
    if (!store)
        return -ENOMEM;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return -errno;
    _cleanup_close_ int ours = pair[0], theirs = pair[1];

    store->pid = fork();
    if (store->pid < 0)
        return -errno;
    if (store->pid == 0)
        store_process(theirs, state, parent);
    /* The broker's event loop never waits for the store. */
    if (fcntl(ours, F_SETFL, O_NONBLOCK) < 0)
        return -errno;
    store->sock = TAKE_FD(ours);
    *ret = TAKE_PTR(store);
    return 0;
}

/* The store never speaks on the main socket, so this is its end. */
static int on_store_gone(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
    struct store *store = userdata;

    return sd_event_exit(store->event, -EPIPE);
}

int store_attach(struct store *store, sd_event *event)
{
    int r = sd_event_add_io(event, &store->source, store->sock, EPOLLIN, on_store_gone, store);

    if (r < 0)
        return r;
    store->event = sd_event_ref(event);
    return 0;
}

/* Ends the process by closing its socket, and by force if it does not follow. */
static void store_reap(struct store *store)
{
    _cleanup_close_ int pidfd = (int)syscall(SYS_pidfd_open, store->pid, 0);
    struct pollfd ended = { .fd = pidfd, .events = POLLIN };

    if (pidfd < 0 || poll(&ended, 1, EXIT_WAIT_MS) <= 0)
        kill(store->pid, SIGKILL);
    waitpid(store->pid, NULL, 0);
}

struct store *store_free(struct store *store)
{
    if (!store)
        return NULL;
    sd_event_source_disable_unref(store->source);
    sd_event_unref(store->event);
    close_fd(store->sock);
    store_reap(store);
    free(store);
    return NULL;
}

/* ---- Jobs ---- */

struct store_job *store_job_free(struct store_job *job)
{
    if (!job)
        return NULL;
    sd_event_source_disable_unref(job->source);
    close_fd(job->sock);
    free(job);
    return NULL;
}

static void store_job_freep(struct store_job **job)
{
    store_job_free(*job);
}

/* Reads the answer of the step that is under way. Returns 0 with the outcome in @ret_error, or a
 * negative errno. */
static int read_answer(int sock, int *ret_error, json_object **ret_result, int *ret_file)
{
    struct store_answer answer;
    int fds[PACKET_FDS_MAX], r = 0;
    size_t n_fds, next = 0;

    ssize_t n = packet_recv(sock, &answer, sizeof(answer), fds, &n_fds);
    if (n < 0)
        return (int)n;
    /* The job's process died: killed, out of memory, out of time. */
    if (n == 0)
        return -EIO;
    if (n != sizeof(answer) || n_fds != (answer.has_result ? 1U : 0U) + (answer.has_file ? 1U : 0U))
        r = -EBADMSG;
    if (r == 0 && answer.has_result)
        r = store_payload_read(fds[next++], ret_result);
    if (r == 0 && answer.has_file)
        *ret_file = TAKE_FD(fds[next]);
    packet_close_fds(fds);
    *ret_error = answer.error;
    return r;
}

static int on_answer(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
    struct store_job *job = userdata;
    _cleanup_json_ json_object *result = NULL;
    int error = 0, file = -1;

    int r = read_answer(fd, &error, &result, &file);
    if (r == -EAGAIN)
        return 0;
    if (r < 0)
        error = r;
    if (error < 0)
        job->can_publish = false;
    sd_event_source_set_enabled(source, SD_EVENT_OFF);
    /* It may free the job. */
    job->done(error, result, file, job->userdata);
    return 0;
}

/* Sends a job to the store. @object is its payload, @workspace -1 or borrowed. */
static int start(struct store *store, enum store_operation operation, uid_t uid,
                 json_object *object, int workspace, store_fn done, void *userdata,
                 struct store_job **ret)
{
    struct store_request request = { .operation = operation,
                                     .uid = uid,
                                     .has_workspace = workspace >= 0 };
    _cleanup_(store_job_freep) struct store_job *job = NULL;
    int pair[2];

    assert(store->event);
    job = calloc(1, sizeof(*job));
    if (!job)
        return -ENOMEM;
    job->sock = -1;
    job->can_publish = operation == STORE_COLLECT;
    job->done = done;
    job->userdata = userdata;

    _cleanup_close_ int payload = store_payload_new(object);
    if (payload < 0)
        return payload;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return -errno;
    job->sock = pair[0];
    _cleanup_close_ int theirs = pair[1];
    if (fcntl(job->sock, F_SETFL, O_NONBLOCK) < 0)
        return -errno;
    int r = sd_event_add_io(store->event, &job->source, job->sock, EPOLLIN, on_answer, job);
    if (r < 0)
        return r;
    const int fds[] = { theirs, payload, workspace };
    r = packet_send(store->sock, &request, sizeof(request), fds, workspace >= 0 ? 3 : 2);
    if (r < 0)
        return r;
    *ret = TAKE_PTR(job);
    return 0;
}

static json_object *new_payload(const char *run_id)
{
    _cleanup_json_ json_object *object = json_object_new_object();

    if (!object || json_add_string(object, "runId", run_id) < 0)
        return NULL;
    return TAKE_PTR(object);
}

static uint64_t at_most_int64(uint64_t value)
{
    return value < INT64_MAX ? value : INT64_MAX;
}

int store_collect(struct store *store, const struct store_collect *request, store_fn done,
                  void *userdata, struct store_job **ret)
{
    _cleanup_json_ json_object *object = new_payload(request->run_id);

    if (!object || json_add_uint64(object, "uid", request->uid) < 0 ||
        json_add_uint64(object, "gid", request->gid) < 0 ||
        json_add_uint64(object, "filesMax", at_most_int64(request->files_max)) < 0 ||
        json_add_uint64(object, "bytesMax", at_most_int64(request->bytes_max)) < 0 ||
        json_add(object, "inputs", store_inputs_make(request->inputs, request->n_inputs)) < 0)
        return -ENOMEM;
    return start(store, STORE_COLLECT, request->uid, object, request->workspace, done, userdata,
                 ret);
}

int store_publish(struct store_job *job, store_fn done, void *userdata)
{
    struct store_request request = { .operation = STORE_PUBLISH };

    if (!job->can_publish)
        return -EINVAL;
    job->can_publish = false;
    job->done = done;
    job->userdata = userdata;
    int r = packet_send(job->sock, &request, sizeof(request), NULL, 0);
    return r < 0 ? r : sd_event_source_set_enabled(job->source, SD_EVENT_ON);
}

int store_publish_staged(struct store *store, const char *run_id, uid_t uid, gid_t gid,
                         store_fn done, void *userdata, struct store_job **ret)
{
    _cleanup_json_ json_object *object = new_payload(run_id);

    if (!object || json_add_uint64(object, "uid", uid) < 0 ||
        json_add_uint64(object, "gid", gid) < 0)
        return -ENOMEM;
    return start(store, STORE_PUBLISH_STAGED, uid, object, -1, done, userdata, ret);
}

int store_remove(struct store *store, uid_t uid, const char *run_id, store_fn done, void *userdata,
                 struct store_job **ret)
{
    _cleanup_json_ json_object *object = new_payload(run_id);

    if (!object || json_add_uint64(object, "uid", uid) < 0)
        return -ENOMEM;
    return start(store, STORE_REMOVE, uid, object, -1, done, userdata, ret);
}

int store_open(struct store *store, uid_t uid, const char *run_id, const char *name, store_fn done,
               void *userdata, struct store_job **ret)
{
    _cleanup_json_ json_object *object = new_payload(run_id);

    if (!object || json_add_uint64(object, "uid", uid) < 0 ||
        json_add_string(object, "name", name) < 0)
        return -ENOMEM;
    return start(store, STORE_OPEN, uid, object, -1, done, userdata, ret);
}

int store_discard(struct store *store, const char *run_id, store_fn done, void *userdata,
                  struct store_job **ret)
{
    _cleanup_json_ json_object *object = new_payload(run_id);

    if (!object)
        return -ENOMEM;
    return start(store, STORE_DISCARD, geteuid(), object, -1, done, userdata, ret);
}

int store_survey(struct store *store, uid_t uid, store_fn done, void *userdata,
                 struct store_job **ret)
{
    _cleanup_json_ json_object *object = json_object_new_object();

    if (!object || json_add_uint64(object, "uid", uid) < 0)
        return -ENOMEM;
    return start(store, STORE_SURVEY, uid, object, -1, done, userdata, ret);
}

/* ---- Layers ---- */

/* Starts a job that needs no more than whose layer, and which; @key may be NULL. */
static int start_layer(struct store *store, enum store_operation operation, uid_t uid,
                       const char *key, store_fn done, void *userdata, struct store_job **ret)
{
    _cleanup_json_ json_object *object = json_object_new_object();

    if (!object || json_add_uint64(object, "uid", uid) < 0 ||
        json_add_string(object, "key", key) < 0)
        return -ENOMEM;
    return start(store, operation, uid, object, -1, done, userdata, ret);
}

int store_layer_install(struct store *store, const struct store_layer *layer, store_fn done,
                        void *userdata, struct store_job **ret)
{
    _cleanup_json_ json_object *object = json_object_new_object();

    if (!object || json_add_uint64(object, "uid", layer->uid) < 0 ||
        json_add_string(object, "key", layer->key) < 0 ||
        json_add_string(object, "folder", layer->folder) < 0 ||
        json_add_uint64(object, "filesMax", at_most_int64(layer->files_max)) < 0 ||
        json_add_uint64(object, "bytesMax", at_most_int64(layer->bytes_max)) < 0 ||
        json_add(object, "facts", json_object_get(layer->facts)) < 0)
        return -ENOMEM;
    return start(store, STORE_LAYER_INSTALL, layer->uid, object, layer->workspace, done, userdata,
                 ret);
}

int store_layer_remove(struct store *store, uid_t uid, const char *key, store_fn done,
                       void *userdata, struct store_job **ret)
{
    return start_layer(store, STORE_LAYER_REMOVE, uid, key, done, userdata, ret);
}

int store_layer_list(struct store *store, uid_t uid, store_fn done, void *userdata,
                     struct store_job **ret)
{
    return start_layer(store, STORE_LAYER_LIST, uid, NULL, done, userdata, ret);
}

int store_layer_load(struct store *store, store_fn done, void *userdata, struct store_job **ret)
{
    return start_layer(store, STORE_LAYER_LOAD, geteuid(), NULL, done, userdata, ret);
}
