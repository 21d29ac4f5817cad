/* What connects a run's program with its caller: pipes, and the streams that are read here. */
#include "broker/attach.h"
#include "broker/run-internal.h"

#include <fcntl.h>
#include <sys/stat.h>

static int make_pipe(int ret[2])
{
    return pipe2(ret, O_CLOEXEC) < 0 ? -errno : 0;
}

/* The pipe between the program and the broker: @which is the program's descriptor. One that waits
 * has its own ends already. */
static int make_program_pipe(struct run *run, size_t which, int *ret_program, int *ret_ours)
{
    int ends[2];

    if (run->interpreter_warm) {
        *ret_program = -1;
        *ret_ours = TAKE_FD(run->interpreter.pipes[which]);
        return 0;
    }
    int r = make_pipe(ends);
    if (r < 0)
        return r;
    *ret_program = ends[which == 0 ? 0 : 1];
    *ret_ours = ends[which == 0 ? 1 : 0];
    return 0;
}

static void on_output(struct stream *stream, const char *data, size_t size, uint64_t offset,
                      void *userdata)
{
    struct run *run = userdata;

    attach_output(run, stream, data, size, offset);
    /* What was kept is told by its file. */
    if (stream_bytes(stream) > stream_kept(stream))
        run_note_live(run);
}

/* One output stream: the program's pipe, and the caller's if it wants descriptors. */
int run_make_stream(struct run *run, size_t which, int *ret_program, int *ret_caller)
{
    struct stream_options options = {
        .name = stream_names[which],
        .kept = run->kept[which],
        .kept_max = run->manager->config.kept_stream_bytes,
        .sink = -1,
        .call = run->request.streams == STREAMS_MESSAGES ? run->call : NULL,
        .came = on_output,
        .changed = run_stream_changed,
        .userdata = run,
    };
    int caller[2] = { -1, -1 };
    int r = make_program_pipe(run, which + 1, ret_program, &options.source);

    if (r < 0)
        return r;
    if (run->request.streams == STREAMS_DESCRIPTORS) {
        r = make_pipe(caller);
        if (r < 0) {
            close_fd(options.source);
            return r;
        }
    }
    options.sink = caller[1];
    *ret_caller = caller[0];
    return stream_new(run->manager->event, &options, &run->streams[which]);
}

int run_make_stdin(struct run *run, int *ret_program, int *ret_caller)
{
    if (run->request.streams == STREAMS_DESCRIPTORS)
        return make_program_pipe(run, 0, ret_program, ret_caller);
    if (run->interpreter_warm)
        return 0; /* it has /dev/null */
    if (run->request.stdin_memfd >= 0) {
        *ret_program = TAKE_FD(run->request.stdin_memfd);
        return 0;
    }
    *ret_program = open("/dev/null", O_RDONLY | O_CLOEXEC);
    return *ret_program < 0 ? -errno : 0;
}

int run_restore_streams(struct run *run, int out, int err, const uint64_t bytes[2])
{
    int sources[2] = { out, err }, r = 0;
    struct stat st;

    for (size_t i = 0; i < 2; i++) {
        int ends[2];

        /* It had come to its end. */
        if (sources[i] < 0 && r >= 0) {
            r = make_pipe(ends);
            if (r >= 0) {
                sources[i] = ends[0];
                close_fd(ends[1]);
            }
        }
        if (r >= 0 && fstat(run->kept[i], &st) < 0)
            r = -errno;
        if (r < 0) {
            close_fd(sources[i]);
            continue;
        }
        const struct stream_options options = {
            .name = stream_names[i],
            .source = sources[i],
            .kept = run->kept[i],
            .kept_max = run->manager->config.kept_stream_bytes,
            .kept_bytes = (uint64_t)st.st_size,
            .bytes = bytes[i] > (uint64_t)st.st_size ? bytes[i] : (uint64_t)st.st_size,
            .sink = -1,
            .came = on_output,
            .changed = run_stream_changed,
            .userdata = run,
        };
        r = stream_new(run->manager->event, &options, &run->streams[i]);
    }
    return r;
}
