/* The line of progress, see progress.h. */
#include "client/progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "client/say.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/json.h"
#include "common/quantity.h"

#define PATIENCE_USEC USEC_PER_SEC

struct progress_event {
    const char *phase, *package, *reason;
    uint64_t position, queued, current, total;
};

/* "pull [====>     ]  45 % of 27.3 MiB" */
static void write_bar(struct progress *progress, const char *phase, uint64_t current,
                      uint64_t total)
{
    static const char full[] = "====================", empty[] = "                    ";
    double part = current < total ? (double)current / (double)total : 1;
    int width = (int)sizeof(full) - 1, n = (int)(part * width);
    char size[QUANTITY_TEXT];

    snprintf(progress->text, sizeof(progress->text), "%.20s [%.*s%s%.*s] %3d %% of %s", phase, n,
             full, n < width ? ">" : "", n < width ? width - n - 1 : 0, empty, (int)(part * 100),
             format_bytes(total, size));
}

/* What engines do before a script starts, in words for people. */
static const char *phase_text(const char *phase)
{
    return strcmp(phase, "upload") == 0  ? "uploading the files"
           : strcmp(phase, "start") == 0 ? "starting a sandbox in the cloud"
                                         : phase;
}

/* The phases of an installation; NULL for any other. */
static const char *package_phase(const char *phase)
{
    return strcmp(phase, "resolve") == 0    ? "looking for packages"
           : strcmp(phase, "download") == 0 ? "getting packages"
           : strcmp(phase, "install") == 0  ? "installing packages"
                                            : NULL;
}

/* "getting packages: numpy, 45 % of 16 MiB" */
static void write_package(char *text, size_t size, const char *what, const struct progress_event *e)
{
    _cleanup_free_ char *name = displayed(e->package);
    char bytes[QUANTITY_TEXT];

    if (e->total > 0 && e->current <= e->total)
        snprintf(text, size, "%s: %.30s, %d %% of %s", what, name,
                 (int)((double)e->current / (double)e->total * 100), format_bytes(e->total, bytes));
    else
        snprintf(text, size, "%s: %.40s", what, name);
}

/* "waiting as number 3 of 7: your 2 runs at once are taken" */
static void write_queued(char *text, size_t size, const struct progress_event *e)
{
    _cleanup_free_ char *reason = displayed(e->reason ? e->reason : "");
    const char *colon = *reason ? ": " : "";

    if (e->position > 0 && e->queued > e->position)
        snprintf(text, size, "waiting as number %" PRIu64 " of %" PRIu64 "%s%.80s", e->position + 1,
                 e->queued, colon, reason);
    else if (e->position > 0)
        snprintf(text, size, "waiting for %" PRIu64 " other run%s%s%.80s", e->position,
                 e->position == 1 ? "" : "s", colon, reason);
    else
        snprintf(text, size, "waiting for a place to run%s%.80s", colon, reason);
}

static void write_text(struct progress *progress, const char *event, json_object *parameters)
{
    static const struct json_field fields[] = {
        { "phase", JSON_FIELD_STRING, offsetof(struct progress_event, phase) },
        { "package", JSON_FIELD_STRING, offsetof(struct progress_event, package) },
        { "reason", JSON_FIELD_STRING, offsetof(struct progress_event, reason) },
        { "queued", JSON_FIELD_UINT64, offsetof(struct progress_event, queued), .max = INT64_MAX },
        { "position", JSON_FIELD_UINT64, offsetof(struct progress_event, position),
          .max = INT64_MAX },
        { "current", JSON_FIELD_UINT64, offsetof(struct progress_event, current),
          .max = INT64_MAX },
        { "total", JSON_FIELD_UINT64, offsetof(struct progress_event, total), .max = INT64_MAX },
    };
    struct progress_event e = {};
    char *text = progress->text;
    size_t size = sizeof(progress->text);

    if (json_dispatch(parameters, fields, ELEMENTS(fields), true, &e, &(const char *){ NULL }) < 0)
        return;
    _cleanup_free_ char *phase = displayed(e.phase ? e.phase : "starting");

    if (strcmp(event, "queued") == 0)
        write_queued(text, size, &e);
    else if (e.total > 0 && strcmp(phase, "pull") == 0)
        write_bar(progress, phase, e.current, e.total);
    else if (package_phase(phase) && e.package)
        write_package(text, size, package_phase(phase), &e);
    else if (package_phase(phase))
        snprintf(text, size, "%s", package_phase(phase));
    else if (e.total > 0)
        snprintf(text, size, "%.60s: %d %%", phase,
                 e.current < e.total ? (int)((double)e.current / (double)e.total * 100) : 100);
    else
        snprintf(text, size, "%.70s", phase_text(phase));
}

void progress_take(struct progress *progress, const char *event, json_object *parameters)
{
    if (!say_progress_is_possible())
        return;
    write_text(progress, event, parameters);
    if (progress->is_shown)
        say_progress(progress->text);
    else if (!progress->due_usec)
        progress->due_usec = clock_now() + PATIENCE_USEC;
}

int progress_timeout(const struct progress *progress)
{
    uint64_t now = clock_now();

    if (!progress->due_usec)
        return -1;
    return progress->due_usec <= now ? 0 : (int)((progress->due_usec - now) / 1000 + 1);
}

void progress_show_if_due(struct progress *progress)
{
    if (!progress->due_usec || progress->due_usec > clock_now())
        return;
    progress->due_usec = 0;
    progress->is_shown = true;
    say_progress(progress->text);
}

void progress_end(struct progress *progress)
{
    if (progress->is_shown)
        say_progress(NULL);
    *progress = (struct progress){};
}
