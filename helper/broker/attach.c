/* Followers of runs, see attach.h. */
#include "broker/attach.h"
#include "broker/keeper.h"
#include "broker/methods-runs.h"
#include "broker/run-internal.h"
#include "broker/run-queue.h"
#include "broker/stream.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* What is read at once; and what may wait in a connection before nothing more is put there. */
#define CHUNK (48 * 1024)
#define PENDING_MAX (64 * 1024)

/* Where a follower is in one stream. */
struct position {
    uint64_t next; /* byte to be sent */
    /* When the run is over: the kept bytes, and their file, ours; -1: none. */
    uint64_t kept;
    int fd;
};

struct attachment {
    struct manager *manager;
    struct attachment *previous, *next;
    struct run *run; /* NULL: it is over */
    struct varlink_call *call;
    char id[RUN_ID_TEXT];
    uid_t uid;
    bool output;
    struct position positions[2];
    json_object *result; /* when the run is over */
    struct store_job *job;
    size_t n_opened; /* of the streams of a run that was over before */
};

struct parameters {
    const char *id;
    bool output;
    uint64_t offsets[2];
};

#define AT(member) offsetof(struct parameters, member)
static const struct json_field attach_fields[] = {
    { "id", JSON_FIELD_STRING, AT(id), true, 0, 64 },
    { "output", JSON_FIELD_BOOL, AT(output), false, 0, 0 },
    { "stdoutOffset", JSON_FIELD_UINT64, AT(offsets[0]), false, 0, INT64_MAX },
    { "stderrOffset", JSON_FIELD_UINT64, AT(offsets[1]), false, 0, INT64_MAX },
};
#undef AT

static void attachment_free(struct attachment *attachment)
{
    if (attachment->previous)
        attachment->previous->next = attachment->next;
    else if (attachment->manager->attachments == attachment)
        attachment->manager->attachments = attachment->next;
    if (attachment->next)
        attachment->next->previous = attachment->previous;
    varlink_call_on_gone(attachment->call, NULL, NULL);
    varlink_call_on_drained(attachment->call, NULL, NULL);
    varlink_call_unref(attachment->call);
    for (size_t i = 0; i < 2; i++)
        close_fd(attachment->positions[i].fd);
    store_job_free(attachment->job);
    json_object_put(attachment->result);
    free(attachment);
}

void attach_free_all(struct manager *manager)
{
    while (manager->attachments)
        attachment_free(manager->attachments);
}

/* ---- Sending ---- */

static bool may_send(const struct attachment *attachment)
{
    return varlink_call_pending_output(attachment->call) < PENDING_MAX;
}

/* A caller who cannot be reached is noticed by its hang-up. */
static void send_output(struct attachment *attachment, size_t which, const char *data, size_t size)
{
    struct position *position = &attachment->positions[which];

    while (size > 0) {
        size_t n = size < CHUNK ? size : CHUNK;
        json_object *message =
            stream_message(attachment->id, stream_names[which], data, n, position->next);

        if (message)
            (void)varlink_notify(attachment->call, message, NULL, 0);
        position->next += n;
        data += n;
        size -= n;
    }
}

/* Of what was kept, as much as the caller takes now. */
static void send_kept(struct attachment *attachment, size_t which)
{
    struct position *position = &attachment->positions[which];
    const struct run *run = attachment->run;
    uint64_t kept = !run                  ? position->kept
                    : run->streams[which] ? stream_kept(run->streams[which])
                                          : 0;
    int fd = run ? run->kept[which] : position->fd;
    char data[CHUNK];

    while (position->next < kept && may_send(attachment)) {
        uint64_t left = kept - position->next;
        ssize_t n = pread(fd, data, left < CHUNK ? left : CHUNK, (off_t)position->next);

        if (n < 0 && errno == EINTR)
            continue;
        /* A file that became shorter, since it is the caller's now. */
        if (n <= 0)
            position->next = kept;
        else
            send_output(attachment, which, data, (size_t)n);
    }
}

/* Sends what there is; frees the attachment with the final answer. */
static void advance(struct attachment *attachment)
{
    json_object *reply;

    /* Its files are being opened. */
    if (attachment->job)
        return;
    for (size_t i = 0; i < 2 && attachment->output; i++)
        send_kept(attachment, i);
    if (!attachment->result)
        return;
    for (size_t i = 0; i < 2 && attachment->output; i++)
        if (attachment->positions[i].next < attachment->positions[i].kept)
            return;
    reply = json_object_new_object();
    if (!reply || json_add_string(reply, "event", "finished") < 0 ||
        json_add_string(reply, "id", attachment->id) < 0 ||
        json_add(reply, "result", json_object_get(attachment->result)) < 0)
        json_object_put(reply);
    else
        (void)varlink_reply(attachment->call, reply);
    attachment_free(attachment);
}

static void on_drained(struct varlink_call *call, void *userdata)
{
    advance(userdata);
}

static void on_gone(struct varlink_call *call, void *userdata)
{
    attachment_free(userdata);
}

/* ---- What the run says ---- */

void attach_notify(struct run *run, json_object *more)
{
    for (struct attachment *a = run->manager->attachments; a; a = a->next)
        if (a->run == run && varlink_call_wants_more(a->call) &&
            varlink_call_pending_output(a->call) == 0)
            (void)varlink_notify(a->call, json_object_get(more), NULL, 0);
}

/* What was not kept, to one who has all that was. */
static void send_live(struct attachment *attachment, size_t which, uint64_t kept, const char *data,
                      size_t size, uint64_t offset)
{
    struct position *position = &attachment->positions[which];
    uint64_t end = offset + size;

    if (offset < kept) {
        data += kept - offset;
        offset = kept;
    }
    if (offset < position->next) {
        if (end <= position->next)
            return;
        data += position->next - offset;
        offset = position->next;
    }
    if (!may_send(attachment))
        return;
    position->next = offset;
    send_output(attachment, which, data, (size_t)(end - offset));
}

void attach_output(struct run *run, const struct stream *stream, const char *data, size_t size,
                   uint64_t offset)
{
    size_t which = stream == run->streams[1];
    uint64_t kept = stream_kept(stream);

    for (struct attachment *a = run->manager->attachments; a; a = a->next) {
        if (a->run != run || !a->output)
            continue;
        send_kept(a, which);
        if (offset + size > kept && a->positions[which].next >= kept)
            send_live(a, which, kept, data, size, offset);
    }
}

/* The run's files stay ours to read until all of it is told. */
static void take_over(struct attachment *attachment, json_object *result)
{
    struct run *run = TAKE_PTR(attachment->run);

    attachment->result = json_object_get(result);
    for (size_t i = 0; i < 2 && attachment->output; i++) {
        struct position *position = &attachment->positions[i];
        if (!run->streams[i] || position->next >= stream_kept(run->streams[i]))
            continue;
        position->fd = fcntl(run->kept[i], F_DUPFD_CLOEXEC, 3);
        if (position->fd >= 0)
            position->kept = stream_kept(run->streams[i]);
    }
}

void attach_over(struct run *run, json_object *result)
{
    for (struct attachment *a = run->manager->attachments, *next; a; a = next) {
        next = a->next;
        if (a->run != run)
            continue;
        take_over(a, result);
        advance(a);
    }
}

/* ---- Attach ---- */

static void tell_state(struct attachment *attachment)
{
    struct run *run = attachment->run;
    struct queue_place place;
    json_object *reply;

    if (!varlink_call_wants_more(attachment->call))
        return;
    if (run->state == STATE_WAITING) {
        queue_find_place(&run->manager->queue, &run->item, &place);
        reply = run_place_object(&place);
    } else if (run->go_usec != 0) {
        reply = json_object_new_object();
    } else {
        return;
    }
    if (!reply ||
        json_add_string(reply, "event", run->state == STATE_WAITING ? "queued" : "started") < 0 ||
        json_add_string(reply, "id", attachment->id) < 0)
        json_object_put(reply);
    else
        (void)varlink_notify(attachment->call, reply, NULL, 0);
}

static int open_next(struct attachment *attachment);

static void on_opened(int error, json_object *result, int fd, void *userdata)
{
    struct attachment *attachment = userdata;
    struct position *position = &attachment->positions[attachment->n_opened++];

    attachment->job = store_job_free(attachment->job);
    position->fd = fd;
    /* What the caller removed from its own directory is not told. */
    if (error < 0 || fd < 0)
        position->kept = 0;
    if (open_next(attachment) < 0)
        attachment->positions[1].kept = 0;
    advance(attachment);
}

/* The kept streams of a run that is over, one after the other, as far as its result has some. */
static int open_next(struct attachment *attachment)
{
    for (; attachment->n_opened < 2; attachment->n_opened++) {
        const char *name = stream_names[attachment->n_opened];
        struct position *position = &attachment->positions[attachment->n_opened];
        json_object *stream, *kept;

        if (!json_object_object_get_ex(attachment->result, name, &stream) ||
            !json_object_object_get_ex(stream, "keptBytes", &kept))
            continue;
        position->kept = json_object_get_uint64(kept);
        if (position->next < position->kept)
            return store_open(attachment->manager->store, attachment->uid, attachment->id, name,
                              on_opened, attachment, &attachment->job);
    }
    return 0;
}

static int answer_too_many(struct varlink_call *call, uint64_t limit)
{
    json_object *fields = json_object_new_object();

    (void)json_add_uint64(fields, "limit", limit);
    (void)json_add_string(fields, "reason", "You follow too many runs at once already.");
    return varlink_error(call, "io.sbxctl.Sandbox.TooManyAttached", fields);
}

static uint64_t count(const struct manager *manager, uid_t uid)
{
    uint64_t n = 0;

    for (const struct attachment *a = manager->attachments; a; a = a->next)
        n += a->uid == uid;
    return n;
}

static struct attachment *attachment_new(struct manager *manager, struct varlink_call *call,
                                         const struct parameters *parameters)
{
    struct attachment *attachment = calloc(1, sizeof(*attachment));

    if (!attachment)
        return NULL;
    attachment->manager = manager;
    attachment->call = varlink_call_ref(call);
    attachment->uid = varlink_call_peer(call)->uid;
    attachment->output = parameters->output && varlink_call_wants_more(call);
    snprintf(attachment->id, sizeof(attachment->id), "%s", parameters->id);
    for (size_t i = 0; i < 2; i++)
        attachment->positions[i] = (struct position){ .next = parameters->offsets[i], .fd = -1 };
    attachment->next = manager->attachments;
    if (attachment->next)
        attachment->next->previous = attachment;
    manager->attachments = attachment;
    varlink_call_on_gone(call, on_gone, attachment);
    varlink_call_on_drained(call, on_drained, attachment);
    return attachment;
}

int method_attach(struct varlink_call *call, struct manager *manager)
{
    struct parameters parameters = { .output = true };
    /* So that somebody who follows all they can still has connections for other things. */
    uint64_t limit = manager->config.connections_per_user / 2;
    const struct index_entry *entry;
    struct attachment *attachment;
    struct run *run;
    const char *bad;

    if (json_dispatch(varlink_call_parameters(call), attach_fields, ELEMENTS(attach_fields), false,
                      &parameters, &bad) < 0)
        return varlink_error_invalid_parameter(call, bad);
    int r = methods_find_run(call, manager, parameters.id, &entry, &run);
    if (r <= 0)
        return r;
    if (count(manager, varlink_call_peer(call)->uid) >= limit)
        return answer_too_many(call, limit);
    attachment = attachment_new(manager, call, &parameters);
    if (!attachment)
        return -ENOMEM;
    attachment->run = run;
    if (run && run->state < STATE_REPORTING) {
        tell_state(attachment);
    } else if (run) {
        take_over(attachment, run->result);
    } else {
        attachment->result = index_read_result(manager->index, entry->id);
        if (attachment->result)
            (void)keeper_add_expiry(manager, attachment->result);
        r = !attachment->result ? -EIO : attachment->output ? open_next(attachment) : 0;
    }
    if (r < 0) {
        attachment_free(attachment);
        return r;
    }
    advance(attachment);
    return 0;
}
