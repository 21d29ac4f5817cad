/* The program's way through the sandbox, see run.h. */
#include "run.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <systemd/sd-daemon.h>

#include "arguments.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/escape.h"
#include "common/quantity.h"
#include "script.h"

#define INPUT_MAX (32 * 1024)
/* envd's sign of life comes every 20 s; a program that takes all CPUs may hold it up. */
#define SILENCE_USEC (90 * USEC_PER_SEC)
#define TERM_SILENCE_USEC (5 * USEC_PER_SEC)
/* For who closes it, to have done so; the upload's time counts. */
#define INPUT_WAIT_USEC (USEC_PER_SEC / 4)
#define FLUSH_USEC (USEC_PER_SEC / 10)
#define RESCUE_FLUSH_USEC (2 * USEC_PER_SEC)

static bool is_stop(int error)
{
    return error == -ECANCELED || error == -ETIME;
}

/* ---- standard input */

static int stop_input(struct run *run)
{
    run->input_watch->fd = -1;
    run->input = close_fd(run->input);
    return 0;
}

static int on_input(void *userdata)
{
    struct run *run = userdata;
    char data[INPUT_MAX];

    ssize_t n = read(run->input, data, sizeof(data));
    if (n <= 0) {
        int r = envd_close_input(run->envd, run->pid);
        stop_input(run);
        return is_stop(r) ? r : 0;
    }
    int r = envd_send_input(run->envd, run->pid, data, (size_t)n);
    /* The program ended, or takes no more. */
    return r < 0 && !is_stop(r) ? stop_input(run) : r;
}

/* A file is sent before the program starts. Returns it, borrowed, or -1. */
static int input_file(int fd)
{
    struct stat st;

    return fstat(fd, &st) >= 0 && S_ISREG(st.st_mode) ? fd : -1;
}

/* Of a pipe, what comes while the program runs is handed on as it comes; most have nothing and are
 * closed by now, which saves a request. */
static void sort_input(struct run *run, uint64_t since_usec)
{
    struct pollfd look = { .fd = run->input, .events = POLLIN };
    struct stat st;
    bool at_end =
        poll_until(&look, 1, since_usec + INPUT_WAIT_USEC) == 1 && (look.revents & POLLIN) == 0;

    if (at_end || fstat(run->input, &st) < 0 || !S_ISFIFO(st.st_mode))
        run->input = close_fd(run->input);
}

/* ---- streams */

static int on_output(bool is_stderr, const char *data, size_t size, void *userdata)
{
    struct run *run = userdata;

    return sink_write(&run->sinks[is_stderr], data, size);
}

static bool is_full(void *userdata)
{
    const struct run *run = userdata;

    return sink_is_full(&run->sinks[0]) || sink_is_full(&run->sinks[1]);
}

static void on_started(uint32_t pid, void *userdata)
{
    struct run *run = userdata;

    run->pid = pid;
    if (run->input >= 0)
        run->input_watch->fd = run->input;
}

static int flush(struct run *run)
{
    int r = 0;

    while (r >= 0 && is_full(run))
        r = http_wait(&run->cloud->http, FLUSH_USEC);
    return r;
}

static void close_streams(struct run *run)
{
    stop_input(run);
    for (size_t i = 0; i < 2; i++)
        sink_close(&run->sinks[i]);
}

/* The program cannot be made to feel it by SIGPIPE, and what it goes on to write costs money. */
static int on_reader_left(void *userdata)
{
    struct run *run = userdata;

    int r = run->running ? run_ask_to_end(run) : 0;
    return is_stop(r) ? r : 0;
}

static int open_streams(struct run *run, const int stdio[3])
{
    int r = 0;

    for (size_t i = 0; i < 2; i++) {
        int opened = sink_open(&run->sinks[i], stdio[i + 1], run->sink_watches[i], &run->running,
                               on_reader_left, run);
        r = r < 0 ? r : opened;
    }
    return r;
}

/* A line among the program's own, since a result has no other place for it. */
static void say(struct run *run, const char *text)
{
    (void)sink_write(&run->sinks[1], text, strlen(text));
}

/* ---- the program's end */

static void tell_left_out(struct run *run)
{
    const char *name = run->report.left_out;
    _cleanup_free_ char *shown = escape_text(name, strlen(name), 120);
    char line[400], size[QUANTITY_TEXT];

    if (name[0] == '\0')
        return;
    snprintf(line, sizeof(line),
             "sbxctl: '%s' (%s) did not fit into the workspace on this machine and is lost, as is "
             "what is larger.\n",
             shown ? shown : "?", format_bytes(run->report.left_out_bytes, size));
    say(run, line);
}

static int collect(struct run *run)
{
    _cleanup_json_ json_object *arguments =
        arguments_of_script(SCRIPT_COLLECT, run->directory, run->folder);
    char line[ENGINE_TEXT_MAX + 80];

    if (!arguments)
        return -ENOMEM;
    run->collected = true;
    int r = transfer_collect(&run->transfer, run->envd, arguments, &run->report);
    if (r == -ECANCELED)
        return r;
    if (r < 0) {
        snprintf(line, sizeof(line), "sbxctl: Not all files of the run could be fetched: %s\n",
                 r == -ETIME ? "It took too long." : run->cloud->error);
        say(run, line);
    }
    shown_write(&run->shown, run->transfer.workspace);
    tell_left_out(run);
    return 0;
}

/* The likeliest reason for a notebook's kernel to be gone. */
static bool lacked_memory(const struct run *run)
{
    return run->report.oom_kills != UINT64_MAX && run->report.oom_kills > 0;
}

/* By the shell's status, which is 128 and more for a signal. */
static void explain(const struct envd_result *result, const struct transfer_report *report,
                    struct launch_exited *ret)
{
    int signal =
        result->exit_code > 128 && report->status < 0 ? result->exit_code - 128 : result->signal;

    *ret = (struct launch_exited){
        .header = { LAUNCH_PROTOCOL_VERSION, LAUNCH_EXITED },
        .kind = LAUNCH_EXIT_CODE,
        .value = result->exit_code,
        .cpu_usec = report->cpu_usec == UINT64_MAX ? 0 : report->cpu_usec,
        .scratch_files = report->scratch_files,
    };
    if (result->exit_code == 127 && report->is_missing) {
        ret->kind = LAUNCH_EXIT_EXEC;
        ret->value = ENOENT;
    } else if (result->exit_code < 0 || (signal > 0 && signal < NSIG)) {
        ret->kind = LAUNCH_EXIT_SIGNAL;
        ret->value = signal > 0 ? signal : SIGKILL;
    }
}

static int interpret(struct run *run, const struct launch_program *program,
                     json_object *environment, const struct envd_program *streams,
                     struct envd_result *ret)
{
    const struct interpreter_run wanted = { program, run->folder, environment, streams,
                                            &run->shown };

    return interpreter_run(run->envd, run->box, &wanted, &ret->may_have_started);
}

/* A notebook has no standard input, so where there may be one it is not used. */
static int start(struct run *run, const struct launch_program *program, bool has_input,
                 struct envd_result *ret)
{
    bool can_interpret =
        !has_input && interpreter_takes(run->cloud->config, run->template_id, program);
    _cleanup_json_ json_object *arguments =
        arguments_of_program(program, &run->transfer, run->directory, run->folder);
    _cleanup_json_ json_object *environment = arguments_environment(program);
    const struct envd_program wanted = {
        .arguments = arguments,
        .environment = environment,
        .takes_input = run->input >= 0,
        .silence_usec = SILENCE_USEC,
        .output = on_output,
        .full = is_full,
        .started = on_started,
        .userdata = run,
        .running = &run->running,
    };

    *ret = (struct envd_result){ 0 };
    if (!arguments || !environment)
        return -ENOMEM;
    int r = -ENOPROTOOPT;
    run->interpreted = can_interpret;
    if (can_interpret)
        r = interpret(run, program, environment, &wanted, ret);
    if (r != -ENOPROTOOPT)
        return r;
    run->interpreted = false;
    return envd_run(run->envd, &wanted, ret);
}

/* Nothing that could be fetched is there. */
enum run_end run_give_up(struct run *run)
{
    fprintf(stderr, SD_ERR "%s\n", run->cloud->error);
    run->collected = true;
    close_streams(run);
    return RUN_NOT_STARTED;
}

static int begin(struct run *run, const struct launch_program *program, const int stdio[3])
{
    run->input = stdio[0];
    int r = open_streams(run, stdio);
    if (r < 0)
        return cloud_fail(run->cloud, r, "Its streams cannot be opened: %s.", strerror(-r));
    if (!arguments_are_text(program))
        return cloud_fail(run->cloud, -EILSEQ,
                          "Its arguments and its environment are not all UTF-8, and E2B takes no "
                          "others.");
    return 0;
}

enum run_end run_send(struct run *run, const struct launch_program *program, const int stdio[3])
{
    uint64_t began = clock_now();

    run->result = (struct envd_result){ 0 };
    if (begin(run, program, stdio) < 0)
        return run_give_up(run);
    int file = input_file(run->input);
    run->has_input_file = file >= 0;
    snprintf(run->directory, sizeof(run->directory), "%s", program->directory);
    shown_release(&run->shown);
    int r = transfer_upload(&run->transfer, run->envd, run->directory, file, run->folder);
    if (r < 0)
        return is_stop(r) ? RUN_STOPPED : run_give_up(run);
    sort_input(run, began);
    return RUN_SENT;
}

enum run_end run_program(struct run *run, const struct launch_program *program)
{
    struct envd_result *result = &run->result;

    run->went = true;
    run->collected = false;
    int r = start(run, program, run->has_input_file || run->input >= 0, result);
    if (r < 0 && !result->may_have_started && !is_stop(r))
        return run_give_up(run);
    run->fell = r == -EOWNERDEAD;
    r = r < 0 && !run->fell ? r : flush(run);
    return is_stop(r) ? RUN_STOPPED : r < 0 ? RUN_UNKNOWN : RUN_EXITED;
}

enum run_end run_come_home(struct run *run, struct launch_exited *ret)
{
    struct envd_result ended = run->result;
    bool fell = run->fell;

    int r = collect(run);
    r = r < 0 ? r : flush(run);
    if (is_stop(r))
        return RUN_STOPPED;
    if (r < 0 || (fell && !lacked_memory(run)) ||
        (run->interpreted && !fell && run->report.status < 0))
        return RUN_UNKNOWN;
    if (run->interpreted) {
        ended.exit_code = fell ? -1 : run->report.status;
        ended.signal = fell ? SIGKILL : 0;
    }
    explain(&ended, &run->report, ret);
    close_streams(run);
    return RUN_EXITED;
}

/* It has nothing to say; kept, it could be without end, since nothing here waits for the reader. */
static int ignore_output(bool is_stderr, const char *data, size_t size, void *userdata)
{
    return 0;
}

int run_ask_to_end(struct run *run)
{
    _cleanup_json_ json_object *arguments =
        arguments_of_script(SCRIPT_TERM, run->directory, run->folder);
    struct envd_program program = {
        .arguments = arguments,
        .silence_usec = TERM_SILENCE_USEC,
        .output = ignore_output,
        .userdata = run,
    };
    struct envd_result result;

    return arguments ? envd_run(run->envd, &program, &result) : -ENOMEM;
}

bool run_has_files(const struct run *run)
{
    return run->went && !run->collected;
}

void run_rescue(struct run *run)
{
    if (run_has_files(run))
        collect(run);
    /* Who does not read has no claim to the time that is for files. */
    uint64_t end = clock_now() + RESCUE_FLUSH_USEC;
    if (end < run->cloud->http.deadline_usec)
        run->cloud->http.deadline_usec = end;
    flush(run);
    close_streams(run);
}

/* ---- all of it */

void run_open(struct run *run, struct cloud *cloud, struct envd *envd,
              const struct cloud_sandbox *box, const char *template_id, const char *run_id)
{
    *run = (struct run){
        .cloud = cloud, .envd = envd, .box = box, .template_id = template_id, .input = -1
    };
    run->transfer.workspace = -1;
    run->report.cpu_usec = run->report.oom_kills = UINT64_MAX;
    run->input_watch = http_watch(&cloud->http, -1, POLLIN, on_input, run);
    for (size_t i = 0; i < 2; i++) {
        run->sink_watches[i] = http_watch(&cloud->http, -1, POLLOUT, NULL, NULL);
        run->sinks[i].fd = -1;
    }
    snprintf(run->folder, sizeof(run->folder), "/tmp/.sbxctl-%s", run_id);
}

void run_close(struct run *run)
{
    close_streams(run);
    shown_release(&run->shown);
    transfer_release(&run->transfer);
    run->transfer.workspace = close_fd(run->transfer.workspace);
}
