/* From facts to the status, the reason and the hint of a run, see outcome.h. */
#include "broker/outcome.h"
#include "broker/hints.h"
#include "common/cleanup.h"
#include "common/quantity.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *run_status_name(enum run_status status)
{
    static const char *const names[] = {
        [RUN_QUEUED] = "queued",
        [RUN_STARTING] = "starting",
        [RUN_RUNNING] = "running",
        [RUN_SUCCEEDED] = "succeeded",
        [RUN_FAILED] = "failed",
        [RUN_TIMED_OUT] = "timed_out",
        [RUN_OUT_OF_MEMORY] = "out_of_memory",
        [RUN_KILLED] = "killed",
        [RUN_CANCELLED] = "cancelled",
        [RUN_LOST] = "lost",
        [RUN_DENIED] = "denied",
        [RUN_REJECTED] = "rejected",
    };
    return names[status];
}

__attribute__((format(printf, 3, 4))) static void
say(struct outcome *outcome, enum run_status status, const char *format, ...)
{
    va_list args;

    outcome->status = status;
    va_start(args, format);
    vsnprintf(outcome->reason, sizeof(outcome->reason), format, args);
    va_end(args);
}

/* Appends a sentence, as far as there is room. */
__attribute__((format(printf, 2, 3))) static void mention(struct outcome *outcome,
                                                          const char *format, ...)
{
    size_t used = strlen(outcome->reason);
    va_list args;

    va_start(args, format);
    vsnprintf(outcome->reason + used, sizeof(outcome->reason) - used, format, args);
    va_end(args);
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* A cloud sandbox has the memory of its template, which nobody here knows, and its files lie on a
 * disk. */
static void out_of_cloud_memory(const struct facts *facts, struct outcome *outcome)
{
    say(outcome, RUN_OUT_OF_MEMORY,
        "The program was ended because it needed more memory than its cloud sandbox has.");
    outcome->signal = SIGKILL;
    hint_memory(facts, 0, outcome->hint);
}

static void out_of_memory(const struct facts *facts, struct outcome *outcome)
{
    uint64_t files = facts->have_exited ? facts->exited.file_bytes : facts->workspace_used;
    char limit[QUANTITY_TEXT], peak[QUANTITY_TEXT], in_files[QUANTITY_TEXT];

    if (facts->cloud) {
        out_of_cloud_memory(facts, outcome);
        return;
    }
    say(outcome, RUN_OUT_OF_MEMORY, "The program was ended because it needed more memory than %s",
        format_bytes(facts->limits->memory_bytes, limit));
    if (facts->have_ended && facts->ended.memory_peak_bytes != UINT64_MAX)
        mention(outcome, " (its peak was %s).", format_bytes(facts->ended.memory_peak_bytes, peak));
    else
        mention(outcome, ".");
    /* Below this it explains nothing. */
    if (files > facts->limits->memory_bytes / 16)
        mention(outcome,
                " %s of it were files in /workspace, /tmp and /dev/shm, which count as memory.",
                format_bytes(files, in_files));
    outcome->signal = SIGKILL;
    hint_memory(facts, 0, outcome->hint);
}

uint64_t facts_cpu_usec(const struct facts *facts)
{
    if (facts->have_ended && facts->ended.cpu_usec != UINT64_MAX)
        return facts->ended.cpu_usec;
    return facts->have_exited ? facts->exited.cpu_usec : UINT64_MAX;
}

uint64_t facts_leftovers(const struct facts *facts)
{
    uint64_t launcher = facts->have_exited ? facts->exited.leftovers : 0;
    uint64_t engine =
        facts->have_ended && facts->ended.leftovers != UINT64_MAX ? facts->ended.leftovers : 0;

    return launcher > engine ? launcher : engine;
}

static void timed_out(const struct facts *facts, struct outcome *outcome)
{
    uint64_t more = smaller(facts->limits->timeout_usec * 2, facts->ceiling->timeout_usec);
    char limit[QUANTITY_TEXT], cpu[QUANTITY_TEXT];

    say(outcome, RUN_TIMED_OUT, "The program was ended because its time limit of %s was over",
        format_usec(facts->limits->timeout_usec, limit));
    if (facts_cpu_usec(facts) != UINT64_MAX)
        mention(outcome, " (it had used %s of CPU time).", format_usec(facts_cpu_usec(facts), cpu));
    else
        mention(outcome, ".");
    if (more > facts->limits->timeout_usec)
        snprintf(outcome->hint, sizeof(outcome->hint), "Ask for more time with --timeout %llus%s.",
                 (unsigned long long)((more + 999999) / 1000000),
                 more > facts->defaults->timeout_usec ? ", which needs an approval" : "");
    else
        snprintf(outcome->hint, sizeof(outcome->hint),
                 "Split the work into several runs: this machine allows no more time.");
}

static void exec_failed(const struct facts *facts, struct outcome *outcome)
{
    int error = facts->exited.value;

    outcome->have_exit_code = true;
    outcome->exit_code = error == ENOENT ? 127 : 126;
    if (error == ENOENT) {
        say(outcome, RUN_FAILED, "The interpreter '%.100s' is not there in the sandbox.",
            facts->interpreter);
        snprintf(outcome->hint, sizeof(outcome->hint),
                 "%s, or choose another --language or --engine.",
                 facts->cloud ? "Name a template that has it with --template"
                              : "Ask the administrator to install it");
    } else {
        say(outcome, RUN_FAILED, "The interpreter '%.100s' could not be started: %s.",
            facts->interpreter, strerror(error));
    }
}

static void exited(const struct facts *facts, struct outcome *outcome, uint64_t oom_kills)
{
    int value = facts->exited.value;

    outcome->have_exit_code = true;
    outcome->exit_code = value;
    if (value == 0)
        say(outcome, RUN_SUCCEEDED, "The program ended well.");
    else
        say(outcome, RUN_FAILED, "The program ended with exit status %d.", value);
    if (oom_kills > 0) {
        char limit[QUANTITY_TEXT];
        mention(outcome,
                " %llu of its processes %s killed because the run needed more memory than %s.",
                (unsigned long long)oom_kills, oom_kills == 1 ? "was" : "were",
                facts->cloud ? "its cloud sandbox has"
                             : format_bytes(facts->limits->memory_bytes, limit));
        hint_memory(facts, 0, outcome->hint);
    }
}

static const char *signal_text(int signal)
{
    const char *name = sigabbrev_np(signal);
    return name ? name : "unknown";
}

static void signalled(const struct facts *facts, struct outcome *outcome, uint64_t oom_kills)
{
    int signal = facts->exited.value;

    if (signal == SIGKILL && oom_kills > 0) {
        out_of_memory(facts, outcome);
        return;
    }
    outcome->signal = signal;
    say(outcome, RUN_KILLED, "The program was killed by signal %d (SIG%s)%s.", signal,
        signal_text(signal), signal == SIGKILL && !facts->cloud ? ", not for memory" : "");
}

/* The engine's own sentence, for what only a cloud can do to a run. */
static void engine_failed(const struct facts *facts, struct outcome *outcome)
{
    if (strcmp(facts->error.phase, ENGINE_PHASE_LOST) == 0) {
        say(outcome, RUN_LOST, "%s", facts->error.message);
        snprintf(outcome->hint, sizeof(outcome->hint),
                 "It may have done a part of its work: look at what was kept before you run it "
                 "again.");
        return;
    }
    say(outcome, RUN_FAILED, "The program was not started: %.480s", facts->error.message);
    outcome->have_exit_code = true;
    outcome->exit_code = 126;
}

static void launcher_silent(const struct facts *facts, struct outcome *outcome, uint64_t oom_kills)
{
    if (facts->have_error)
        engine_failed(facts, outcome);
    else if (!facts->have_ended) {
        say(outcome, RUN_LOST,
            "The engine '%.60s' did not tell how the program ended, so that is not known.",
            facts->engine);
        snprintf(outcome->hint, sizeof(outcome->hint),
                 "Try again, or another engine with --engine. The administrator finds more with: "
                 "journalctl -u sbxctl-helper -u sbxctl-engine-%.60s",
                 facts->engine);
    } else if (facts->ended.why == ENGINE_WHY_TIMEOUT)
        timed_out(facts, outcome);
    else if (oom_kills > 0)
        out_of_memory(facts, outcome);
    else
        say(outcome, RUN_KILLED,
            "The sandbox ended from inside before the program's end was reported.");
}

/* Files that did not fit, or that lie where nothing is kept. */
static void hint_files(const struct facts *facts, struct outcome *outcome)
{
    uint32_t lost = facts->have_exited ? facts->exited.scratch_files : 0;

    if (outcome->status != RUN_SUCCEEDED && hint_space(facts, outcome->hint))
        return;
    if (lost > 0)
        snprintf(outcome->hint, sizeof(outcome->hint),
                 "%u %s left in /tmp, and nothing there is kept: write results to /workspace, the "
                 "directory the program starts in.",
                 lost, lost == 1 ? "file was" : "files were");
}

/* If the program failed by itself: what is killed from outside did not say why before. A library
 * that gives up ends by SIGABRT. */
static bool failed_by_itself(const struct outcome *outcome)
{
    return outcome->status == RUN_FAILED ||
           (outcome->status == RUN_KILLED && outcome->signal == SIGABRT);
}

void outcome_decide(const struct facts *facts, struct outcome *ret)
{
    uint64_t oom_kills =
        facts->have_ended && facts->ended.oom_kills != UINT64_MAX ? facts->ended.oom_kills : 0;
    uint64_t leftovers = facts_leftovers(facts);
    struct outcome outcome = { 0 };

    if (facts->timed_out)
        timed_out(facts, &outcome);
    else if (facts->cancelled)
        say(&outcome, RUN_CANCELLED, "%s",
            facts->caller_gone ? "The run was cancelled because its caller went away."
                               : "The run was cancelled.");
    else if (!facts->have_exited)
        launcher_silent(facts, &outcome, oom_kills);
    else if (facts->exited.kind == LAUNCH_EXIT_EXEC)
        exec_failed(facts, &outcome);
    else if (facts->exited.kind == LAUNCH_EXIT_SIGNAL)
        signalled(facts, &outcome, oom_kills);
    else
        exited(facts, &outcome, oom_kills);

    if (facts->have_ended && facts->ended.task_refusals != UINT64_MAX &&
        facts->ended.task_refusals > 0 && outcome.status != RUN_SUCCEEDED)
        mention(&outcome,
                " It wanted more than the %llu processes and threads that a run may have.",
                (unsigned long long)facts->tasks);
    if (leftovers > 0 && facts->have_exited && !facts->timed_out && !facts->cancelled)
        mention(&outcome, " %llu %s it left behind %s ended with it.",
                (unsigned long long)leftovers, leftovers == 1 ? "process that" : "processes that",
                leftovers == 1 ? "was" : "were");
    if (facts->network_lost)
        mention(&outcome, " Its way to the network was lost before it ended.");
    if (outcome.hint[0] == '\0' && failed_by_itself(&outcome))
        (void)hint_find(facts, outcome.hint);
    if (outcome.hint[0] == '\0')
        hint_files(facts, &outcome);
    *ret = outcome;
}
