/* The columns of each table, see audit-show.h. */
#include "client/audit-show.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "client/audit-words.h"
#include "client/say.h"
#include "client/table.h"
#include "client/text.h"

/* How a cell is made of a member. */
enum format {
    TEXT,  /* as it is; a list with spaces between */
    TIME,  /* here and now's date and time */
    WORDS, /* of the whole object, by .words */
};

struct column {
    const char *heading, *member;
    enum format format;
    char *(*words)(json_object *object);
};

#define WHEN                           \
    {                                  \
        "WHEN", "timeUSec", TIME, NULL \
    }
#define USER                                  \
    {                                         \
        "USER", NULL, WORDS, audit_words_user \
    }
#define RUN                     \
    {                           \
        "RUN", "id", TEXT, NULL \
    }
#define RUN_OF_RECORD              \
    {                              \
        "RUN", "runId", TEXT, NULL \
    }
#define VERDICT                          \
    {                                    \
        "VERDICT", "verdict", TEXT, NULL \
    }
#define ENGINE                         \
    {                                  \
        "ENGINE", "engine", TEXT, NULL \
    }
#define SCRIPT                             \
    {                                      \
        "SCRIPT", "scriptName", TEXT, NULL \
    }

static const struct column columns[][TABLE_COLUMNS_MAX] = {
    [AUDIT_RUNS] = { WHEN, USER, RUN, VERDICT, ENGINE, SCRIPT },
    [AUDIT_RIGHTS] = { WHEN,
                       USER,
                       RUN,
                       { "MEMORY", NULL, WORDS, audit_words_memory },
                       { "CPUS", NULL, WORDS, audit_words_cpus },
                       { "TIME", NULL, WORDS, audit_words_timeout },
                       { "NETWORK", NULL, WORDS, audit_words_network } },
    [AUDIT_APPROVALS] = { WHEN,
                          USER,
                          RUN,
                          { "DECISION", "decision", TEXT, NULL },
                          { "APPROVED BY", NULL, WORDS, audit_words_approved },
                          { "FOR", NULL, WORDS, audit_words_actions } },
    [AUDIT_FAILURES] = { WHEN, USER, RUN, VERDICT, { "WHY", NULL, WORDS, audit_words_why } },
    [AUDIT_UNFINISHED] = { WHEN, USER, RUN, VERDICT, ENGINE, SCRIPT },
    [AUDIT_INSTALLED] = { WHEN,
                          USER,
                          RUN,
                          { "ASKED FOR", "packages", TEXT, NULL },
                          { "CAME", NULL, WORDS, audit_words_packages } },
    [AUDIT_HOSTS] = { WHEN,
                      USER,
                      RUN,
                      VERDICT,
                      { "SENT", NULL, WORDS, audit_words_sent },
                      { "RECEIVED", NULL, WORDS, audit_words_received },
                      { "HOST", NULL, WORDS, audit_words_host } },
    [AUDIT_EVENTS] = { WHEN,
                       USER,
                       RUN_OF_RECORD,
                       { "EVENT", "event", TEXT, NULL },
                       { "WHAT", NULL, WORDS, audit_words_record } },
    [AUDIT_FORGED] = { WHEN,
                       { "WRITTEN BY", NULL, WORDS, audit_words_sender },
                       { "CLAIMS", NULL, WORDS, audit_words_claim } },
};

static size_t count_columns(enum audit_view view)
{
    size_t n = 0;

    while (n < TABLE_COLUMNS_MAX && columns[view][n].heading)
        n++;
    return n;
}

static char *time_text(json_object *value)
{
    time_t seconds = (time_t)(json_object_get_uint64(value) / 1000000);
    char text[32] = "";
    struct tm tm;

    if (value && localtime_r(&seconds, &tm))
        strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &tm);
    return strdup(text);
}

static char *cell(const struct column *column, json_object *row)
{
    json_object *value = column->member ? json_object_object_get(row, column->member) : NULL;
    _cleanup_free_ char *text = NULL;

    switch (column->format) {
    case TIME:
        return time_text(value);
    case WORDS:
        text = column->words(row);
        break;
    case TEXT:
        text = audit_words_text(value);
        break;
    }
    return text ? displayed(text) : NULL;
}

static int add_row(struct table *table, enum audit_view view, json_object *row)
{
    char *cells[TABLE_COLUMNS_MAX] = {};
    int r = 0;

    for (size_t i = 0; i < table->n_columns; i++) {
        cells[i] = cell(&columns[view][i], row);
        r = cells[i] ? r : -ENOMEM;
    }
    if (r >= 0)
        r = table_add(table, (const char *const *)cells);
    for (size_t i = 0; i < table->n_columns; i++)
        free(cells[i]);
    return r;
}

int audit_show_table(enum audit_view view, json_object *rows)
{
    _cleanup_(table_release) struct table table = { .n_columns = count_columns(view) };
    const char *headings[TABLE_COLUMNS_MAX] = {};

    for (size_t i = 0; i < table.n_columns; i++)
        headings[i] = columns[view][i].heading;
    int r = table_add(&table, headings);
    for (size_t i = 0; r >= 0 && i < json_object_array_length(rows); i++)
        r = add_row(&table, view, json_object_array_get_idx(rows, i));
    if (r < 0)
        return say_failure_errno(r, "cannot show the records");
    /* In a file or a pipe each record is a line. */
    table_print_whole(stdout, &table, isatty(STDOUT_FILENO) ? terminal_width() : SIZE_MAX);
    return print_end();
}

void audit_show_line(json_object *record)
{
    static const size_t widths[] = { 21, 10, 18, 12, 0 };

    for (size_t i = 0; columns[AUDIT_EVENTS][i].heading; i++) {
        _cleanup_free_ char *text = cell(&columns[AUDIT_EVENTS][i], record);
        text_print_padded(stdout, text ? text : "", widths[i]);
    }
    putchar('\n');
}
