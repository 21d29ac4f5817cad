/* The line of a run that goes on, see live.h. */
#include "client/live.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/say.h"
#include "common/clock.h"
#include "common/quantity.h"

/* As long as the script is quiet, before the line comes. */
#define PATIENCE_USEC (2 * USEC_PER_SEC)

/* Behind a pipe is a program such as less or grep, which may write to the same terminal whenever it
 * likes. */
static bool stdout_is_ours(void)
{
    struct stat st;

    return fstat(STDOUT_FILENO, &st) == 0 && !S_ISFIFO(st.st_mode) && !S_ISSOCK(st.st_mode);
}

static bool is_in_foreground(void)
{
    return tcgetpgrp(STDERR_FILENO) == getpgrp();
}

void live_begin(struct live *live, uint64_t limit_usec, bool passes_output)
{
    uint64_t now = clock_now();

    *live = (struct live){
        .is_on = say_progress_is_possible() && (!passes_output || stdout_is_ours()),
        .began_usec = now,
        .due_usec = now + PATIENCE_USEC,
        .limit_usec = limit_usec,
    };
}

int live_timeout(const struct live *live)
{
    uint64_t now = clock_now();

    if (!live->is_on)
        return -1;
    return live->due_usec <= now ? 0 : (int)((live->due_usec - now) / 1000 + 1);
}

static void hide(struct live *live)
{
    if (live->is_shown)
        say_progress(NULL);
    live->is_shown = false;
}

void live_before_output(struct live *live, const struct pump *pump)
{
    if (!live->is_on || !pump_has_output(pump))
        return;
    hide(live);
    live->due_usec = clock_now() + PATIENCE_USEC;
}

void live_show_if_due(struct live *live, const struct pump *pump)
{
    uint64_t now = clock_now(), elapsed = (now - live->began_usec) / USEC_PER_SEC * USEC_PER_SEC;
    char text[2 * QUANTITY_TEXT + 32], ran[QUANTITY_TEXT], limit[QUANTITY_TEXT];

    if (!live->is_on || live->due_usec > now)
        return;
    live->due_usec = now + USEC_PER_SEC;
    if (!pump_leaves_room(pump) || !is_in_foreground()) {
        hide(live);
        return;
    }
    if (live->limit_usec > 0)
        snprintf(text, sizeof(text), "running for %s of %s", format_usec(elapsed, ran),
                 format_usec(live->limit_usec, limit));
    else
        snprintf(text, sizeof(text), "running for %s", format_usec(elapsed, ran));
    say_progress(text);
    live->is_shown = true;
}

void live_end(struct live *live)
{
    hide(live);
    live->is_on = false;
}
