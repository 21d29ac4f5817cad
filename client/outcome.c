/* What is said after a run, see outcome.h. */
#include "client/outcome.h"

#include <unistd.h>

#include "client/file-list.h"
#include "client/say.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/quantity.h"

#define SKIPPED_MAX 5

static void say_reason(const struct result *result)
{
    _cleanup_free_ char *reason = displayed(result->reason);
    _cleanup_free_ char *hint = result->hint ? displayed(result->hint) : NULL;

    if (result->status != STATUS_SUCCEEDED)
        say_error("%s", reason);
    else if (result->leftovers != UNKNOWN && result->leftovers > 0)
        say("%s", reason);
    if (hint)
        say("%s", hint);
}

static void say_files(const struct result *result)
{
    size_t n = result->files ? json_object_array_length(result->files) : 0;

    if (n == 0 || !result->output_directory)
        return;
    _cleanup_free_ char *directory = displayed(result->output_directory);
    say("%zu file%s in %s/files:", n, n == 1 ? "" : "s", directory);
    file_list_say(result->files);
}

void outcome_say_skipped(const struct result *result)
{
    size_t n = result->skipped_files ? json_object_array_length(result->skipped_files) : 0;

    for (size_t i = 0; i < n && i < SKIPPED_MAX; i++) {
        struct skipped_file skipped;
        if (skipped_file_parse(json_object_array_get_idx(result->skipped_files, i), &skipped) < 0)
            continue;
        _cleanup_free_ char *name = displayed(skipped.name), *reason = displayed(skipped.reason);
        say_warning("not kept: %s: %s", name, reason);
    }
    if (n > SKIPPED_MAX) {
        _cleanup_free_ char *id = displayed(result->id);
        say_warning("not kept: %zu more; 'sbxctl show %s' lists them", n - SKIPPED_MAX, id);
    }
}

static void say_truncated(json_object *object, const char *name)
{
    char bytes[QUANTITY_TEXT], kept[QUANTITY_TEXT];
    struct stream stream;

    if (!object || stream_parse(object, &stream) < 0 || !stream.truncated)
        return;
    say("of %s of output on %s, %s are kept", format_bytes(stream.bytes, bytes), name,
        format_bytes(stream.kept_bytes, kept));
}

/* To tenths of a second, thousandths below one of these, and seconds from ten on. */
static uint64_t rounded(uint64_t usec)
{
    uint64_t step = USEC_PER_SEC;

    if (usec < USEC_PER_SEC / 10)
        step = USEC_PER_SEC / 1000;
    else if (usec < 10 * USEC_PER_SEC)
        step = USEC_PER_SEC / 10;
    return (usec + step / 2) / step * step;
}

/* For people at a terminal, if there is anything to wonder about. */
static void say_usage(const struct result *result)
{
    size_t n = result->files ? json_object_array_length(result->files) : 0;
    const struct usage *usage = &result->usage;
    char took[QUANTITY_TEXT], memory[QUANTITY_TEXT];
    bool matters = n > 0 || result->status != STATUS_SUCCEEDED || usage->wall_usec >= USEC_PER_SEC;

    if (!matters || usage->wall_usec == UNKNOWN || !isatty(STDERR_FILENO))
        return;
    format_usec(rounded(usage->wall_usec), took);
    if (usage->memory_peak_bytes == UNKNOWN)
        say("it took %s", took);
    else
        say("it took %s, and %s of memory at most", took,
            format_bytes(usage->memory_peak_bytes, memory));
}

void outcome_say(const struct result *result, bool lists_files)
{
    say_reason(result);
    say_truncated(result->standard_output, "stdout");
    say_truncated(result->standard_error, "stderr");
    if (lists_files)
        say_files(result);
    outcome_say_skipped(result);
    say_usage(result);
}
