/* sbxctl ps: the user's runs as a table. */
#include "client/ps.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/exit-status.h"
#include "client/helper.h"
#include "client/result.h"
#include "client/runs.h"
#include "client/say.h"
#include "client/table.h"
#include "client/text.h"
#include "client/verb.h"
#include "common/clock.h"
#include "common/quantity.h"

/* Ids are shown at this length where that tells them apart; enough of them to be typed. */
#define ID_SHOWN 12
/* Cells that a stranger could make long. */
#define ENGINE_WIDTH 12
#define FIRST_COLUMNS 5
#define LIMIT_DEFAULT 100
#define EXPIRY_SHOWN_USEC (7 * 24 * 3600 * USEC_PER_SEC)

static size_t common_length(const char *a, const char *b)
{
    size_t n = 0;

    while (a[n] && a[n] == b[n])
        n++;
    return n;
}

static int compare_ids(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* How much of the ids must be shown so that each is unique among all of @list. */
static size_t id_length(json_object *list)
{
    size_t n = json_object_array_length(list), n_ids = 0, length = ID_SHOWN;
    _cleanup_free_ const char **ids = calloc(n + 1, sizeof(*ids));

    for (size_t i = 0; ids && i < n; i++) {
        const char *id = json_get_string(json_object_array_get_idx(list, i), "id");
        if (id)
            ids[n_ids++] = id;
    }
    if (n_ids > 0)
        qsort(ids, n_ids, sizeof(*ids), compare_ids);
    for (size_t i = 1; i < n_ids; i++) {
        size_t common = common_length(ids[i - 1], ids[i]);
        if (common >= length)
            length = common + 1;
    }
    return length;
}

static const char *duration_text(const struct result *run, uint64_t now_usec, char *buffer)
{
    if (run->usage.wall_usec != UNKNOWN)
        return format_usec(run->usage.wall_usec, buffer);
    if (run->status == STATUS_RUNNING && run->started_usec < now_usec)
        return format_usec((now_usec - run->started_usec) / USEC_PER_SEC * USEC_PER_SEC, buffer);
    return "";
}

/* Columns that are there only if some run has something to say in them. */
struct columns {
    bool expires, verdict;
};

static bool expires_soon(const struct result *run, uint64_t now_usec)
{
    return run->expires_usec != UNKNOWN && run->expires_usec < now_usec + EXPIRY_SHOWN_USEC;
}

static struct columns columns_of(json_object *list, uint64_t now_usec)
{
    struct columns columns = {};

    for (size_t i = 0; i < json_object_array_length(list); i++) {
        struct result run;
        if (result_parse(json_object_array_get_idx(list, i), &run) < 0)
            continue;
        columns.expires = columns.expires || expires_soon(&run, now_usec);
        columns.verdict = columns.verdict || run.verdict;
    }
    return columns;
}

/* A row, or the heading, as far as there are such columns. */
static int add_row(struct table *table, const struct columns *columns, const char *const *first,
                   const char *expires, const char *verdict, const char *script)
{
    const char *cells[TABLE_COLUMNS_MAX];
    size_t n = 0;

    for (size_t i = 0; i < FIRST_COLUMNS; i++)
        cells[n++] = first[i];
    if (columns->expires)
        cells[n++] = expires;
    if (columns->verdict)
        cells[n++] = verdict;
    cells[n++] = script;
    table->n_columns = n;
    return table_add(table, cells);
}

static int add_run(struct table *table, const struct columns *columns, const struct result *run,
                   uint64_t now_usec, size_t id_shown)
{
    char age[TEXT_AGE], expires[TEXT_AGE], duration[QUANTITY_TEXT];
    _cleanup_free_ char *id = displayed(run->id), *engine = NULL, *short_engine = NULL;
    _cleanup_free_ char *script = displayed(run->script_name ? run->script_name : "");
    _cleanup_free_ char *verdict = displayed(run->verdict ? run->verdict : "");

    engine = displayed(run->engine ? run->engine : "");
    short_engine = text_cut(engine, ENGINE_WIDTH);
    if (!short_engine)
        return -ENOMEM;
    if (strlen(id) > id_shown)
        id[id_shown] = '\0';
    return add_row(
        table, columns,
        (const char *[FIRST_COLUMNS]){
            id,
            run_status_text(run->status),
            run->started_usec == UNKNOWN ? "" : text_age(run->started_usec, now_usec, age),
            duration_text(run, now_usec, duration),
            short_engine,
        },
        expires_soon(run, now_usec) ? text_until(run->expires_usec, now_usec, expires) : "",
        verdict, script);
}

int ps_print(FILE *to, json_object *list, uint64_t now_usec, size_t width)
{
    static const char *const heading[FIRST_COLUMNS] = { "ID", "STATUS", "STARTED", "DURATION",
                                                        "ENGINE" };
    _cleanup_(table_release) struct table table = {};
    const struct columns columns = columns_of(list, now_usec);
    size_t id_shown = id_length(list), n_odd = 0;
    int r = add_row(&table, &columns, heading, "EXPIRES", "VERDICT", "SCRIPT");

    for (size_t i = 0; i < json_object_array_length(list) && r == 0; i++) {
        struct result run;
        if (result_parse(json_object_array_get_idx(list, i), &run) < 0) {
            n_odd++;
            continue;
        }
        r = add_run(&table, &columns, &run, now_usec, id_shown);
    }
    if (r < 0)
        return say_failure_errno(r, "cannot list the runs");
    table_print(to, &table, width);
    if (n_odd > 0)
        say_warning("what the helper tells about %zu of your runs is not understood", n_odd);
    return 0;
}

static const char *last_id(json_object *list)
{
    size_t n = json_object_array_length(list);
    return n > 0 ? json_get_string(json_object_array_get_idx(list, n - 1), "id") : NULL;
}

static int print_list(json_object *list, bool more, const struct verb_arguments *arguments)
{
    const char *last = last_id(list);

    if (!last) {
        say(arguments->all ? "you have no runs%s"
                           : "none of your runs is active%s; --all lists those that have ended",
            arguments->after ? " older than that" : "");
        return 0;
    }
    int r = ps_print(stdout, list, clock_usec(CLOCK_REALTIME), terminal_width());
    if (r == 0)
        r = print_end();
    if (r == 0 && more) {
        _cleanup_free_ char *shown = displayed(last);
        say("there are more: sbxctl ps %s--after %s, or --limit all", arguments->all ? "-a " : "",
            shown);
    }
    return r;
}

static int print_list_json(json_object *list, bool more)
{
    _cleanup_json_ json_object *object = json_object_new_object();

    if (!object || json_add(object, "runs", json_object_get(list)) < 0 ||
        json_add_string(object, "next", more ? last_id(list) : NULL) < 0)
        return say_failure_errno(-ENOMEM, "cannot list the runs");
    return print_json(object);
}

static int read_limit(const struct verb *verb, const char *text, uint64_t *ret)
{
    if (strcmp(text, "all") == 0)
        *ret = RUNS_ALL;
    else if (parse_number(text, ret) < 0 || *ret == 0)
        return verb_usage_error(verb, "--limit: '%s' is neither a number nor 'all'", text);
    return 0;
}

/* Runs of which the caller knows the next page's beginning by the id that ps shows, cut. */
static int list(const struct verb_arguments *arguments, uint64_t limit, json_object **ret,
                bool *ret_more)
{
    _cleanup_client_ struct varlink_client *client = NULL;
    _cleanup_free_ char *after = NULL;

    int r = helper_connect(&client);
    if (r == 0 && arguments->after)
        r = runs_find(client, arguments->after, &after);
    return r == 0 ? runs_list(client, !arguments->all, limit, after, ret, ret_more) : r;
}

int verb_ps(const struct verb *verb, int argc, char **argv)
{
    _cleanup_json_ json_object *runs = NULL;
    struct verb_arguments arguments;
    uint64_t limit = LIMIT_DEFAULT;
    bool more;
    int r;

    if (!verb_read_arguments(verb, argc, argv, 0, 0, &arguments, &r))
        return r;
    r = arguments.limit ? read_limit(verb, arguments.limit, &limit) : 0;
    if (r != 0)
        return r;
    say_mode.json = arguments.json;
    r = list(&arguments, limit, &runs, &more);
    if (r != 0)
        return r;
    return arguments.json ? print_list_json(runs, more) : print_list(runs, more, &arguments);
}
