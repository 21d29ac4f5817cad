/* A broker for the tests of the store: it forks the store process on a scratch state directory and
 * waits for its jobs. */
#pragma once

#include "store-fixture.h"

#define OTHER_ID "fedcba9876543210"
#define WAIT_USEC (20 * 1000 * 1000ULL)

struct fixture {
    struct scratch scratch;
    int state; /* <scratch>/state */
    uid_t uid; /* the caller's: another user if we are root */
    sd_event *event;
    struct store *store;
    struct store_job *job;
};

struct outcome {
    bool done;
    int error, fd;
    json_object *result;
};

static inline int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    char path[128];

    assert_non_null(f);
    scratch_make(&f->scratch);
    make_directory_at(f->scratch.fd, "state");
    f->state = open_directory_at(f->scratch.fd, "state");
    f->uid = is_root() ? 4242 : geteuid();
    snprintf(path, sizeof(path), "%s/state", f->scratch.path);
    assert_int_equal(store_fork(path, &f->store), 0);
    assert_int_equal(sd_event_new(&f->event), 0);
    assert_int_equal(store_attach(f->store, f->event), 0);
    *state = f;
    return 0;
}

static inline int teardown(void **state)
{
    struct fixture *f = *state;

    store_job_free(f->job);
    store_free(f->store);
    sd_event_unref(f->event);
    close(f->state);
    scratch_remove(&f->scratch);
    free(f);
    return 0;
}

static inline void on_done(int error, json_object *result, int fd, void *userdata)
{
    struct outcome *o = userdata;

    assert_false(o->done);
    *o = (struct outcome){
        .done = true, .error = error, .fd = fd, .result = json_object_get(result)
    };
}

static inline void wait_for(struct fixture *f, struct outcome *o)
{
    for (int i = 0; i < 10000 && !o->done; i++)
        assert_true(sd_event_run(f->event, WAIT_USEC) > 0);
    assert_true(o->done);
}

/* The end of a single step; the job is forgotten. */
static inline int finish(struct fixture *f, int r, struct outcome *o)
{
    assert_int_equal(r, 0);
    wait_for(f, o);
    f->job = store_job_free(f->job);
    return o->error;
}

static inline void outcome_release(struct outcome *o)
{
    json_object_put(o->result);
    if (o->done && o->fd >= 0)
        close(o->fd);
    *o = (struct outcome){ .fd = -1 };
}

static inline int remove_run(struct fixture *f, uid_t uid, const char *id)
{
    struct outcome o = { 0 };
    int r = finish(f, store_remove(f->store, uid, id, on_done, &o, &f->job), &o);

    outcome_release(&o);
    return r;
}

/* Opens a kept file; an fd or the error. */
static inline int open_kept(struct fixture *f, uid_t uid, const char *name)
{
    struct outcome o = { 0 };
    int r = finish(f, store_open(f->store, uid, RUN_ID, name, on_done, &o, &f->job), &o);

    json_object_put(o.result);
    return r < 0 ? r : o.fd;
}

static inline void stage(struct fixture *f, const char *id)
{
    char path[128];

    snprintf(path, sizeof(path), "staging/%s", id);
    assert_int_equal(mkdirat(f->state, path, 0700), 0);
    strcat(path, "/stdout");
    write_file_at(f->state, path, "printed");
}

static inline struct store_collect collection(struct fixture *f, const char *id)
{
    return (struct store_collect){ .run_id = id,
                                   .uid = f->uid,
                                   .gid = is_root() ? 4343 : getegid(),
                                   .workspace = f->scratch.workspace,
                                   .files_max = 100,
                                   .bytes_max = 1024 * 1024 };
}

/* Collects into staging/<id>; f->job is waiting then. */
static inline int collect(struct fixture *f, const char *id, struct outcome *o)
{
    struct store_collect request = collection(f, id);

    assert_int_equal(store_collect(f->store, &request, on_done, o, &f->job), 0);
    wait_for(f, o);
    return o->error;
}

static inline int publish(struct fixture *f)
{
    struct outcome o = { 0 };
    int r = finish(f, store_publish(f->job, on_done, &o), &o);

    outcome_release(&o);
    return r;
}

/* Publishes a run with a stdout and what is in the workspace. */
static inline void publish_run_of(struct fixture *f, const char *id)
{
    struct outcome o = { 0 };

    stage(f, id);
    assert_int_equal(collect(f, id, &o), 0);
    outcome_release(&o);
    assert_int_equal(publish(f), 0);
}

/* The caller's directory of a published run. */
static inline int open_run(struct fixture *f, const char *id)
{
    char path[128];

    snprintf(path, sizeof(path), "users/%u/%s", (unsigned)f->uid, id);
    return open_directory_at(f->state, path);
}
