/* The list of a caller's runs, see methods-runs.h. A list that is long goes out run by run, as fast
 * as its caller reads: until then it is names only. */
#include "broker/methods-runs.h"
#include "broker/keeper.h"
#include "broker/result.h"
#include "broker/run-id.h"
#include "broker/run.h"

#include <stdio.h>
#include <string.h>

#define LIST_DEFAULT 100
#define LIST_MAX 1000
/* A list waits for its caller above this, far from what the connection bears. */
#define LIST_PENDING_MAX (256 * 1024)

typedef char listed_id[RUN_ID_LENGTH_MAX + 1];

struct listing {
    struct varlink_call *call;
    struct manager *manager;
    uid_t uid;
    listed_id *ids;
    size_t n, allocated, next;
    json_object *held; /* the answer that goes out next: the final one, if no other follows */
};

struct parameters {
    bool active;
    uint64_t limit;
    const char *after;
};

static const struct json_field list_fields[] = {
    { "active", JSON_FIELD_BOOL, offsetof(struct parameters, active), false, 0, 0 },
    { "limit", JSON_FIELD_UINT64, offsetof(struct parameters, limit), false, 1, LIST_MAX },
    { "after", JSON_FIELD_STRING, offsetof(struct parameters, after), false, 0, 64 },
};

static void listing_free(struct listing *listing)
{
    varlink_call_on_gone(listing->call, NULL, NULL);
    varlink_call_on_drained(listing->call, NULL, NULL);
    varlink_call_unref(listing->call);
    json_object_put(listing->held);
    free(listing->ids);
    free(listing);
}

/* ---- Which ones ---- */

struct search {
    struct listing *listing;
    const struct parameters *parameters;
    bool found_after, more;
    int error;
};

static int add_id(struct listing *listing, const char *id)
{
    if (listing->n == listing->allocated) {
        size_t allocated = listing->allocated ? listing->allocated * 2 : 64;
        listed_id *ids = realloc(listing->ids, allocated * sizeof(*ids));
        if (!ids)
            return -ENOMEM;
        listing->ids = ids;
        listing->allocated = allocated;
    }
    snprintf(listing->ids[listing->n++], sizeof(listed_id), "%s", id);
    return 0;
}

static bool search_one(const struct index_entry *entry, void *userdata)
{
    struct search *search = userdata;

    if (entry->uid != search->listing->uid)
        return true;
    if (!search->found_after) {
        search->found_after = strcmp(entry->id, search->parameters->after) == 0;
        return true;
    }
    if (search->parameters->active && entry->final)
        return true;
    search->more = search->listing->n == search->parameters->limit;
    if (search->more)
        return false;
    search->error = add_id(search->listing, entry->id);
    return search->error >= 0;
}

/* ---- Answers ---- */

/* A new reference; NULL if the run is gone meanwhile, or out of memory. */
static json_object *listed_result(const struct listing *listing, const char *id)
{
    const struct index_entry *entry = index_get_owned(listing->manager->index, id, listing->uid);
    struct run *run = run_find(listing->manager, id, listing->uid);

    if (!run && !entry)
        return NULL;
    if (!run) {
        json_object *kept = index_read_short_result(listing->manager->index, id);
        if (kept)
            (void)keeper_add_expiry(listing->manager, kept);
        return kept;
    }
    _cleanup_json_ json_object *result = run_live_result(run);
    return result ? result_without_output(result) : NULL;
}

static int reply_page(struct listing *listing, bool more)
{
    _cleanup_json_ json_object *reply = json_object_new_object();
    json_object *runs = json_object_new_array();

    if (!reply || json_add(reply, "runs", runs) < 0)
        return -ENOMEM;
    for (size_t i = 0; i < listing->n; i++) {
        json_object *result = listed_result(listing, listing->ids[i]);
        if (result && json_append(runs, result) < 0)
            return -ENOMEM;
    }
    if (more && json_add_string(reply, "next", listing->ids[listing->n - 1]) < 0)
        return -ENOMEM;
    return varlink_reply(listing->call, TAKE_PTR(reply));
}

/* Frees the listing with the last answer, or when its caller is gone. */
static void listing_send(struct listing *listing)
{
    int r = 0;

    while (r >= 0 && listing->next < listing->n &&
           varlink_call_pending_output(listing->call) < LIST_PENDING_MAX) {
        json_object *result = listed_result(listing, listing->ids[listing->next++]);

        if (!result)
            continue;
        if (listing->held)
            r = varlink_notify(listing->call, TAKE_PTR(listing->held), NULL, 0);
        listing->held = json_object_new_object();
        (void)json_add(listing->held, "run", result);
    }
    if (r >= 0 && listing->next < listing->n)
        return;
    if (r >= 0)
        (void)varlink_reply(listing->call, TAKE_PTR(listing->held));
    listing_free(listing);
}

static void on_drained(struct varlink_call *call, void *userdata)
{
    listing_send(userdata);
}

static void on_gone(struct varlink_call *call, void *userdata)
{
    listing_free(userdata);
}

static int answer_no_after(struct listing *listing, const char *after)
{
    int r = methods_answer_id(listing->call, "io.sbxctl.Sandbox.NoSuchRun", after);

    listing_free(listing);
    return r;
}

int method_list(struct varlink_call *call, struct manager *manager)
{
    struct parameters parameters = { .limit = varlink_call_wants_more(call) ? UINT64_MAX
                                                                            : LIST_DEFAULT };
    struct search search = { .parameters = &parameters };
    struct listing *listing;
    const char *bad;
    int r;

    if (json_dispatch(varlink_call_parameters(call), list_fields, ELEMENTS(list_fields), false,
                      &parameters, &bad) < 0)
        return varlink_error_invalid_parameter(call, bad);
    listing = calloc(1, sizeof(*listing));
    if (!listing)
        return -ENOMEM;
    listing->call = varlink_call_ref(call);
    listing->manager = manager;
    listing->uid = varlink_call_peer(call)->uid;
    search.listing = listing;
    search.found_after = !parameters.after;
    index_foreach(manager->index, search_one, &search);
    if (!search.found_after)
        return answer_no_after(listing, parameters.after);
    r = search.error;
    if (r >= 0 && varlink_call_wants_more(call)) {
        varlink_call_on_gone(call, on_gone, listing);
        varlink_call_on_drained(call, on_drained, listing);
        listing_send(listing);
        return 0;
    }
    if (r >= 0)
        r = reply_page(listing, search.more);
    listing_free(listing);
    return r;
}
