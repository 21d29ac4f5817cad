/* sbxctl show: how one run went, for people or as JSON. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "client/file-list.h"
#include "client/helper.h"
#include "client/network-use.h"
#include "client/policy-text.h"
#include "client/result.h"
#include "client/runs.h"
#include "client/say.h"
#include "client/text.h"
#include "client/verb.h"
#include "common/clock.h"
#include "common/escape.h"
#include "common/quantity.h"

#define TAIL_LINES 10
#define LINE_BYTES_MAX 1024
#define LINE_WIDTH 78
#define NAME_WIDTH 14 /* and the space behind it */

static void print_text(const char *name, const char *text)
{
    if (!text)
        return;
    _cleanup_free_ char *shown = displayed(text);
    printf("%-13s %s\n", name, shown);
}

/* A sentence hangs behind its name on a terminal, and is one line elsewhere. */
static void print_sentence(const char *name, const char *text)
{
    if (!text || !isatty(STDOUT_FILENO))
        return print_text(name, text);
    _cleanup_free_ char *shown = displayed(text);
    printf("%-13s ", name);
    text_print_hanging(stdout, shown, terminal_width() - NAME_WIDTH, NAME_WIDTH);
}

static void print_time(const char *name, uint64_t usec)
{
    time_t seconds = (time_t)(usec / 1000000);
    char text[64];
    struct tm tm;

    if (usec == UNKNOWN || !localtime_r(&seconds, &tm) ||
        strftime(text, sizeof(text), "%F %T %Z", &tm) == 0)
        return;
    printf("%-13s %s\n", name, text);
}

static void print_expiry(uint64_t usec)
{
    char text[TEXT_AGE];

    if (usec == UNKNOWN)
        return;
    print_time("expires", usec);
    printf("%-13s %s\n", "", text_until(usec, clock_usec(CLOCK_REALTIME), text));
}

static void print_usage(const struct usage *usage)
{
    char text[QUANTITY_TEXT];

    if (usage->wait_usec != UNKNOWN)
        printf("%-13s %s%s\n", "waited", format_usec(usage->wait_usec, text),
               usage->warm ? ", with a sandbox at hand" : "");
    if (usage->wall_usec != UNKNOWN)
        printf("%-13s %s\n", "took", format_usec(usage->wall_usec, text));
    if (usage->cpu_usec != UNKNOWN)
        printf("%-13s %s\n", "CPU time", format_usec(usage->cpu_usec, text));
    if (usage->cloud_usec != UNKNOWN)
        printf("%-13s %s\n", "in the cloud", format_usec(usage->cloud_usec, text));
    if (usage->memory_peak_bytes != UNKNOWN)
        printf("%-13s %s\n", "memory peak", format_bytes(usage->memory_peak_bytes, text));
}

static void print_end_of_run(const struct result *run)
{
    print_text("id", run->id);
    print_text("status", run_status_text(run->status));
    print_sentence("reason", run->reason);
    print_sentence("hint", run->hint);
    if (run->exit_code >= 0)
        printf("%-13s %" PRId64 "\n", "exit status", run->exit_code);
    print_text("signal", run->signal);
    print_text("verdict", run->verdict);
    if (run->oom_kills != UNKNOWN && run->oom_kills > 0)
        printf("%-13s %" PRIu64 "\n", "OOM kills", run->oom_kills);
    if (run->leftovers != UNKNOWN && run->leftovers > 0)
        printf("%-13s %" PRIu64 " process%s outlived the script and %s ended\n", "leftovers",
               run->leftovers, run->leftovers == 1 ? "" : "es",
               run->leftovers == 1 ? "was" : "were");
}

/* In lines as they fit: there may be many. */
static void print_packages(json_object *packages)
{
    size_t n = packages ? json_object_array_length(packages) : 0, column = LINE_WIDTH;

    if (n > 0)
        printf("\n%zu package%s", n, n == 1 ? "" : "s");
    for (size_t i = 0; i < n; i++) {
        struct package package;
        if (package_parse(json_object_array_get_idx(packages, i), &package) < 0)
            continue;
        _cleanup_free_ char *name = displayed(package.name), *version = displayed(package.version);
        size_t width = strlen(name) + strlen(version) + 2;
        if (column + 1 + width > LINE_WIDTH) {
            printf("\n ");
            column = 1;
        }
        printf(" %s==%s", name, version);
        column += 1 + width;
    }
    if (n > 0)
        putchar('\n');
}

static void print_policy(json_object *object)
{
    struct policy policy;

    if (!object || policy_parse(object, &policy) < 0)
        return;
    puts("\nallowed");
    policy_print_lines(&policy);
}

/* Where the last TAIL_LINES lines of @text begin. */
static const char *tail_of(const char *text)
{
    const char *p = text + strlen(text);
    int lines = 0;

    if (p > text && p[-1] == '\n')
        p--;
    while (p > text) {
        if (p[-1] == '\n' && ++lines == TAIL_LINES)
            break;
        p--;
    }
    return p;
}

static void print_tail(const char *name, json_object *object)
{
    struct stream stream;
    char size[QUANTITY_TEXT];

    if (!object || stream_parse(object, &stream) < 0 || stream.bytes == 0)
        return;
    const char *text = stream.text ? stream.text : "", *line = tail_of(text);
    printf("\n%s, %s%s\n", name, format_bytes(stream.bytes, size),
           line > text || stream.text_shortened ? "; the end of it:" : ":");
    while (*line) {
        size_t length = strcspn(line, "\n");
        _cleanup_free_ char *shown = escape_text(line, length, LINE_BYTES_MAX);
        printf("  %s\n", shown ? shown : "?");
        line += length + (line[length] == '\n');
    }
}

static void print_files(const struct result *run)
{
    size_t n = run->files ? json_object_array_length(run->files) : 0;

    print_text("kept in", run->output_directory);
    if (n == 0)
        return;
    printf("\n%zu file%s\n", n, n == 1 ? "" : "s");
    file_list_print(stdout, run->files, n);
}

static void print_skipped(json_object *skipped)
{
    size_t n = skipped ? json_object_array_length(skipped) : 0;

    if (n > 0)
        puts("\nnot kept");
    for (size_t i = 0; i < n; i++) {
        struct skipped_file file;
        if (skipped_file_parse(json_object_array_get_idx(skipped, i), &file) < 0)
            continue;
        _cleanup_free_ char *name = displayed(file.name), *reason = displayed(file.reason);
        printf("  %s: %s\n", name, reason);
    }
}

static int print_run(const struct result *run)
{
    print_end_of_run(run);
    print_text("script", run->script_name);
    print_text("sha256", run->script_sha256);
    print_text("request", run->request_sha256);
    print_text("language", run->language);
    print_text("engine", run->engine);
    print_text("image", run->image);
    print_time("started", run->started_usec);
    print_time("ended", run->ended_usec);
    print_expiry(run->expires_usec);
    print_usage(&run->usage);
    print_files(run);
    print_skipped(run->skipped_files);
    print_packages(run->packages);
    network_use_print(run->network_use);
    print_policy(run->policy);
    print_tail("stdout", run->standard_output);
    print_tail("stderr", run->standard_error);
    return print_end();
}

int verb_show(const struct verb *verb, int argc, char **argv)
{
    _cleanup_client_ struct varlink_client *client = NULL;
    _cleanup_json_ json_object *object = NULL;
    struct verb_arguments arguments;
    struct result run;
    int r;

    if (!verb_read_arguments(verb, argc, argv, 1, 1, &arguments, &r))
        return r;
    say_mode.json = arguments.json;
    r = helper_connect(&client);
    if (r == 0)
        r = runs_describe(client, arguments.arguments[0], &object, &run);
    if (r != 0)
        return r;
    return arguments.json ? print_json(object) : print_run(&run);
}
