/* The packages of a run, from the claim of a layer to the layer, or to the refusal. A run without
 * packages has none of this. */
#include "broker/layers.h"
#include "broker/run-internal.h"
#include "broker/run.h"

#include <stdio.h>
#include <string.h>

static void on_progress(const struct install_progress *progress, void *userdata)
{
    struct run *run = userdata;
    json_object *more = json_object_new_object();

    (void)json_add_string(more, "phase", progress->phase);
    (void)json_add_uint64(more, "current", progress->current);
    (void)json_add_uint64(more, "total", progress->total);
    (void)json_add_string(more, "package", progress->name[0] ? progress->name : NULL);
    run_notify(run, "progress", more, NULL, 0);
}

static void refuse(struct run *run, const struct layer_result *result)
{
    const struct install_failure *failure = result->failure;
    json_object *fields;

    if (result->engine_failed) {
        run_refuse_engine(run, failure->reason, failure->hint[0] ? failure->hint : NULL);
        return;
    }
    fields = json_object_new_object();
    (void)json_add_string(fields, "kind", failure->kind);
    (void)json_add_string(fields, "package", failure->package[0] ? failure->package : NULL);
    (void)json_add_string(fields, "hint", failure->hint[0] ? failure->hint : NULL);
    run_refuse(run, RUN_REJECTED, "io.sbxctl.Sandbox.PackagesUnavailable", fields, failure->reason);
}

static void on_settled(const struct layer_result *result, void *userdata)
{
    struct run *run = userdata;
    json_object *bytes = result->facts ? json_object_object_get(result->facts, "bytes") : NULL;
    const struct run_packages_record record = {
        .key = result->key,
        .resolved = result->resolved,
        .outcome = result->failure     ? result->failure->reason
                   : result->installed ? "installed"
                                       : "found",
        .bytes = json_object_get_uint64(bytes),
        .usec = result->usec,
    };

    if (run_audit_packages(run, &record) < 0 && run->manager->config.audit_required &&
        !result->failure) {
        run_refuse(run, RUN_REJECTED, "io.sbxctl.Sandbox.AuditUnavailable", NULL,
                   "The journal took no record of the packages, so nothing was run.");
        return;
    }
    if (result->failure) {
        refuse(run, result);
        return;
    }
    snprintf(run->layer, sizeof(run->layer), "%s", result->key);
    if (run->plan.image)
        snprintf(run->layer_image, sizeof(run->layer_image), "%s", result->image_digest);
    run->resolved = json_object_get(result->resolved);
    run_needs_less(run);
    run_prepare(run);
}

void run_install(struct run *run)
{
    const struct install_request request = {
        .uid = run->uid,
        .engine = run->plan.engine,
        .image = run->plan.image,
        .interpreter = run->plan.language->interpreter,
        .ecosystem = run->plan.ecosystem,
        .packages = run->plan.packages,
        .n_packages = run->plan.n_packages,
        .require_hashes = run->plan.require_hashes,
    };
    const struct layer_callbacks callbacks = { on_progress, on_settled, run };

    run->state = STATE_INSTALLING;
    int r = layers_claim(run->manager->layers, &request, &callbacks, &run->claim);
    if (r == -ENOENT || r == -ECONNREFUSED || r == -EAGAIN || r == -EACCES)
        run_refuse_no_engine(run, r);
    else if (r < 0)
        run_refuse(run, RUN_REJECTED, "io.sbxctl.Sandbox.Failed", NULL,
                   "The packages could not be asked for.");
}

void run_add_layer(const struct run *run, struct engine_start *start)
{
    if (!run->layer[0])
        return;
    memcpy(start->layer, run->layer, sizeof(start->layer));
    start->layer_target =
        run->plan.ecosystem == ECOSYSTEM_NODE ? ENGINE_TARGET_NODE_MODULES : ENGINE_TARGET_PACKAGES;
}

bool run_layer_fits(const struct run *run)
{
    return !run->layer_image[0] || strcmp(run->layer_image, run->image_digest) == 0;
}
