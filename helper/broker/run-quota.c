/* Whether a user has room for the results of another run, asked before anything is: a run whose
 * results could not be kept would be for nothing. */
#include "broker/keeper.h"
#include "broker/run-internal.h"
#include "common/quantity.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Named in the hint. */
#define NAMED_MAX 5

static void find_used(const struct run *run, const char *what, const struct retention_use *use,
                      uint64_t *ret_used, uint64_t *ret_limit)
{
    const struct retention_rules *rules = &run->manager->config.results;
    bool bytes = strcmp(what, "bytes") == 0;

    *ret_used = bytes ? use->bytes : use->files;
    *ret_limit = bytes ? rules->max_bytes : rules->max_files;
}

/* "Remove what you do not need, the oldest first: sbxctl rm ID ID (12 MiB, 3 KiB)". */
static void say_hint(const struct run *run, char *hint, size_t size)
{
    const struct retention_rules *rules = &run->manager->config.results;
    _cleanup_free_ struct retained *runs = NULL;
    char sizes[NAMED_MAX * QUANTITY_TEXT] = "", text[QUANTITY_TEXT];
    size_t n, needed, length;

    hint[0] = '\0';
    if (keeper_list(run->manager, run->uid, &runs, &n) < 0)
        return;
    needed = retention_needed(rules, runs, n);
    length =
        (size_t)snprintf(hint, size, "Remove what you do not need, the oldest first: sbxctl rm");
    for (size_t i = 0, named = 0; i < needed && named < NAMED_MAX && length < size; i++) {
        if (runs[i].bytes == 0 && runs[i].files == 0)
            continue;
        length += (size_t)snprintf(hint + length, size - length, " %s", runs[i].id);
        snprintf(sizes + strlen(sizes), sizeof(sizes) - strlen(sizes), "%s%s", named++ ? ", " : "",
                 format_bytes(runs[i].bytes, text));
    }
    if (length < size)
        snprintf(hint + length, size - length, " (%s)", sizes);
}

static void refuse(struct run *run, const char *what, const struct retention_use *use)
{
    json_object *fields = json_object_new_object();
    char used_text[QUANTITY_TEXT], limit_text[QUANTITY_TEXT], reason[256], hint[256];
    uint64_t used, limit;

    find_used(run, what, use, &used, &limit);
    if (strcmp(what, "bytes") == 0)
        snprintf(reason, sizeof(reason), "Your results take %s, and may take %s.",
                 format_bytes(used, used_text), format_bytes(limit, limit_text));
    else
        snprintf(reason, sizeof(reason),
                 "Your results have %" PRIu64 " files, and may have %" PRIu64 ".", used, limit);
    say_hint(run, hint, sizeof(hint));
    (void)json_add_string(fields, "what", what);
    (void)json_add_uint64(fields, "used", used);
    (void)json_add_uint64(fields, "limit", limit);
    (void)json_add_string(fields, "hint", hint);
    run_refuse(run, RUN_REJECTED, "io.sbxctl.Sandbox.QuotaExceeded", fields, reason);
}

bool run_has_room(struct run *run)
{
    const struct retention_rules *rules = &run->manager->config.results;
    struct retention_use use = index_use(run->manager->index, run->uid);
    const char *what = rules->remove_oldest ? NULL : retention_full(rules, &use);

    if (!what)
        return true;
    refuse(run, what, &use);
    return false;
}

/* ---- What the user removed by themselves ---- */

struct reconciliation {
    struct run_index *index;
    uid_t uid;
    json_object *runs; /* that there are */
};

static bool reconcile(const struct index_entry *entry, void *userdata)
{
    const struct reconciliation *reconciliation = userdata;
    json_object *found = NULL;

    if (entry->uid != reconciliation->uid || !entry->final || entry->files == 0)
        return true;
    json_object_object_get_ex(reconciliation->runs, entry->id, &found);
    index_lower_size(reconciliation->index, entry->id,
                     json_object_get_uint64(json_object_object_get(found, "bytes")),
                     json_object_get_uint64(json_object_object_get(found, "files")));
    return true;
}

static void on_surveyed(int error, json_object *result, int fd, void *userdata)
{
    struct run *run = userdata;
    struct reconciliation reconciliation = { run->manager->index, run->uid, NULL };
    json_object *runs = NULL;

    close_fd(fd);
    run->job = store_job_free(run->job);
    if (result)
        json_object_object_get_ex(result, "runs", &runs);
    reconciliation.runs = runs;
    if (error == -ENOENT || (error >= 0 && runs))
        index_foreach(run->manager->index, reconcile, &reconciliation);
    if (run_has_room(run))
        run_approve(run);
}

void run_find_room(struct run *run)
{
    const struct retention_rules *rules = &run->manager->config.results;
    struct retention_use use = index_use(run->manager->index, run->uid);

    if (!rules->remove_oldest && retention_full(rules, &use) &&
        store_survey(run->manager->store, run->uid, on_surveyed, run, &run->job) >= 0)
        return;
    if (run_has_room(run))
        run_approve(run);
}
