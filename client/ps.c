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

static int add_run(struct table *table, const struct result *run, uint64_t now_usec,
                   size_t id_shown)
{
    char age[TEXT_AGE], duration[QUANTITY_TEXT];
    _cleanup_free_ char *id = displayed(run->id), *engine = NULL, *short_engine = NULL;
    _cleanup_free_ char *script = displayed(run->script_name ? run->script_name : "");

    engine = displayed(run->engine ? run->engine : "");
    short_engine = text_cut(engine, ENGINE_WIDTH);
    if (!short_engine)
        return -ENOMEM;
    if (strlen(id) > id_shown)
        id[id_shown] = '\0';
    return table_add(
        table, (const char *[]){
                   id,
                   run_status_text(run->status),
                   run->started_usec == UNKNOWN ? "" : text_age(run->started_usec, now_usec, age),
                   duration_text(run, now_usec, duration),
                   short_engine,
                   script,
               });
}

int ps_print(FILE *to, json_object *list, uint64_t now_usec, size_t width)
{
    static const char *const heading[] = {
        "ID", "STATUS", "STARTED", "DURATION", "ENGINE", "SCRIPT"
    };
    _cleanup_(table_release) struct table table = { .n_columns = ELEMENTS(heading) };
    size_t id_shown = id_length(list), n_odd = 0;
    int r = table_add(&table, heading);

    for (size_t i = 0; i < json_object_array_length(list) && r == 0; i++) {
        struct result run;
        if (result_parse(json_object_array_get_idx(list, i), &run) < 0) {
            n_odd++;
            continue;
        }
        r = add_run(&table, &run, now_usec, id_shown);
    }
    if (r < 0)
        return say_failure_errno(r, "cannot list the runs");
    table_print(to, &table, width);
    if (n_odd > 0)
        say_warning("what the helper tells about %zu of your runs is not understood", n_odd);
    return 0;
}

json_object *ps_unfinished(json_object *list)
{
    _cleanup_json_ json_object *unfinished = json_object_new_array();

    for (size_t i = 0; unfinished && i < json_object_array_length(list); i++) {
        json_object *object = json_object_array_get_idx(list, i);
        struct result run;
        if (result_parse(object, &run) == 0 && run_status_is_final(run.status))
            continue;
        if (json_object_array_add(unfinished, json_object_get(object)) < 0)
            return NULL;
    }
    return TAKE_PTR(unfinished);
}

static int print_list(json_object *list, const struct verb_arguments *arguments)
{
    if (json_object_array_length(list) == 0) {
        say(arguments->all ? "you have no runs"
                           : "none of your runs is active; --all lists those that have ended");
        return 0;
    }
    int r = ps_print(stdout, list, clock_usec(CLOCK_REALTIME), terminal_width());
    return r != 0 ? r : print_end();
}

static int print_list_json(json_object *list)
{
    _cleanup_json_ json_object *object = json_object_new_object();

    if (!object || json_add(object, "runs", json_object_get(list)) < 0)
        return say_failure_errno(-ENOMEM, "cannot list the runs");
    return print_json(object);
}

int verb_ps(const struct verb *verb, int argc, char **argv)
{
    _cleanup_client_ struct varlink_client *client = NULL;
    _cleanup_json_ json_object *all = NULL, *list = NULL;
    struct verb_arguments arguments;
    int r;

    if (!verb_read_arguments(verb, argc, argv, 0, 0, &arguments, &r))
        return r;
    say_mode.json = arguments.json;
    r = helper_connect(&client);
    if (r == 0)
        r = runs_list(client, &all);
    if (r != 0)
        return r;
    list = arguments.all ? json_object_get(all) : ps_unfinished(all);
    if (!list)
        return say_failure_errno(-ENOMEM, "cannot list the runs");
    return arguments.json ? print_list_json(list) : print_list(list, &arguments);
}
