/* A collection in this process, for the tests of it: scratch workspace, staging directory, and a
 * job's socket. */
#pragma once

#include "store-fixture.h"
#include "broker/store-beneath.h"
#include "broker/store-collect.h"

#define MIB (1024ULL * 1024)

struct fixture {
    struct scratch scratch;
    int staging, job[2];
    struct store_collect request;
    json_object *result;
};

static inline int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));

    assert_non_null(f);
    scratch_make(&f->scratch);
    make_directory_at(f->scratch.fd, "staging");
    f->staging = open_directory_at(f->scratch.fd, "staging");
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, f->job), 0);
    f->request = (struct store_collect){ .run_id = RUN_ID,
                                         .workspace = f->scratch.workspace,
                                         .files_max = 1000,
                                         .bytes_max = 64 * MIB };
    *state = f;
    return 0;
}

static inline int teardown(void **state)
{
    struct fixture *f = *state;

    json_object_put(f->result);
    close(f->staging);
    close(f->job[0]);
    if (f->job[1] >= 0)
        close(f->job[1]);
    scratch_remove(&f->scratch);
    free(f);
    return 0;
}

/* Collects anew. */
static inline int try_collect(struct fixture *f)
{
    json_object *ignored = NULL;

    json_object_put(f->result);
    f->result = NULL;
    remove_tree(f->staging, "files", REMOVE_ANY_OWNER, &ignored);
    json_object_put(ignored);
    _cleanup_close_ int files = beneath_make_directory(f->staging, "files");
    return files < 0 ? files : collect_workspace(&f->request, files, f->job[0], &f->result);
}

/* Collects, which must work, and returns the directory of the copies. */
static inline int collect(struct fixture *f)
{
    assert_int_equal(try_collect(f), 0);
    return open_directory_at(f->staging, "files");
}
