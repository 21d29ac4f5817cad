/* How a run is refused because its engine did not do its part, see run-internal.h. */
#include "broker/engines.h"
#include "broker/run-internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void run_refuse_engine(struct run *run, const char *reason, const char *hint)
{
    json_object *fields = json_object_new_object();

    (void)json_add_string(fields, "engine", run->plan.engine);
    (void)json_add_string(fields, "hint", hint);
    run_refuse(run, RUN_REJECTED, "io.sbxctl.Sandbox.EngineUnavailable", fields, reason);
}

static char *others_of(const struct run *run)
{
    return engines_text(run->plan.engine, run->manager->config.cloud_engines);
}

/* Hints at the other engines, and at what the administrator can do to @unit of this one, "socket"
 * or "service". */
static void refuse_with_remedy(struct run *run, const char *reason, const char *remedy,
                               const char *unit)
{
    _cleanup_free_ char *others = others_of(run);
    char hint[256];
    int used = 0;

    if (others && *others)
        used = snprintf(hint, sizeof(hint), "Use --engine with one of: %.80s. ", others);
    snprintf(hint + used, sizeof(hint) - (size_t)used,
             "The administrator can try: systemctl %s sbxctl-engine-%.60s.%s", remedy,
             run->plan.engine, unit);
    run_refuse_engine(run, reason, hint);
}

void run_blame_engine(struct run *run, const char *what, ...)
{
    char did[128], reason[256];
    va_list args;

    va_start(args, what);
    vsnprintf(did, sizeof(did), what, args);
    va_end(args);
    snprintf(reason, sizeof(reason), "The engine '%.60s' %s.", run->plan.engine, did);
    refuse_with_remedy(run, reason, "restart", "service");
}

void run_refuse_failed(struct run *run, const struct engine_error *error)
{
    _cleanup_free_ char *others = others_of(run);
    bool no_way_out = !others || !*others || strcmp(error->phase, "engine") != 0;
    char hint[128];

    snprintf(hint, sizeof(hint), "Until then: --engine %s%.80s",
             !no_way_out && strchr(others, ',') ? "with one of: " : "", no_way_out ? "" : others);
    run_refuse_engine(run, error->message, no_way_out ? NULL : hint);
}

void run_refuse_no_engine(struct run *run, int error)
{
    bool stopped = error == -ENOENT || error == -ECONNREFUSED;
    char reason[256];

    snprintf(reason, sizeof(reason), "The engine '%s' does not answer: %s.", run->plan.engine,
             stopped            ? "its socket is not active"
             : error == -EAGAIN ? "too many are waiting for it"
                                : strerror(-error));
    refuse_with_remedy(run, reason, stopped ? "enable --now" : "restart", "socket");
}

const char *run_engine_error_text(int error)
{
    switch (error) {
    case -EPROTONOSUPPORT:
        return "another version of the protocol, or an unknown message";
    case -EXDEV:
        return "a workspace that belongs to the machine itself";
    case -ENOTDIR:
        return "a workspace that is no directory";
    default:
        return strerror(-error);
    }
}
