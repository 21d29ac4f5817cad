/* One job of the store, see store-job.h. The broker is believed to know who may have what; the form
 * of what it says is checked all the same, since it is the one that talks to strangers. */
#include "broker/store-job.h"
#include "broker/layer-key.h"
#include "broker/store-beneath.h"
#include "broker/store-collect.h"
#include "broker/store-input.h"
#include "broker/run-id.h"
#include "broker/store-layer.h"
#include "broker/store-open.h"
#include "broker/store-publish.h"
#include "broker/store-remove.h"
#include "broker/store-survey.h"
#include "common/cleanup.h"
#include "common/directory.h"
#include "common/escape.h"
#include "common/packet.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>

/* A step that takes longer has lost against a tree that grows under it. SIGALRM ends the process
 * then. */
#define STEP_SECONDS_MAX 300

/* A request's payload. The strings are borrowed from it. */
struct job {
    int state;
    int sock;
    const char *run_id, *name, *key, *folder;
    uint32_t uid, gid;
    uint64_t files_max, bytes_max;
    json_object *inputs, *facts;
};

#define JOB_FIELD(n, t, member, must, low, high)                                         \
    {                                                                                    \
        .name = n, .type = t, .offset = offsetof(struct job, member), .mandatory = must, \
        .min = low, .max = high                                                          \
    }
static const struct json_field job_fields[] = {
    JOB_FIELD("runId", JSON_FIELD_STRING, run_id, false, 0, RUN_ID_LENGTH_MAX),
    JOB_FIELD("name", JSON_FIELD_STRING, name, false, 0, 0),
    JOB_FIELD("uid", JSON_FIELD_UINT32, uid, false, 0, UINT32_MAX - 1),
    JOB_FIELD("gid", JSON_FIELD_UINT32, gid, false, 0, UINT32_MAX - 1),
    JOB_FIELD("filesMax", JSON_FIELD_UINT64, files_max, false, 0, INT64_MAX),
    JOB_FIELD("bytesMax", JSON_FIELD_UINT64, bytes_max, false, 0, INT64_MAX),
    JOB_FIELD("inputs", JSON_FIELD_ARRAY, inputs, false, 0, 0),
    JOB_FIELD("key", JSON_FIELD_STRING, key, false, 0, LAYER_KEY_LENGTH),
    JOB_FIELD("folder", JSON_FIELD_STRING, folder, false, 0, NAME_MAX),
    JOB_FIELD("facts", JSON_FIELD_OBJECT, facts, false, 0, 0),
};

static void inputs_free(struct store_input *inputs, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free((char *)inputs[i].name);
    free(inputs);
}

static int parse_input(json_object *object, struct store_input *ret)
{
    const char *escaped;
    size_t size;

    int r = store_input_parse(object, &escaped, ret);
    if (r < 0)
        return r;
    ret->name = unescape_text(escaped, &size);
    if (!ret->name)
        return errno == ENOMEM ? -ENOMEM : -EBADMSG;
    return 0;
}

static int parse_inputs(json_object *array, struct store_input **ret, size_t *ret_n)
{
    size_t n = array ? json_object_array_length(array) : 0;
    struct store_input *inputs = calloc(n + 1, sizeof(*inputs));

    if (!inputs)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++) {
        int r = parse_input(json_object_array_get_idx(array, i), &inputs[i]);
        if (r < 0) {
            inputs_free(inputs, i);
            return r;
        }
    }
    *ret = inputs;
    *ret_n = n;
    return 0;
}

static int open_staged(const struct job *job)
{
    char path[sizeof("staging/") + RUN_ID_LENGTH_MAX] = "staging/";

    strcat(path, job->run_id);
    return beneath_open_directory(job->state, path);
}

/* Removes what a collection made. */
static void remove_collected(int staging)
{
    (void)remove_leftover(staging, "files");
}

static bool is_empty(int directory)
{
    int fd = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    _cleanup_closedir_ DIR *dir = directory_take(fd);

    errno = 0;
    return dir && !directory_next(dir) && errno == 0;
}

/* The folder for the outputs: the broker may have made it, and a collection that was killed may
 * have left something in it. Returns its fd or a negative errno. */
static int open_files(int staging)
{
    _cleanup_close_ int files = beneath_open_directory(staging, "files");

    if (files >= 0 && is_empty(files))
        return TAKE_FD(files);
    if (files != -ENOENT)
        remove_collected(staging);
    return beneath_make_directory(staging, "files");
}

static int job_collect(const struct job *job, int staging, int workspace, json_object **ret)
{
    struct store_collect request = {
        .run_id = job->run_id,
        .uid = job->uid,
        .gid = job->gid,
        .workspace = workspace,
        .files_max = job->files_max,
        .bytes_max = job->bytes_max,
    };
    struct store_input *inputs;

    int r = parse_inputs(job->inputs, &inputs, &request.n_inputs);
    if (r < 0)
        return r;
    request.inputs = inputs;
    _cleanup_close_ int files = open_files(staging);
    r = files < 0 ? files : collect_workspace(&request, files, job->sock, ret);
    inputs_free(inputs, request.n_inputs);
    return r;
}

/* Waits for the broker's word. 0: publish; else nobody wants it any more, or nonsense came. */
static int wait_for_publish(int sock)
{
    struct store_request request;
    int fds[PACKET_FDS_MAX];
    size_t n_fds;

    ssize_t n = packet_recv(sock, &request, sizeof(request), fds, &n_fds);
    if (n < 0)
        return (int)n;
    packet_close_fds(fds);
    if (n == 0)
        return -ECANCELED;
    return n == sizeof(request) && request.operation == STORE_PUBLISH ? 0 : -EBADMSG;
}

static void publish(const struct job *job)
{
    int r = publish_run(job->state, job->run_id, job->uid, job->gid);

    store_answer_send(job->sock, r, NULL, -1);
}

static void run_collect(const struct job *job, int workspace)
{
    _cleanup_json_ json_object *result = NULL;
    _cleanup_close_ int staging = open_staged(job);

    if (staging < 0) {
        close_fd(workspace);
        store_answer_send(job->sock, staging, NULL, -1);
        return;
    }
    int r = job_collect(job, staging, workspace, &result);
    /* The fd holds the sandbox's files in memory, and the wait may be long. */
    close_fd(workspace);
    if (store_answer_send(job->sock, r, result, -1) < 0)
        r = -ECANCELED;
    if (r == 0) {
        alarm(0);
        r = wait_for_publish(job->sock);
        alarm(STEP_SECONDS_MAX);
    }
    if (r < 0) {
        remove_collected(staging);
        return;
    }
    publish(job);
}

static void run_remove(const struct job *job)
{
    _cleanup_json_ json_object *result = NULL;
    _cleanup_close_ int user = beneath_open_user(job->state, job->uid);

    int r = user < 0 ? user : remove_tree(user, job->run_id, job->uid, &result);
    store_answer_send(job->sock, r, result, -1);
}

static void run_discard(const struct job *job)
{
    _cleanup_json_ json_object *result = NULL;
    _cleanup_close_ int staging = beneath_open_directory(job->state, "staging");

    int r = staging < 0 ? staging : remove_tree(staging, job->run_id, REMOVE_ANY_OWNER, &result);
    store_answer_send(job->sock, r, result, -1);
}

static void run_survey(const struct job *job)
{
    _cleanup_json_ json_object *result = NULL;

    int r = survey_user(job->state, job->uid, &result);
    store_answer_send(job->sock, r, result, -1);
}

static void run_open(const struct job *job)
{
    _cleanup_json_ json_object *result = json_object_new_object();
    uint64_t size;

    _cleanup_close_ int fd = open_kept_file(job->state, job->uid, job->run_id, job->name, &size);
    if (fd < 0 || !result || json_add_uint64(result, "bytes", size) < 0) {
        store_answer_send(job->sock, fd < 0 ? fd : -ENOMEM, NULL, -1);
        return;
    }
    store_answer_send(job->sock, 0, result, fd);
}

/* ---- Layers ---- */

static int job_install(const struct job *job, int workspace, json_object **ret)
{
    const struct layer_source source = {
        .workspace = workspace,
        .folder = job->folder,
        .files_max = job->files_max,
        .bytes_max = job->bytes_max,
    };

    if (workspace < 0)
        return -EINVAL;
    return layer_install(job->state, job->uid, job->key, &source, job->facts, job->sock, ret);
}

/* Takes over @workspace. */
static void run_layer(const struct job *job, uint32_t operation, int workspace)
{
    _cleanup_json_ json_object *result = NULL;
    int r;

    switch (operation) {
    case STORE_LAYER_INSTALL:
        r = job_install(job, workspace, &result);
        break;
    case STORE_LAYER_REMOVE:
        r = layer_remove(job->state, job->uid, job->key, &result);
        break;
    case STORE_LAYER_LIST:
        r = layer_list(job->state, job->uid, &result);
        break;
    default:
        r = layer_load(job->state, &result);
    }
    close_fd(workspace);
    store_answer_send(job->sock, r, result, -1);
}

/* ---- All of them ---- */

/* Whether the payload has what the operation needs. */
static bool is_complete(const struct job *job, uint32_t operation)
{
    bool has_uid = job->uid != UINT32_MAX;

    switch (operation) {
    case STORE_COLLECT:
    case STORE_PUBLISH_STAGED:
        return run_id_valid(job->run_id) && has_uid && job->gid != UINT32_MAX;
    case STORE_REMOVE:
        return run_id_valid(job->run_id) && has_uid;
    case STORE_OPEN:
        return run_id_valid(job->run_id) && has_uid && job->name;
    case STORE_DISCARD:
        return run_id_valid(job->run_id);
    case STORE_LAYER_INSTALL:
        return layer_key_valid(job->key) && has_uid && job->folder && job->facts;
    case STORE_LAYER_REMOVE:
        return layer_key_valid(job->key) && has_uid;
    case STORE_LAYER_LIST:
    case STORE_SURVEY:
        return has_uid;
    case STORE_LAYER_LOAD:
        return true;
    default:
        return false;
    }
}

/* Takes over @workspace. */
static void run_job(const struct job *job, uint32_t operation, int workspace)
{
    if (operation == STORE_COLLECT) {
        run_collect(job, workspace);
        return;
    }
    if (operation >= STORE_LAYER_INSTALL) {
        run_layer(job, operation, workspace);
        return;
    }
    close_fd(workspace);
    if (operation == STORE_REMOVE)
        run_remove(job);
    else if (operation == STORE_PUBLISH_STAGED)
        publish(job);
    else if (operation == STORE_SURVEY)
        run_survey(job);
    else if (operation == STORE_OPEN)
        run_open(job);
    else
        run_discard(job);
}

void store_job_rehearse(void)
{
    _cleanup_json_ json_object *object = json_object_new_object(), *read = NULL;

    (void)json_add_string(object, "runId", "");
    _cleanup_close_ int payload = store_payload_new(object);
    if (payload >= 0)
        (void)store_payload_read(payload, &read);
}

void store_job_run(int state, const struct store_request *request, int sock, int payload,
                   int workspace)
{
    struct job job = { .state = state, .sock = sock, .uid = UINT32_MAX, .gid = UINT32_MAX };
    _cleanup_json_ json_object *object = NULL;
    const char *offending;

    alarm(STEP_SECONDS_MAX);
    int r = store_payload_read(payload, &object);
    close_fd(payload);
    if (r == 0 &&
        (json_dispatch(object, job_fields, ELEMENTS(job_fields), false, &job, &offending) < 0 ||
         !is_complete(&job, request->operation)))
        r = -EINVAL;
    if (r == 0) {
        run_job(&job, request->operation, workspace);
        return;
    }
    close_fd(workspace);
    store_answer_send(sock, r, NULL, -1);
}
