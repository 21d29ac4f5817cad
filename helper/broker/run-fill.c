/* Filling of a run's sandbox: its script, then its inputs, one after the other. */
#include "broker/run-internal.h"
#include "common/escape.h"
#include "common/foreign.h"

#include <stdio.h>
#include <string.h>

bool run_is_filled(const struct run *run)
{
    return run->state == STATE_FILLING && run->n_put == run->request.n_inputs + 1;
}

static int put_script(struct run *run)
{
    const struct request *request = &run->request;

    return sandbox_put(run->sandbox, request->script_name, 0755, request->script_bytes,
                       request->script);
}

void run_put_ahead(struct run *run)
{
    run->is_put_ahead = put_script(run) >= 0;
}

void run_put_next(struct run *run)
{
    const struct request *request = &run->request;
    int r;

    if (run_is_filled(run)) {
        run_go_if_filled(run);
        return;
    }
    if (run->n_put == 0) {
        r = put_script(run);
    } else {
        const struct request_input *input = &request->inputs[run->n_put - 1];
        r = sandbox_put(run->sandbox, input->name, 0644, input->size, input->fd);
    }
    if (r < 0 && !run_pool_replace(run))
        run_blame_engine(run, "made a sandbox that did not take the run's files");
}

static const char *put_name(const struct run *run)
{
    return run->n_put == 0 ? run->request.script_name : run->request.inputs[run->n_put - 1].name;
}

static void refuse_put(struct run *run, int error)
{
    json_object *fields = json_object_new_object();
    const char *name = put_name(run);
    _cleanup_free_ char *shown = escape_text(name, strlen(name), 120);
    char reason[256];

    snprintf(reason, sizeof(reason), "'%s' could not be placed in the workspace: %s.",
             shown ? shown : "A file",
             error == EEXIST || error == ENOTDIR ? "another file of the run has its name"
             : error == ENOSPC                   ? "the workspace is too small"
             : error == EIO                      ? "it could not be read, or became shorter"
                                                 : strerror(error));
    (void)json_add_string(fields, "field", "inputs");
    run_refuse(run, RUN_REJECTED, "io.sbxctl.Sandbox.Rejected", fields, reason);
}

void run_put_done(struct run *run, const struct launch_put_done *done)
{
    if (run->state != STATE_FILLING)
        return;
    if (done->error != 0) {
        refuse_put(run, done->error);
        return;
    }
    run->inputs[run->n_put] = (struct store_input){
        .name = put_name(run),
        .inode = done->inode,
        .size = done->size,
        .ctime_sec = done->ctime_sec,
        .ctime_nsec = done->ctime_nsec,
        .mtime_sec = done->mtime_sec,
        .mtime_nsec = done->mtime_nsec,
    };
    /* What lies in the sandbox now need not lie here, too. */
    if (run->n_put == 0)
        run->request.script = close_fd(run->request.script);
    else
        foreign_close(TAKE_FD(run->request.inputs[run->n_put - 1].fd), run->uid);
    run->n_put++;
    run_put_next(run);
}
